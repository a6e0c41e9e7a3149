"""Checks of a spec against the objects it references, for admission and for the controllers.

Pure: `references_of` returns what to look up, `findings` the faults and warnings that follow. Few findings are faults:
files may be applied in any order, so most missing objects may be created later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mizzen.errors import Fault
from mizzen.kinds.access import RoleBindingSpec
from mizzen.kinds.application import spec as application
from mizzen.kinds.application.spec import ApplicationSpec
from mizzen.kinds.model import ModelSpec, version_object_name
from mizzen.kinds.parts import env
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.schema.findings import Finding, Warn
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.text import references
from mizzen.kinds.training import TrainingJobSpec

CALLABLE = ("Model", "InferenceModel", "MLGraph")


@dataclass(frozen=True, slots=True)
class References:
    """The objects, users and secrets that a spec references."""

    objects: frozenset[Ref] = frozenset()
    users: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    """In its own namespace."""


@dataclass(frozen=True, slots=True)
class ReferencedObjects:
    """The referenced objects, users and secrets that exist."""

    objects: Mapping[Ref, Resource | None] = field(default_factory=dict)
    """None: it counts as existing, but its content is unknown."""
    users: frozenset[str] = frozenset()
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of each secret, by name."""


def references_of(resource: Resource) -> References:
    """For a spec that is valid in itself."""
    match resource.kind:
        case "Model":
            return _of_model(resource, ModelSpec.of(resource))
        case "InferenceModel":
            spec = InferenceModelSpec.of(resource)
            return References(frozenset({_model(resource, spec.model_name)}), secrets=_secrets(spec.env))
        case "TrainingJob":
            job = TrainingJobSpec.of(resource)
            made = [_version(resource, job.model_name, job.version)] if job.model_name and job.version else []
            keys = _dataset_secret(job)
            return References(frozenset(made), secrets=_secrets(job.env) | ({keys} if keys else set()))
        case "Application":
            needed = application.find_needed_versions(ApplicationSpec.of(resource))
            return References(frozenset(_version(resource, model, version) for _, model, version in needed))
        case "RoleBinding":
            binding = RoleBindingSpec.of(resource)
            return References(frozenset(_callable_refs(resource, binding.model)), users=frozenset(_users(binding)))
    return References()


def findings(resource: Resource, there: ReferencedObjects) -> Iterator[Finding]:
    """`there` has at least the existing ones of what `references_of` returns."""
    match resource.kind:
        case "Model":
            spec = ModelSpec.of(resource)
            yield from waiting_aliases(
                spec.aliases, lambda version: _version(resource, resource.meta.name, version) in there.objects
            )
            yield from _alias_of(resource, spec, there)
        case "InferenceModel":
            yield from _inference_model(resource, InferenceModelSpec.of(resource), there)
        case "TrainingJob":
            job = TrainingJobSpec.of(resource)
            if references_of(resource).objects - there.objects.keys():
                yield Warn("spec.version", f"model '{job.model_name}' has no version {job.version} yet")
            yield from _env(job.env, there)
            keys = _dataset_secret(job)
            if keys is not None and keys not in there.secrets:
                makes = f"mizzen secret set {keys} accessKeyId, and secretAccessKey"
                yield Warn("spec.dataset.s3.secret", f"there is no secret '{keys}' yet: {makes}")
        case "Application":
            yield from application.missing_versions_warnings(
                ApplicationSpec.of(resource), lambda model, version: _version(resource, model, version) in there.objects
            )
        case "RoleBinding":
            yield from _role_binding(resource, RoleBindingSpec.of(resource), there)


def waiting_aliases(aliases: Mapping[str, str], exists: Callable[[str], bool]) -> Iterator[Warn]:
    """A warning for each alias whose version does not exist; `exists` takes a version of the model."""
    for alias, version in sorted(aliases.items()):
        if not exists(version):
            yield Warn(f"spec.aliases.{alias}", f"there is no version {version} yet; the alias works once there is")


def _of_model(resource: Resource, spec: ModelSpec) -> References:
    versions = {_version(resource, resource.meta.name, version) for version in spec.aliases.values()}
    first = {_model(resource, references.parse(spec.alias_of).name)} if spec.alias_of else set[Ref]()
    return References(frozenset(versions | first))


def _alias_of(resource: Resource, spec: ModelSpec, there: ReferencedObjects) -> Iterator[Finding]:
    if not spec.alias_of:
        return
    first = _model(resource, references.parse(spec.alias_of).name)
    target = there.objects.get(first)
    if first.name == resource.meta.name:
        yield Fault("spec.aliasOf", "a model cannot be an alias of itself")
    elif first not in there.objects:
        yield Warn("spec.aliasOf", f"there is no model '{first.name}' yet")
    elif target is not None and target.spec.get("aliasOf"):
        meant = target.spec["aliasOf"]
        yield Fault("spec.aliasOf", f"'{first.name}' is itself an alias of '{meant}'; aliases cannot be chained")


def _inference_model(resource: Resource, spec: InferenceModelSpec, there: ReferencedObjects) -> Iterator[Finding]:
    if not spec.image and not spec.manifest and _model(resource, spec.model_name) not in there.objects:
        yield Fault(
            "spec.modelName",
            f"no model '{spec.model_name}' is registered; register it (mizzen version add), list its files in "
            "spec.manifest, or give spec.image",
        )
    yield from _env(spec.env, there)


def _role_binding(resource: Resource, spec: RoleBindingSpec, there: ReferencedObjects) -> Iterator[Finding]:
    for name in _users(spec):
        if name not in there.users:
            at = f"spec.subjects[{spec.subjects.index(name)}]"
            yield Warn(at, f"there is no user '{name}' yet: mizzen user add {name}")
    if spec.model and not any(ref in there.objects for ref in _callable_refs(resource, spec.model)):
        yield Warn("spec.target.model", f"nothing is called '{spec.model}' yet")


def _env(variables: Iterable[EnvVar], there: ReferencedObjects) -> Iterator[Finding]:
    for index, variable in enumerate(variables):
        secret = variable.secret
        if secret is None:
            continue
        keys, makes = there.secrets.get(secret.name), f"mizzen secret set {secret.name} {secret.key}"
        if keys is None:
            yield Warn(f"spec.env[{index}]", f"there is no secret '{secret.name}' yet: {makes}")
        elif secret.key not in keys:
            yield Warn(f"spec.env[{index}]", f"secret '{secret.name}' has no key '{secret.key}' yet: {makes}")


def _secrets(variables: Iterable[EnvVar]) -> frozenset[str]:
    return frozenset(secret.name for secret in env.secret_values(variables).values())


def _dataset_secret(job: TrainingJobSpec) -> str | None:
    return job.dataset.s3.secret if job.dataset is not None and job.dataset.s3 is not None else None


def _users(spec: RoleBindingSpec) -> list[str]:
    """The subjects that are users of this plane."""
    return [subject for subject in spec.subjects if ":" not in subject and subject != "*"]


def _callable_refs(resource: Resource, name: str) -> list[Ref]:
    return [Ref(kind, name, resource.meta.namespace) for kind in CALLABLE] if name else []


def _model(resource: Resource, name: str) -> Ref:
    return Ref("Model", name, resource.meta.namespace)


def _version(resource: Resource, model: str, version: str) -> Ref:
    return Ref("ModelVersion", version_object_name(model, version), resource.meta.namespace)
