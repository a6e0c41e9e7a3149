"""The Engine protocol: start, update, adopt, stop and watch what a Workload asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import ReplicaStatus


class Capability(StrEnum):
    CONTAINERS = "containers"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of a workload just now, one entry per replica that should or still does exist, by index."""

    replicas: tuple[ReplicaStatus, ...] = ()
    signature: Signature | None = None
    """What they take and give, as one of them said; None when none has said anything yet."""


class Engine(Protocol):
    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def apply(self, workload: Resource) -> Observation:
        """Start, update, adopt or scale so that the world fits the spec; returns at once with what is seen now.

        Idempotent. Replicas are keyed by (workload uid, index): what already runs with the same spec is left alone.
        With another spec, replicas that serve are replaced one after the other, each when those before it are ready:
        it takes several calls. A replica keeps its address as long as it is wanted. Where the spec says what processes
        `began` with, those that run are given its files without a restart; one that refuses goes on with what it has,
        and says so by the reason `ReloadRefused`, unless another one has taken them: then it is replaced.

        `workload.status` is what was reported last; a new engine goes by it until it has seen for itself.
        Invalid when the spec cannot be read.
        """
        ...

    async def delete(self, workload: Resource) -> bool:
        """Stop everything of this workload. True: all of it is gone. False: ask again."""
        ...

    def logs(
        self,
        workload: Resource,
        *,
        tail: int | None = None,
        follow: bool = False,
        places: dict[int, str] | None = None,
        build: bool = False,
    ) -> AsyncIterator[bytes]:
        """What the replicas printed, in chunks of whole lines; with `build`, what was printed while the environment
        was built that they run in, and nothing of `places`.

        With `places`, how far each replica's log has been read is written there before a chunk is handed out, as two
        numbers with a dash between them that mean something to the engine; a chunk may then be empty. What was there
        before is where to go on instead, and `tail` does not count.
        """
        ...

    def changes(self) -> AsyncIterator[Ref]:
        """Hints that a workload is worth another `apply`. The truth comes from `apply`."""
        ...
