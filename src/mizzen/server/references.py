"""What an object says about other objects, held against what there is: faults and warnings that need a store.

Few are faults: files may be applied in any order, so most of what is missing now may come later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds.access import RoleBindingSpec
from mizzen.kinds.application import spec as application
from mizzen.kinds.application.spec import ApplicationSpec
from mizzen.kinds.findings import Finding, Findings, Warn
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.model import ModelSpec, version_object_name
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.text import references
from mizzen.kinds.training import TrainingJobSpec
from mizzen.server.plane import Plane
from mizzen.stores.store import Reads


async def examine(plane: Plane, resource: Resource, assumed: frozenset[tuple[str, str]] = frozenset()) -> Findings:
    """Of a spec that is valid in itself. `assumed`: (kind, name) of what counts as there, for who tries a batch."""
    async with plane.store.snapshot() as moment:
        return Findings.of(await _Surroundings(plane, moment, resource, assumed).findings())


@dataclass(frozen=True, slots=True)
class _Surroundings:
    plane: Plane
    moment: Reads
    resource: Resource
    assumed: frozenset[tuple[str, str]]

    async def findings(self) -> Iterable[Finding]:
        match self.resource.kind:
            case "Model":
                return await self._model(ModelSpec.of(self.resource))
            case "InferenceModel":
                return await self._inference_model(InferenceModelSpec.of(self.resource))
            case "TrainingJob":
                return await self._training_job(TrainingJobSpec.of(self.resource))
            case "Application":
                return await self._application(ApplicationSpec.of(self.resource))
            case "RoleBinding":
                return await self._role_binding(RoleBindingSpec.of(self.resource))
        return ()

    async def _model(self, spec: ModelSpec) -> list[Finding]:
        found: list[Finding] = [
            Warn(f"spec.aliases.{alias}", f"there is no version {version} yet; the alias answers once there is")
            for alias, version in spec.aliases.items()
            if not await self._has_version(self.resource.meta.name, version)
        ]
        if spec.alias_of:
            found += await self._alias_of(references.parse(spec.alias_of).name)
        return found

    async def _alias_of(self, name: str) -> list[Finding]:
        target = await self._find("Model", name)
        if name == self.resource.meta.name:
            return [Fault("spec.aliasOf", "a model cannot be an alias of itself")]
        if target is None and ("Model", name) in self.assumed:
            return []
        if target is None:
            return [Warn("spec.aliasOf", f"there is no model '{name}' yet")]
        if target.spec.get("aliasOf"):
            return [
                Fault(
                    "spec.aliasOf", f"'{name}' is itself an alias, of '{target.spec['aliasOf']}'; aliases never chain"
                )
            ]
        return []

    async def _inference_model(self, spec: InferenceModelSpec) -> list[Finding]:
        found: list[Finding] = []
        if not spec.image and not spec.manifest and not await self._has("Model", spec.model_name):
            found.append(
                Fault(
                    "spec.modelName",
                    f"no model '{spec.model_name}' is registered; register it (mizzen version add), list its files in "
                    "spec.manifest, or give spec.image",
                )
            )
        return [*found, *await self._env(spec.env)]

    async def _training_job(self, spec: TrainingJobSpec) -> list[Finding]:
        found: list[Finding] = []
        if spec.model_name and spec.version and not await self._has_version(spec.model_name, spec.version):
            found.append(Warn("spec.version", f"model '{spec.model_name}' has no version {spec.version} yet"))
        return [*found, *await self._env(spec.env)]

    async def _application(self, spec: ApplicationSpec) -> list[Finding]:
        there = {
            (model, version)
            for _, model, version in application.needed_versions(spec)
            if await self._has_version(model, version)
        }
        return [*application.missing_versions_warnings(spec, lambda model, version: (model, version) in there)]

    async def _role_binding(self, spec: RoleBindingSpec) -> list[Finding]:
        people = {principal.name for principal in await self.plane.identities.principals()}
        local = [subject for subject in spec.subjects if ":" not in subject and subject != "*"]
        found: list[Finding] = [
            Warn(
                f"spec.subjects[{spec.subjects.index(name)}]", f"there is no user '{name}' yet: mizzen user add {name}"
            )
            for name in local
            if name not in people
        ]
        model = spec.target.model
        if model and not any([await self._has(kind, model) for kind in ("Model", "InferenceModel", "MLGraph")]):
            found.append(Warn("spec.target.model", f"nothing is called '{model}' yet"))
        return found

    async def _env(self, env: Iterable[EnvVar]) -> list[Finding]:
        found: list[Finding] = []
        for index, variable in enumerate(env):
            secret = variable.secret
            if secret is None:
                continue
            try:
                kept = await self.plane.secrets.get(self.resource.meta.namespace, secret.name)
            except NotFound:
                found.append(Warn(f"spec.env[{index}]", f"there is no secret '{secret.name}' yet: mizzen secret set"))
                continue
            if secret.key not in kept.keys:
                found.append(Warn(f"spec.env[{index}]", f"secret '{secret.name}' has no key '{secret.key}'"))
        return found

    async def _has_version(self, model: str, version: str) -> bool:
        return await self._has("ModelVersion", version_object_name(model, version))

    async def _has(self, kind: str, name: str) -> bool:
        return (kind, name) in self.assumed or await self._find(kind, name) is not None

    async def _find(self, kind: str, name: str) -> Resource | None:
        try:
            return await self.moment.get(Ref(kind, name, self.resource.meta.namespace))
        except NotFound:
            return None


def refuse(resource: Resource, findings: Findings) -> None:
    if findings.faults:
        raise Invalid.of(str(resource.ref), findings.faults)
