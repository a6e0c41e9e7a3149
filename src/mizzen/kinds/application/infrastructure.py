"""Properties of the components that prepare infrastructure: clusters, buckets, charts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, name_fault
from mizzen.kinds.schema.size_limits import Most

_BUCKET = re.compile(r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]")
_CHARTS_WITHOUT_REPO = ("oci://", "http://", "https://", "/", "./", "../")


def _bucket(name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise ValueError(
            f"{name[:100]!r} is no name of a bucket: 3 to 63 lower-case letters, digits, '-' and '.', no mark at an end"
        )
    return name


class ClusterProperties(Part):
    """A Kubernetes cluster, made by Terraform or there already."""

    provider: Literal["alibaba", "existing"] = Field(description="Who runs it; `existing` is there already.")
    resource: Literal["ACK", "ASK"] | None = Field(None, description="With alibaba: managed (ACK) or serverless (ASK).")
    version: str | None = Field(None, description="The version of Kubernetes, such as `v1.20`.")
    region: str | None = Field(None, description="Where the provider runs it.")
    kubeconfig: str | None = Field(
        None, description="With existing: the path of a kubeconfig on the plane's machine; never its content."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not context.read(at, "provider"):
            return
        if self.provider == "alibaba":
            if self.resource is None:
                yield Fault(f"{at}.resource", "required with provider 'alibaba'; valid are ACK, ASK")
            if self.kubeconfig is not None:
                yield Fault(f"{at}.kubeconfig", "belongs to provider 'existing'")
            return
        if not self.kubeconfig:
            yield Fault(f"{at}.kubeconfig", "required with provider 'existing'")
        elif "\n" in self.kubeconfig:
            yield Fault(f"{at}.kubeconfig", "must be a path: credentials never stand in a manifest")
        if self.resource is not None:
            yield Fault(f"{at}.resource", "belongs to provider 'alibaba'")


class BucketProperties(Part):
    """A bucket for objects. `local` is a folder of the plane."""

    provider: Literal["alibaba", "aws", "local"] = Field(description="Who keeps it.")
    bucket: Annotated[str, AfterValidator(_bucket)] = Field(description="Its name at the provider.")
    region: str | None = Field(None, description="Where the provider keeps it.")


class ChartProperties(Part):
    """A release of a Helm chart."""

    repo: str | None = Field(None, description="URL of the chart's repository; not needed for `oci://…` or a path.")
    chart: str = Field(min_length=1, description="The chart's name in the repository.")
    version: str | None = Field(None, description="The chart's version; the newest by default.")
    namespace: str | None = Field(None, description="The namespace it is installed in.")
    create_namespace: bool = Field(
        False, alias="create-namespace", description="Make the namespace when it is not there."
    )
    values: Annotated[dict[str, Any], Most(10_000)] = Field(
        default_factory=dict, description="Values of the chart, passed on as they stand."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        addressed = self.chart.startswith(_CHARTS_WITHOUT_REPO) or not context.read(at, "chart")
        if not self.repo and not addressed:
            yield Fault(f"{at}.repo", "required, as the chart is neither an address nor a path")
        fault = name_fault(self.namespace, f"{at}.namespace") if self.namespace is not None else None
        if fault:
            yield fault
