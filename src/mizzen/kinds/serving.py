"""InferenceModel: one serving service, that is a version, a place and a number of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from mizzen.errors import Fault
from mizzen.kinds.parts import env, one_of, tensors
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.parts.pods import PodTemplate, image_warning, unrunnable_images
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.parts.tensors import Tensor, TensorSpec
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Part, Present, Ref, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.durations import Duration
from mizzen.kinds.text.frameworks import Framework, framework_warning
from mizzen.kinds.text.names import Name, NameOrNothing
from mizzen.kinds.text.quantities import Gpu, Resources, gpu_warning
from mizzen.kinds.text.urls import FileUrl, Sha256sum
from mizzen.kinds.text.versions import Version, VersionOrNothing

Layer = Literal["cloud", "edge"]

LARGEST_BATCH = 4096
DEFAULT_BATCH = 64
MIB = 2**20
CEILING_MS = 60_000


def workload_name(inference_model: str, version: str) -> str:
    """The first Workload that serves this version for this InferenceModel; `kinds/rules/workload_template.py` names
    further ones."""
    return f"{inference_model}.{version}"


def url_of(inference_url: str, inference_model: Ref) -> str:
    """Where the inference API answers for this InferenceModel."""
    namespace = inference_model.namespace
    within = "" if namespace == DEFAULT_NAMESPACE else f"/ns/{namespace}"
    return f"{inference_url}{within}/v2/models/{inference_model.name}"


def _batch_size(value: Any, inner: ValidatorFunctionWrapHandler) -> int | Literal["auto"]:
    # In place of pydantic's answer for a union, which is one error for each member.
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_BATCH:
        return value
    raise ValueError(f"must be a whole number from 1 to {LARGEST_BATCH}, or 'auto'")


class Batching(Part):
    batch_size: Annotated[int | Literal["auto"], WrapValidator(_batch_size)] = Field(
        DEFAULT_BATCH,
        description="Most requests that one call of the model may answer; `auto` finds out, within `timeoutMs`.",
    )
    timeout_seconds: float | None = Field(
        None, ge=0, le=60, description="How long a batch may wait to fill. Without it, none waits."
    )

    @property
    def most(self) -> int:
        """The largest batch there may be."""
        return LARGEST_BATCH if self.batch_size == "auto" else self.batch_size


class Cache(Part):
    """Answers kept by each gateway process, so that equal requests cost one call."""

    max_bytes: int = Field(32 * MIB, ge=1, description="Most bytes that are kept.")


class Feedback(Part):
    """Records that let feedback find what answered a request."""

    max_bytes: int = Field(256 * MIB, ge=1, description="Most bytes of records that each gateway keeps.")
    max_age: Duration = Field("24h", description="How long a record is kept, such as `24h`.")


class AutoScale(Part):
    """Replicas follow the requests in flight: up at once, down after five quiet minutes."""

    min_replicas: int = Field(
        1, ge=0, le=1000, description="Fewest replicas. 0: none while nobody asks; the next request starts one."
    )
    max_replicas: int = Field(ge=1, le=1000, description="Most replicas.")
    target: int | None = Field(
        None, ge=1, description="Requests in flight for each replica. Default: the batch size if there is one, else 4."
    )
    quiet_seconds: float = Field(
        300, ge=1, le=86_400, description="Replicas are ended when no more of them were needed for so long."
    )
    standby: int = Field(
        0,
        ge=0,
        le=1000,
        description="Replicas beyond those that are needed, also while nobody asks: they wait, loaded.",
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.min_replicas > self.max_replicas and context.read(at, "maxReplicas"):
            yield Fault(f"{at}.minReplicas", f"{self.min_replicas} is above maxReplicas, {self.max_replicas}")
        if self.min_replicas < self.standby and "min_replicas" in self.model_fields_set:
            idle = min(self.standby, self.max_replicas)
            yield Warn(f"{at}.standby", f"{idle} stay while nobody asks, which is more than minReplicas")


class ModelFile(Part):
    """One version of the model as an archive to be fetched."""

    version: Version = Field(description="The version that this is.")
    download_url: FileUrl = Field(alias="downloadURL", description="Where its archive is: http(s), s3 or file.")
    sha256sum: Sha256sum | None = Field(
        None, alias="sha256sum", description="sha256 of the archive, compared before anything is served from it."
    )
    insecure_skip_verify: bool = Field(False, description="Serve it although nobody says what it must be.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.insecure_skip_verify:
            yield Warn(f"{at}.insecureSkipVerify", "the archive is served without being verified")
        elif self.sha256sum is None and context.read(at, "sha256sum", "insecureSkipVerify"):
            yield Fault(f"{at}.sha256sum", "required, unless insecureSkipVerify is true")


class InferenceModelSpec(Spec):
    """What is served comes from an `image`; else from the `manifest`; else from the registry."""

    required_of_users: ClassVar[frozenset[str]] = frozenset({"deploy_to_layer", "framework_type"})

    model_name: Name = Field(description="The model that is served. Several InferenceModels may serve one.")
    deploy_to_layer: Layer = Field("cloud", description="Where it runs: `cloud` or `edge`.")
    framework_type: Framework | None = Field(None, description="What loads it; the version's framework where absent.")
    node_selector: Annotated[dict[str, str], Most(256)] = Field(
        default_factory=dict, description="Labels that its node must have."
    )
    node_name: NameOrNothing = Field("", description="The one node it may run on; it must satisfy `nodeSelector`.")
    image: str = Field("", description="A container image that serves the model. Empty: not given.")
    manifest: Annotated[tuple[ModelFile, ...], Most(1000)] = Field(
        (), description="Archives of versions, of which `targetVersion` picks one."
    )
    target_version: VersionOrNothing = Field(
        None, description="The version to serve, or an alias of the model. Absent: the model's current version."
    )
    serving_port: int | None = Field(
        None, ge=0, le=65535, description="A port of its own. 0 or absent: none, or 8501 on a cluster."
    )
    replicas: int = Field(1, ge=0, le=1000, description="How many processes serve it; 0 stops serving.")
    extra_names: Annotated[tuple[Name, ...], Most(256)] = Field(
        (), description="Further names that callers may use; they yield to a real owner of such a name."
    )
    follow_alias: bool = Field(
        False, description="Switch whenever the alias (or, without `targetVersion`, the current version) moves."
    )
    checkpoint: str | None = Field(
        None,
        min_length=1,
        description="A checkpoint of the version, by its id. Absent: the newest there is when it begins to serve.",
    )
    auto_scale: Annotated[AutoScale | None, Present] = Field(
        None, description="Lets the number of replicas follow the load; `replicas` is what it starts with."
    )
    batching: Annotated[Batching | None, Present] = Field(
        None, description="Given, requests may share a call of a Python function too; model files batch by themselves."
    )
    cache: Annotated[Cache | None, Present] = Field(
        None,
        description="Given, even empty, gateways keep answers: of equal requests one reaches the model. For models that"
        " answer the same to the same.",
    )
    timeout_ms: int | None = Field(None, ge=1, le=CEILING_MS, description="Deadline of a request; the ceiling is 60 s.")
    default_output: Annotated[tuple[Tensor, ...] | None, Most(256)] = Field(
        None,
        description="The answer when there is none within the deadline, or nothing is ready. An output whose shape"
        " begins with 1 is that of one row, and is repeated for each row of a request.",
    )
    inputs: Annotated[tuple[TensorSpec, ...], Most(256)] = Field(
        (), description="The inputs it takes. Absent: as the model declares them."
    )
    outputs: Annotated[tuple[TensorSpec, ...], Most(256)] = Field(
        (), description="The outputs it gives. Absent: as the model declares them."
    )
    gpu: Gpu | None = Field(None, description="A share of one GPU, such as 0.5, or a number of whole ones.")
    resources: Resources | None = Field(None, description="What each replica may use.")
    env: Annotated[tuple[EnvVar, ...], Most(256)] = Field(
        (), description="Variables of its environment: values and references to secrets."
    )
    idempotent: bool = Field(True, description="May a request be sent again when the process that had it died?")
    feedback: Annotated[Feedback | None, Present] = Field(
        None, description="Given, even empty, requests are recorded so that feedback can be given."
    )
    switch: Literal["overlap", "replace"] = Field(
        "overlap", description="For a new version on the edge: beside the old one until it answers, or in its place."
    )
    template: PodTemplate | None = Field(None, description="The pod it runs in, where there are pods.")

    @property
    def scaling(self) -> AutoScale | None:
        """What scales it, if anything does: not what is stopped, nor on the edge, where one process runs."""
        return self.auto_scale if self.replicas > 0 and self.deploy_to_layer != "edge" else None

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework_type, f"{at}.frameworkType")
        yield from self._what_is_served(at, context)
        yield from self._where_it_runs(at, context)
        yield from self._how_it_answers(at, context)
        yield from env.repeated(self.env, f"{at}.env")
        for index, name in enumerate(self.extra_names):
            if name == context.name:
                yield Fault(f"{at}.extraNames[{index}]", f"'{name}' is its own name already")
        for index, name in one_of.again(self.extra_names):
            yield Fault(f"{at}.extraNames[{index}]", f"'{name}' is given twice")

    def _what_is_served(self, at: str, context: Context) -> Iterator[Finding]:
        if self.image:
            yield from self._ignored(at, "image", "an image is given")
            return
        if self.manifest:
            yield from self._ignored(at, "manifest", "a manifest is given")
            yield from _target_faults(self.manifest, self.target_version, at)
        elif self.follow_alias and (self.target_version or "").isdecimal() and context.read(at, "image", "manifest"):
            yield Fault(f"{at}.followAlias", f"targetVersion {self.target_version} is a version, which never moves")

    def _ignored(self, at: str, by: str, because: str) -> Iterator[Warn]:
        """Fields that say nothing, given where the model comes from."""
        fields = ("manifest", "targetVersion", "followAlias", "checkpoint")
        values = (self.manifest, self.target_version, self.follow_alias, self.checkpoint)
        unused = [name for name, value in zip(fields, values, strict=True) if value]
        if by == "manifest":
            unused = [name for name in unused if name in ("followAlias", "checkpoint")]
        if unused:
            yield Warn(f"{at}.{by}", f"{_listed(unused)} ignored, because {because}")

    def _where_it_runs(self, at: str, context: Context) -> Iterator[Finding]:
        so = f"'{context.name or self.model_name}' stays not ready"
        if self.image and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", so)
        if self.template is not None:
            yield from unrunnable_images(self.template.spec, f"{at}.template.spec", context, so)
        yield from gpu_warning(self.gpu, f"{at}.gpu", context)
        if self.deploy_to_layer == "edge" and self.replicas > 1:
            yield Warn(f"{at}.replicas", f"on the edge one process runs, not {self.replicas}")
        if self.deploy_to_layer == "edge" and self.auto_scale is not None:
            yield Warn(f"{at}.autoScale", "ignored: on the edge one process runs")
        elif self.auto_scale is not None and self.replicas and "replicas" in self.model_fields_set:
            least, most = self.auto_scale.min_replicas, self.auto_scale.max_replicas
            start = min(max(self.replicas, least), most)
            if least <= most and start != self.replicas:
                yield Warn(f"{at}.replicas", f"starts with {start}: autoScale allows {least} to {most}")

    def _how_it_answers(self, at: str, context: Context) -> Iterator[Finding]:
        automatic = self.batching is not None and self.batching.batch_size == "auto"
        if automatic and self.timeout_ms is None and context.read(at, "timeoutMs"):
            yield Fault(f"{at}.batching.batchSize", "'auto' needs spec.timeoutMs, the latency to stay within")
        if self.cache is not None and not self.idempotent and context.read(at, "idempotent"):
            yield Fault(f"{at}.cache", "needs spec.idempotent: what is kept is answered without asking the model")
        yield from tensors.repeated(self.inputs, f"{at}.inputs")
        yield from tensors.repeated(self.outputs, f"{at}.outputs")
        if self.default_output is not None:
            yield from default_output_faults(self.default_output, self.outputs, f"{at}.defaultOutput")
            yield from self._default_shapes(self.default_output, at, context)

    def _default_shapes(self, answer: tuple[Tensor, ...], at: str, context: Context) -> Iterator[Fault]:
        declared = {output.name: output.shape for output in self.outputs}
        if not context.whole(f"{at}.outputs"):
            return
        for index, tensor in enumerate(answer):
            place, wanted = f"{at}.defaultOutput[{index}].shape", declared.get(tensor.name)
            if wanted is not None and context.whole(place) and not _is_one_row(tensor.shape, wanted):
                row = [1 if at_ == 0 and size == -1 else size for at_, size in enumerate(wanted)]
                yield Fault(place, f"must be {row}, as the output is for one row")


def default_output_faults(answer: tuple[Tensor, ...], outputs: Iterable[TensorSpec], at: str) -> Iterator[Fault]:
    """Of a default answer by itself, and against the outputs that are declared, if any are.

    An output whose name or type could not be read is not compared with anything.
    """
    if not answer:
        yield Fault(at, "must have at least 1")
    yield from tensors.repeated(answer, at)
    declared = {output.name: output for output in outputs}
    for index, tensor in enumerate(answer):
        wanted = declared.get(tensor.name)
        if declared and wanted is None and all(declared):
            hint = suggestion(tensor.name, tuple(declared), "outputs")
            yield Fault(f"{at}[{index}].name", f"no output '{tensor.name}'; {hint}")
        elif wanted is not None and wanted.datatype not in ("", tensor.datatype):
            yield Fault(f"{at}[{index}].datatype", f"must be {wanted.datatype}, as the output is")


def _is_one_row(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """A first dimension that may be any is that of rows: a default is repeated for each."""
    fits = len(shape) == len(wanted) and all(size in (-1, given) for size, given in zip(wanted, shape, strict=True))
    return fits and (wanted[:1] != (-1,) or shape[0] == 1)


def _target_faults(manifest: tuple[ModelFile, ...], target: str | None, at: str) -> Iterator[Fault]:
    versions = [file.version for file in manifest]
    for index, version in one_of.again(versions):
        yield Fault(f"{at}.manifest[{index}].version", f"version {version} is given twice")
    listed = ", ".join(dict.fromkeys(filter(None, versions)))
    if target is None and len(versions) > 1:
        yield Fault(f"{at}.targetVersion", f"required, because the manifest has several versions: {listed}")
    if target is not None and target not in versions and all(versions):  # one that was not read may be meant
        yield Fault(f"{at}.targetVersion", f"no version {target} in the manifest; versions are {listed}")


def _listed(words: list[str]) -> str:
    if len(words) == 1:
        return f"{words[0]} is"
    return f"{', '.join(words[:-1])} and {words[-1]} are"


class InferenceModelStatus(Status):
    """Conditions: `Accepted` (the spec can be served), `Ready` (what the spec asks for answers).

    During a switch `Ready` speaks of what is to come, `servingVersion`, `url` and replicas of what still answers.
    """

    url: str | None = Field(default=None, description="Where to send inference requests while serving.")
    target_version: str | None = Field(
        default=None, description="The version that is meant, where `spec.targetVersion` is an alias or absent."
    )
    serving_version: str | None = Field(
        default=None, description="Moves only after the new version has answered readiness."
    )
    serving_workload: str | None = Field(
        default=None, description="The Workload that answers; another one takes over when all its replicas are ready."
    )
    serving_files: str = Field(
        default="", description="Digest of the files of `servingVersion`: only replicas that have them answer for it."
    )
    checkpoint: str | None = Field(
        default=None,
        description="The checkpoint that is meant, where `spec.checkpoint` is absent: the newest there was when the "
        "version was first served. It stays the same while others are saved.",
    )
    serving_checkpoint: str | None = Field(
        default=None, description="The checkpoint of `servingVersion` that answers; absent: its own files do."
    )
    signature: Signature | None = Field(default=None, description="What it takes and gives, as its replicas said.")
    replicas: int = Field(default=0, description="Processes there are.")
    desired_replicas: int | None = Field(
        default=None, description="Processes that `autoScale` asks for; absent: `spec.replicas` says it."
    )
    desired_since: str | None = Field(default=None, description="When that became so, in UTC.")
    desired_reason: str = Field(default="", description="Why it became so.")
    ready_replicas: int = Field(default=0, description="Processes that answer.")
    restarts: int = Field(default=0, description="How often processes were started again.")
