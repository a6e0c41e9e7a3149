"""The context of every route: the store, the blobs, and everything else that `assemble` passes in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from starlette.requests import Request

from mizzen.access.policy import Binding
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.limits import IngestLimits
from mizzen.kinds.schema.resource import Resource
from mizzen.reconcile.recorder import NULL_RECORDER, EventSink
from mizzen.runs.checkpoints import CheckpointStore
from mizzen.selection.state_reader import StateReader
from mizzen.server.http.body_workers import BodyWorkers
from mizzen.server.http.pagination import Paginator
from mizzen.stores.records.protocol import AuditLog, Identities, Secrets
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Store
from mizzen.usage.sampler import NoUsage, Usage


class Logs(Protocol):
    """As `Engine.logs`."""

    def __call__(
        self, workload: Resource, *, tail: int | None, follow: bool, places: dict[int, str] | None, build: bool = False
    ) -> AsyncIterator[bytes]: ...


class BindingSource(Protocol):
    """All RoleBindings, as `auth.role_bindings` caches them."""

    async def current(self) -> tuple[Binding, ...]: ...


WaitForTraffic = Callable[[str], Awaitable[None]]
"""Returns when traffic follows the state of the store at a resource version, or after a timeout."""


async def no_traffic(position: str) -> None:
    """For a control API without gateways."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    store: Store
    blobs: FileBlobs
    inference_url: str
    logs: Logs
    ready: Callable[[], bool]
    now: Callable[[], datetime]
    identities: Identities
    secrets: Secrets
    """Stored encrypted; `vault` encrypts and decrypts them."""
    vault: Vault
    audit: AuditLog
    bindings: BindingSource
    checkpoints: CheckpointStore
    """The checkpoints that jobs saved."""
    data_dir: Path
    """The folder where job sets leave their files (`runs/paths.py`)."""
    anonymous: bool = True
    """Whether callers without a token may read and predict."""
    usage: Usage = field(default_factory=NoUsage)
    """Resource usage, and how served models are doing."""
    quota_used: Callable[[str], dict[str, int]] = lambda _: {}
    """Returns how much of its quotas a subject has used, by `day` and `month`."""
    feedback_state: StateReader = field(default_factory=lambda: StateReader(None))
    """The state that graphs have learned from feedback."""
    wait_for_traffic: WaitForTraffic = no_traffic
    pages: Paginator = field(default_factory=Paginator)
    body_workers: BodyWorkers = field(default_factory=BodyWorkers)
    """Parses large bodies."""
    limits: IngestLimits = IngestLimits()  # noqa: RUF009 - frozen
    """Upload limits."""
    default_framework: str = ""
    """The framework of versions that name none, and whose files do not show it."""
    capabilities: frozenset[str] = frozenset()
    """The capabilities of the engine: `containers`, `gpus`."""
    recorder: EventSink = NULL_RECORDER
    """Records decisions of users as events of the object."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the plane begins to stop: from then on new requests are refused, and streams end."""


def context_of(request: Request) -> ServerContext:
    context = request.app.state.context
    assert isinstance(context, ServerContext)
    return context
