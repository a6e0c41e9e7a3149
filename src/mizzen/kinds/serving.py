"""InferenceModel: a served model, that is a version, a place and a number of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from mizzen.errors import Fault
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.parts.pods import PodTemplate, image_warning, unrunnable_images
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.parts.tensors import TensorMetadata, TensorValue
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Part, Planned, Present, Ref, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.names import Name, NameOrNothing
from mizzen.kinds.text.quantities import Gpu, ResourceRequirements, gpu_warning
from mizzen.kinds.text.urls import FileUrl, Sha256sum
from mizzen.kinds.text.versions import Version, VersionOrNothing

Layer = Literal["cloud", "edge"]

LARGEST_BATCH = 4096
DEFAULT_BATCH = 64
MIB = 2**20
CEILING_MS = 60_000


def workload_name(inference_model: str, version: str) -> str:
    """The name of the first Workload for this version and InferenceModel; `kinds/rules/workload_template.py` names
    further ones."""
    return f"{inference_model}.{version}"


def url_of(inference_url: str, inference_model: Ref) -> str:
    """The URL of this InferenceModel in the inference API."""
    namespace = inference_model.namespace
    within = "" if namespace == DEFAULT_NAMESPACE else f"/ns/{namespace}"
    return f"{inference_url}{within}/v2/models/{inference_model.name}"


def _batch_size(value: Any, inner: ValidatorFunctionWrapHandler) -> int | Literal["auto"]:
    # Replaces pydantic's validation of a union, which reports one error for each member.
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_BATCH:
        return value
    raise ValueError(f"must be a whole number from 1 to {LARGEST_BATCH}, or 'auto'")


class Batching(Part):
    batch_size: Annotated[int | Literal["auto"], WrapValidator(_batch_size)] = Field(
        DEFAULT_BATCH, description="The most requests in one batch; `auto` finds the best size within `timeoutMs`."
    )
    timeout_seconds: float | None = Field(
        None, ge=0, le=60, description="How long a batch may wait to fill up. Default: batches do not wait."
    )

    @property
    def most(self) -> int:
        """The largest possible batch."""
        return LARGEST_BATCH if self.batch_size == "auto" else self.batch_size


class Cache(Part):
    """Each gateway process caches responses, so that equal requests cost one call of the model."""

    max_bytes: int = Field(32 * MIB, ge=1, description="The most bytes in the cache of one gateway process.")


class Feedback(Part):
    """Keeps records of requests, so that feedback finds what served a request."""

    max_bytes: int = Field(256 * MIB, ge=1, description="The most bytes of records in each gateway.")
    max_age: Duration = Field("24h", description="How long to keep a record, such as `24h`.")


class AutoScale(Part):
    """Scales replicas with the requests in flight: up at once, down after `quietSeconds`."""

    min_replicas: int = Field(
        1, ge=0, le=1000, description="The fewest replicas. With 0, none runs while idle; a request starts one."
    )
    max_replicas: int = Field(ge=1, le=1000, description="The most replicas.")
    target: int | None = Field(
        None, ge=1, description="The target of requests in flight per replica. Default: the batch size, else 4."
    )
    quiet_seconds: float = Field(
        300, ge=1, le=86_400, description="How long replicas must be unneeded before they are stopped."
    )
    standby: int = Field(
        0, ge=0, le=1000, description="Additional replicas that are kept loaded and ready, even while idle."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.min_replicas > self.max_replicas and context.was_read(at, "maxReplicas"):
            yield Fault(f"{at}.minReplicas", f"{self.min_replicas} is above maxReplicas, which is {self.max_replicas}")
        if self.min_replicas < self.standby and "min_replicas" in self.model_fields_set:
            idle = min(self.standby, self.max_replicas)
            yield Warn(f"{at}.standby", f"{idle} replicas keep running while idle, which is more than minReplicas")


class ModelFile(Part):
    """One version of the model, as an archive to download."""

    version: Version = Field(description="The version in the archive.")
    download_url: FileUrl = Field(alias="downloadURL", description="The URL of the archive: http(s), s3 or file.")
    sha256sum: Sha256sum | None = Field(
        None, alias="sha256sum", description="The sha256 of the archive, which is verified before it is served."
    )
    insecure_skip_verify: bool = Field(False, description="Serve the archive without a checksum to verify it.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.insecure_skip_verify:
            yield Warn(f"{at}.insecureSkipVerify", "the archive is served without being verified")
        elif self.sha256sum is None and context.was_read(at, "sha256sum", "insecureSkipVerify"):
            yield Fault(f"{at}.sha256sum", "required, unless insecureSkipVerify is true")


class InferenceModelSpec(Spec):
    """Serves an `image`; else a version of the `manifest`; else a registered version."""

    required_of_users: ClassVar[frozenset[str]] = frozenset({"deploy_to_layer", "framework_type"})

    model_name: Name = Field(description="The model to serve. Several InferenceModels may serve the same model.")
    deploy_to_layer: Layer = Field("cloud", description="The layer to run in: `cloud` or `edge`.")
    framework_type: Framework | None = Field(
        None, description="The framework that loads it. Default: that of the version."
    )
    node_selector: Annotated[dict[str, str], MaxItems(256)] = Field(
        default_factory=dict, description="Labels that the node must have."
    )
    node_name: NameOrNothing = Field("", description="The node to run on; it must satisfy `nodeSelector`.")
    image: str = Field("", description="A container image that serves the model. Empty means not set.")
    manifest: Annotated[tuple[ModelFile, ...], MaxItems(1000)] = Field(
        (), description="Archives of versions; `targetVersion` selects one."
    )
    target_version: VersionOrNothing = Field(
        None, description="The version to serve, or an alias of the model. Default: the model's current version."
    )
    serving_port: int | None = Field(
        None, ge=0, le=65535, description="A dedicated port. 0 or absent: none, or 8501 on a cluster."
    )
    replicas: int = Field(1, ge=0, le=1000, description="The number of replicas; 0 stops serving.")
    extra_names: Annotated[tuple[Name, ...], MaxItems(256), Planned()] = Field(
        (), description="Additional names for callers. An object that has such a name takes precedence."
    )
    follow_alias: bool = Field(
        False, description="Switch versions when the alias moves. Without `targetVersion`, follow the current version."
    )
    checkpoint: str | None = Field(
        None, min_length=1, description="A checkpoint of the version, by id. Default: the newest when serving begins."
    )
    auto_scale: Annotated[AutoScale | None, Present] = Field(
        None, description="Scale the number of replicas with load, starting with `replicas`."
    )
    batching: Annotated[Batching | None, Present] = Field(
        None, description="Batch requests for Python functions, too. Model files are always batched."
    )
    cache: Annotated[Cache | None, Present] = Field(
        None,
        description="If set, even to an empty object, gateways cache responses, so that only one of several equal "
        "requests reaches the model. Only for deterministic models.",
    )
    timeout_ms: int | None = Field(
        None, ge=1, le=CEILING_MS, description="The deadline of a request in milliseconds, at most 60 s."
    )
    default_output: Annotated[tuple[TensorValue, ...] | None, MaxItems(256)] = Field(
        None,
        description="The response if the model misses the deadline, or no replica is ready. An output whose shape "
        "begins with 1 is for one row, and is repeated for each row of a request.",
    )
    inputs: Annotated[tuple[TensorMetadata, ...], MaxItems(256)] = Field(
        (), description="The inputs of the model. Default: as the model declares them."
    )
    outputs: Annotated[tuple[TensorMetadata, ...], MaxItems(256)] = Field(
        (), description="The outputs of the model. Default: as the model declares them."
    )
    gpu: Gpu | None = Field(None, description="A share of one GPU, such as 0.5, or a number of whole GPUs.")
    resources: ResourceRequirements | None = Field(None, description="The resources of each replica.")
    env: Annotated[tuple[EnvVar, ...], MaxItems(256)] = Field(
        (), description="Environment variables: values, or references to secrets."
    )
    idempotent: bool = Field(True, description="Whether a request may be retried if the process that handled it died.")
    feedback: Annotated[Feedback | None, Present] = Field(
        None,
        description="If set, even to an empty object, gateways record requests, so that callers can give feedback.",
    )
    switch: Annotated[Literal["overlap", "replace"], Planned()] = Field(
        "overlap",
        description="How an edge node switches to a new version. `overlap`: start it next to the old one until it is "
        "ready; `replace`: stop the old one first.",
    )
    template: PodTemplate | None = Field(None, description="The pod to run in, on a cluster.")

    @property
    def scaling(self) -> AutoScale | None:
        """The autoscaling in effect: None if serving is stopped, or on the edge, where one process runs."""
        return self.auto_scale if self.replicas > 0 and self.deploy_to_layer != "edge" else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework_type, f"{at}.frameworkType")
        yield from self._what_is_served(at, context)
        yield from self._where_it_runs(at, context)
        yield from self._how_it_answers(at, context)
        yield from uniqueness.name_faults(self.env, f"{at}.env", "variable")
        for index, name in enumerate(self.extra_names):
            if name == context.name:
                yield Fault(f"{at}.extraNames[{index}]", f"'{name}' is already its own name")
        yield from uniqueness.word_faults(self.extra_names, f"{at}.extraNames")

    def _what_is_served(self, at: str, context: Context) -> Iterator[Finding]:
        if self.image:
            yield from self._warn_ignored(at, "image", "an image is given")
            return
        if self.manifest:
            yield from self._warn_ignored(at, "manifest", "a manifest is given")
            yield from _target_faults(self.manifest, self.target_version, at)
        elif (
            self.follow_alias and (self.target_version or "").isdecimal() and context.was_read(at, "image", "manifest")
        ):
            yield Fault(
                f"{at}.followAlias",
                f"targetVersion {self.target_version} is a version, not an alias, so there is nothing to follow",
            )

    def _warn_ignored(self, at: str, by: str, because: str) -> Iterator[Warn]:
        """A warning for fields without effect, given where the model comes from."""
        fields = ("manifest", "targetVersion", "followAlias", "checkpoint")
        values = (self.manifest, self.target_version, self.follow_alias, self.checkpoint)
        unused = [name for name, value in zip(fields, values, strict=True) if value]
        if by == "manifest":
            unused = [name for name in unused if name in ("followAlias", "checkpoint")]
        if unused:
            yield Warn(f"{at}.{by}", f"{_subject(unused)} ignored, because {because}")

    def _where_it_runs(self, at: str, context: Context) -> Iterator[Finding]:
        so = f"'{context.name or self.model_name}' stays not ready"
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", so)
        if self.template is not None:
            yield from unrunnable_images(self.template.spec, f"{at}.template.spec", context, so)
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        if self.deploy_to_layer == "edge" and self.replicas > 1:
            yield Warn(f"{at}.replicas", f"the edge runs one process, not {self.replicas}")
        if self.deploy_to_layer == "edge" and self.auto_scale is not None:
            yield Warn(f"{at}.autoScale", "ignored: the edge runs one process")
        elif self.auto_scale is not None and self.replicas and "replicas" in self.model_fields_set:
            least, most = self.auto_scale.min_replicas, self.auto_scale.max_replicas
            start = min(max(self.replicas, least), most)
            if least <= most and start != self.replicas:
                yield Warn(f"{at}.replicas", f"starts with {start}: autoScale allows {least} to {most}")

    def _how_it_answers(self, at: str, context: Context) -> Iterator[Finding]:
        automatic = self.batching is not None and self.batching.batch_size == "auto"
        if automatic and self.timeout_ms is None and context.was_read(at, "timeoutMs"):
            yield Fault(f"{at}.batching.batchSize", "'auto' needs spec.timeoutMs, the latency limit")
        if self.cache is not None and not self.idempotent and context.was_read(at, "idempotent"):
            yield Fault(f"{at}.cache", "requires spec.idempotent, because a cached response skips the model")
        yield from uniqueness.name_faults(self.inputs, f"{at}.inputs", "tensor")
        yield from uniqueness.name_faults(self.outputs, f"{at}.outputs", "tensor")
        if self.default_output is not None:
            yield from default_output_faults(self.default_output, self.outputs, f"{at}.defaultOutput")
            yield from self._default_shapes(self.default_output, at, context)

    def _default_shapes(self, answer: tuple[TensorValue, ...], at: str, context: Context) -> Iterator[Fault]:
        declared = {output.name: output.shape for output in self.outputs}
        if not context.is_complete(f"{at}.outputs"):
            return
        for index, tensor in enumerate(answer):
            place, wanted = f"{at}.defaultOutput[{index}].shape", declared.get(tensor.name)
            if wanted is not None and context.is_complete(place) and not _is_one_row(tensor.shape, wanted):
                row = [1 if at_ == 0 and size == -1 else size for at_, size in enumerate(wanted)]
                yield Fault(place, f"must be {row}, the shape of the output for one row")


def default_output_faults(
    answer: tuple[TensorValue, ...], outputs: Iterable[TensorMetadata], at: str
) -> Iterator[Fault]:
    """Faults of a default output by itself, and compared with the declared outputs, if any.

    An output whose name or type could not be read is not compared.
    """
    if not answer:
        yield Fault(at, "must have at least 1 entry")
    yield from uniqueness.name_faults(answer, at, "tensor")
    declared = {output.name: output for output in outputs}
    for index, tensor in enumerate(answer):
        wanted = declared.get(tensor.name)
        if declared and wanted is None and all(declared):
            hint = suggestion(tensor.name, tuple(declared), "outputs")
            yield Fault(f"{at}[{index}].name", f"no output '{tensor.name}'; {hint}")
        elif wanted is not None and wanted.datatype not in ("", tensor.datatype):
            yield Fault(f"{at}[{index}].datatype", f"must be {wanted.datatype}, the type of the output")


def _is_one_row(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether `shape` fits one row: a first dimension of -1 counts rows, and a default is repeated for each row."""
    fits = len(shape) == len(wanted) and all(size in (-1, given) for size, given in zip(wanted, shape, strict=True))
    return fits and (wanted[:1] != (-1,) or shape[0] == 1)


def _target_faults(manifest: tuple[ModelFile, ...], target: str | None, at: str) -> Iterator[Fault]:
    versions = [file.version for file in manifest]
    for index, version in uniqueness.repeats(versions):
        yield Fault(f"{at}.manifest[{index}].version", f"version {version} is given twice")
    listed = ", ".join(dict.fromkeys(filter(None, versions)))
    if target is None and len(versions) > 1:
        yield Fault(f"{at}.targetVersion", f"required, because the manifest has several versions: {listed}")
    if (
        target is not None and target not in versions and all(versions)
    ):  # a version that could not be read may be the target
        yield Fault(f"{at}.targetVersion", f"no version {target} in the manifest; versions are {listed}")


def _subject(words: list[str]) -> str:
    if len(words) == 1:
        return f"{words[0]} is"
    return f"{', '.join(words[:-1])} and {words[-1]} are"


class InferenceModelStatus(Status):
    """Conditions: `Accepted` (the spec is valid), `Ready` (the version that the spec asks for serves requests).

    During a switch, `Ready` describes the new version; `servingVersion`, `url` and the replicas describe the old one.
    """

    url: str | None = Field(default=None, description="Where to send inference requests, while it serves.")
    target_version: str | None = Field(
        default=None, description="The resolved version, if `spec.targetVersion` is an alias or absent."
    )
    serving_version: str | None = Field(
        default=None, description="The version that serves requests. It changes once the new version is ready."
    )
    serving_workload: str | None = Field(
        default=None,
        description="The Workload that serves requests. A new one takes over once all of its own replicas are ready.",
    )
    serving_files: str = Field(
        default="", description="The digest of the files of `servingVersion`. Only replicas with these files serve it."
    )
    checkpoint: str | None = Field(
        default=None,
        description="The resolved checkpoint, if `spec.checkpoint` is absent: the newest one when the version was "
        "first served. It does not change when new ones are saved.",
    )
    serving_checkpoint: str | None = Field(
        default=None, description="The checkpoint of `servingVersion` that serves. Absent: the version's own files."
    )
    signature: Signature | None = Field(
        default=None, description="The inputs and outputs, as reported by its replicas."
    )
    replicas: int = Field(default=0, description="The current number of replicas.")
    desired_replicas: int | None = Field(
        default=None, description="The number of replicas that `autoScale` wants. Absent: `spec.replicas` applies."
    )
    desired_since: str | None = Field(default=None, description="When `desiredReplicas` last changed, in UTC.")
    desired_reason: str = Field(default="", description="Why `desiredReplicas` last changed.")
    ready_replicas: int = Field(default=0, description="The number of ready replicas.")
    restarts: int = Field(default=0, description="How often replicas were restarted.")
