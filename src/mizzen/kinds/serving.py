"""InferenceModel: one serving service, that is a version, a place and a number of replicas."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mizzen.kinds.meta import DEFAULT_NAMESPACE, Part, Ref, Spec, Status
from mizzen.kinds.model import Framework, Version


def workload_name(inference_model: str, version: str) -> str:
    """The Workload that serves this version for this InferenceModel."""
    return f"{inference_model}.{version}"


def url_of(inference_url: str, inference_model: Ref) -> str:
    """Where the inference API answers for this InferenceModel."""
    namespace = inference_model.namespace
    within = "" if namespace == DEFAULT_NAMESPACE else f"/ns/{namespace}"
    return f"{inference_url}{within}/v2/models/{inference_model.name}"


class Batching(Part):
    batch_size: int = Field(64, ge=1, le=4096, description="Most requests that one call of the model may answer.")


class InferenceModelSpec(Spec):
    model_name: str = Field(min_length=1)
    target_version: Version = Field(description="The ModelVersion of `modelName` to serve.")
    deploy_to_layer: Literal["cloud", "edge"] = "cloud"
    framework_type: Framework | None = Field(None, description="Default: the framework of the version.")
    replicas: int = Field(1, ge=0, le=64)
    timeout_ms: int | None = Field(None, ge=1, le=60_000, description="Deadline of a request; the ceiling is 60 s.")
    batching: Batching | None = Field(
        None, description="Given, requests may share a call of a Python function too; scikit-learn models always batch."
    )
    idempotent: bool = Field(True, description="May a request be sent again when the process that had it died?")


class InferenceModelStatus(Status):
    """Conditions: `Accepted` (the spec can be served), `Ready` (a replica of the target version answers).

    During a switch `Ready` speaks of the new version, `servingVersion` and `url` of the one that still answers.
    """

    url: str | None = Field(None, description="Where to send inference requests while serving.")
    serving_version: str | None = Field(None, description="Moves only after the new version has answered readiness.")
    replicas: int = 0
    ready_replicas: int = 0
    restarts: int = 0
