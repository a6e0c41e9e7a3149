"""Model: which version is current when nobody chose one, or when the model tracks the latest.

Moves forward only. A version that stops answering stays current: taking it back is a person's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mizzen.errors import Invalid
from mizzen.kinds.meta import ACTOR_ANNOTATION, Ref, Resource, format_time
from mizzen.kinds.model import Current, ModelSpec, ModelStatus, ModelVersionSpec
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.controller import Decision, find
from mizzen.stores.store import Store, Where


@dataclass(frozen=True, slots=True)
class ModelFacts:
    resource: Resource
    inference_models: tuple[Resource, ...]
    """Those of this model."""
    versions: frozenset[str]
    """The versions that exist."""

    @property
    def children(self) -> tuple[Resource, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class _Served:
    """A version that answers."""

    version: str
    since: str
    actor: str

    @property
    def number(self) -> int:
        return _number(self.version)


class Models:
    kind = "Model"
    watches: tuple[str, ...] = ("InferenceModel", "ModelVersion")

    def keys(self, resource: Resource) -> Iterable[Ref]:
        name = resource.spec.get("modelName")
        return (Ref(self.kind, name, resource.meta.namespace),) if isinstance(name, str) else ()

    async def load(self, store: Store, ref: Ref) -> ModelFacts | None:
        model = await find(store, ref)
        if model is None:
            return None
        here = Where(namespace=ref.namespace)
        serving = await store.list("InferenceModel", here)
        versions = await store.list("ModelVersion", here)
        return ModelFacts(
            resource=model,
            inference_models=tuple(item for item in serving.items if item.spec.get("modelName") == ref.name),
            versions=frozenset(
                version for item in versions.items if (version := _version_of(item, ref.name)) is not None
            ),
        )

    def decide(self, facts: ModelFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        status = ModelStatus.of(facts.resource)
        chosen = _chosen(_served(facts), status, track=ModelSpec.of(facts.resource).track)
        if chosen is None:
            return Decision()
        current = Current(version=chosen.version, actor=chosen.actor, time=format_time(now))
        previous = status.current.version if status.current else status.previous
        # Everything else of the status is carried over: the server counts `highestVersion` in it.
        return Decision(
            status=status.model_copy(update={"current": current, "previous": previous}),
            decision="promoted",
            actor=chosen.actor,
        )


def _version_of(resource: Resource, model: str) -> str | None:
    if resource.deleting or resource.spec.get("modelName") != model:
        return None
    try:
        return ModelVersionSpec.of(resource).version
    except Invalid:
        return None


def _served(facts: ModelFacts) -> list[_Served]:
    """Versions that answer, in the order in which they began to."""
    served = []
    for resource in facts.inference_models:
        status = InferenceModelStatus.of(resource)
        ready = status.condition("Ready")
        if resource.deleting or ready is None or not ready.true or status.serving_version not in facts.versions:
            continue
        actor = resource.meta.annotations.get(ACTOR_ANNOTATION, ACTOR)
        served.append(_Served(status.serving_version, ready.last_transition_time, actor))
    return sorted(served, key=lambda entry: (entry.since, entry.version))


def _chosen(served: list[_Served], status: ModelStatus, *, track: str) -> _Served | None:
    """The version to make current now; None to leave things as they are."""
    if not served:
        return None
    if track == "latest":
        highest = max(served, key=lambda entry: entry.number)
        # Above the previous one, too: who went back from 3 to 2 waits for 4, and must not be handed 3 again.
        past = (status.current.version if status.current else "", status.previous or "")
        if highest.number > max(map(_number, past)):
            return highest
    return served[0] if status.current is None else None


def _number(version: str) -> int:
    """0 for a version with a name: it is never the latest."""
    return int(version) if version.isdecimal() else 0
