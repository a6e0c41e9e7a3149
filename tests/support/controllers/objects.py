"""Stored objects as tests want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Condition, Meta, Resource
from mizzen.kinds.workload import ReplicaStatus
from mizzen.stores.records.protocol import Identities, Secrets

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DIGEST = "sha256:" + "0" * 64


class _Nobody:
    """A plane without users and secrets."""

    async def principals(self) -> tuple[()]:
        return ()

    async def get(self, namespace: str, name: str) -> None:
        raise NotFound(f"secret '{name}' does not exist in namespace {namespace}")


NOBODY = (cast("Identities", _Nobody()), cast("Secrets", _Nobody()))


def meta(name: str, *, deleting: bool = False, generation: int = 1, **more: Any) -> Meta:
    deleted = NOW if deleting else None
    return Meta(name, uid=f"uid-{name}", resource_version="1", generation=generation, deleted=deleted, **more)


def model(name: str = "iris", *, current: str | None = None, deleting: bool = False, **spec: Any) -> Resource:
    status = {"current": {"version": current, "actor": "ann", "time": "t"}} if current else {}
    return Resource("Model", meta(name, deleting=deleting), spec=spec, status={"highestVersion": 9} | status)


def version(
    number: str, model_name: str = "iris", *, trusted: Sequence[bool] = (True,), deleting: bool = False, **spec: Any
) -> Resource:
    artifacts = [
        {"path": f"file-{index}", "digest": DIGEST, "size": 1, "trusted": trust} for index, trust in enumerate(trusted)
    ]
    spec = {"modelName": model_name, "version": number, "framework": "sklearn", "artifacts": artifacts} | spec
    return Resource("ModelVersion", meta(f"{model_name}.{number}", deleting=deleting), spec=spec)


def inference_model(
    name: str = "iris-1",
    target: str = "1",
    *,
    serving: str | None = None,
    ready: Condition | None = None,
    model_name: str = "iris",
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
    generation: int = 1,
    **spec: Any,
) -> Resource:
    status: dict[str, Any] = {"conditions": [ready.wire()] if ready else []}
    if serving is not None:
        status |= {"servingVersion": serving, "url": f"http://x/v2/models/{name}"}
    return Resource(
        "InferenceModel",
        meta(name, deleting=deleting, annotations=annotations or {}, generation=generation),
        spec={"modelName": model_name, "targetVersion": target} | spec,
        status=status,
    )


def workload(
    name: str, *states: str, deleting: bool = False, message: str = "", restarts: int = 0, **spec: Any
) -> Resource:
    """A Workload whose status was reported from replicas in these states."""
    replicas = [
        replica(index, state, message=message, restarts=restarts, name=name) for index, state in enumerate(states)
    ]
    available = Condition(type="Available", status="True" if "ready" in states else "False", reason="Seen")
    return Resource(
        "Workload",
        meta(name, deleting=deleting),
        spec={"purpose": "serve", "command": ["old"], "replicas": len(states)} | spec,
        status={"conditions": [available.wire()], "replicas": [entry.wire() for entry in replicas]},
    )


def replica(index: int, state: str, *, message: str = "", restarts: int = 0, name: str = "w") -> ReplicaStatus:
    return ReplicaStatus.model_validate(
        {"index": index, "state": state, "message": message, "restarts": restarts, "address": f"unix:/{name}.{index}"}
    )


def ready(status: str = "True", reason: str = "Serving", *, since: str = "t0", message: str = "") -> Condition:
    return Condition.model_validate(
        {
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "observedGeneration": 1,
        }
    )  # fmt: skip
