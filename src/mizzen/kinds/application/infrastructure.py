"""Properties of infrastructure components: clusters, buckets, charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, name_faults
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.names import BucketName

_CHARTS_WITHOUT_REPO = ("oci://", "http://", "https://", "/", "./", "../")


class ClusterProperties(Part):
    """A Kubernetes cluster, created by Terraform or existing."""

    provider: Literal["alibaba", "existing"] = Field(
        description="The provider; `existing` means a cluster that already exists."
    )
    resource: Literal["ACK", "ASK"] | None = Field(
        None, description="With `alibaba`: managed (ACK) or serverless (ASK)."
    )
    version: str | None = Field(None, description="The version of Kubernetes, such as `v1.20`.")
    region: str | None = Field(None, description="The region of the provider.")
    kubeconfig: str | None = Field(
        None, description="With `existing`: the path of a kubeconfig on the plane's machine, never its content."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not context.was_read(at, "provider"):
            return
        if self.provider == "alibaba":
            if self.resource is None:
                yield Fault(f"{at}.resource", "required with provider 'alibaba'; valid are ACK, ASK")
            if self.kubeconfig is not None:
                yield Fault(f"{at}.kubeconfig", "only possible with provider 'existing'")
            return
        if not self.kubeconfig:
            yield Fault(f"{at}.kubeconfig", "required with provider 'existing'")
        elif "\n" in self.kubeconfig:
            yield Fault(f"{at}.kubeconfig", "must be a path: a manifest must not contain credentials")
        if self.resource is not None:
            yield Fault(f"{at}.resource", "only possible with provider 'alibaba'")


class BucketProperties(Part):
    """A bucket for objects. With `local`, it is a folder of the plane."""

    provider: Literal["alibaba", "aws", "local"] = Field(description="The provider.")
    bucket: BucketName = Field(description="The name of the bucket at the provider.")
    region: str | None = Field(None, description="The region of the provider.")


class ChartProperties(Part):
    """A release of a Helm chart."""

    repo: str | None = Field(None, description="The URL of the chart's repository; not needed for `oci://…` or a path.")
    chart: str = Field(min_length=1, description="The name of the chart in the repository.")
    version: str | None = Field(None, description="The version of the chart. Default: the newest.")
    namespace: str | None = Field(None, description="The namespace to install it in.")
    create_namespace: bool = Field(
        False, alias="create-namespace", description="Create the namespace if it does not exist."
    )
    values: Annotated[dict[str, Any], MaxItems(10_000)] = Field(
        default_factory=dict, description="The values of the chart, passed on unchanged."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        addressed = self.chart.startswith(_CHARTS_WITHOUT_REPO) or not context.was_read(at, "chart")
        if not self.repo and not addressed:
            yield Fault(f"{at}.repo", "required, since the chart is neither a URL nor a path")
        if self.namespace is not None:
            yield from name_faults(self.namespace, f"{at}.namespace")
