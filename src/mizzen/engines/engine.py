"""The Engine protocol: start, update, adopt, stop and watch the processes of a Workload."""

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
    """The current state of a workload: one entry per replica that should exist or still does, by index."""

    replicas: tuple[ReplicaStatus, ...] = ()
    signature: Signature | None = None
    """The signature that one of them reported; None when none has reported one yet."""


class Engine(Protocol):
    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def apply(self, workload: Resource) -> Observation:
        """Start, update, adopt or scale processes to match the spec. Returns the current state without waiting.

        Idempotent. Replicas are keyed by (workload uid, index): one that already runs with the same spec is left alone.
        With another spec, serving replicas are replaced one after the other, each when those before it are ready: this
        takes several calls. A replica keeps its address as long as it is wanted. If the spec names the files that
        processes `began` with, running ones reload its files without a restart. A replica that refuses keeps its files
        and has the reason `ReloadRefused`, unless another replica has loaded them: then it is replaced.

        `workload.status` is the last report; a new engine relies on it until it has its own observations.
        Raises Invalid when the spec cannot be parsed.
        """
        ...

    async def delete(self, workload: Resource) -> bool:
        """Stop all processes of this workload. True: all are gone. False: call again."""
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
        """The output of the replicas, in chunks of whole lines; with `build`, the output of their environment's build,
        and `places` is ignored.

        With `places`, the read position of each replica's log is written there before each chunk is yielded. It is two
        numbers with a dash between them, which only the engine interprets; a chunk may then be empty. Positions that
        `places` already holds are where to continue, and `tail` is ignored.
        """
        ...

    def changes(self) -> AsyncIterator[Ref]:
        """Hints that a workload is worth another `apply`. The truth comes from `apply`."""
        ...
