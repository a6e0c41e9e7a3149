"""What every route works with: the store, the blobs, and what assembly passed in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from starlette.requests import Request

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.limits import Limits
from mizzen.kinds.schema.resource import Resource
from mizzen.reconcile.recorder import NOBODY, Recorder
from mizzen.runs.checkpoints import Shelf
from mizzen.selection.state_reader import Reader
from mizzen.server.auth.role_bindings import Bindings
from mizzen.server.http.body_workers import Apart
from mizzen.server.http.pagination import Pages
from mizzen.stores.records.protocol import AuditLog, Identities, Secrets
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Store
from mizzen.usage.sampler import Usage


class Logs(Protocol):
    """As `Engine.logs`."""

    def __call__(
        self, workload: Resource, *, tail: int | None, follow: bool, places: dict[int, str] | None, build: bool = False
    ) -> AsyncIterator[bytes]: ...


Carried = Callable[[str], Awaitable[None]]
"""Returns when traffic follows what the store held at a resource version, or cannot be waited for any longer."""


async def nobody_to_carry(position: str) -> None:
    """For a control API without gateways."""


@dataclass(frozen=True, slots=True)
class Plane:
    store: Store
    blobs: FileBlobs
    inference_url: str
    logs: Logs
    ready: Callable[[], bool]
    now: Callable[[], datetime]
    identities: Identities
    secrets: Secrets
    """As they are kept, sealed; `vault` seals and opens them."""
    vault: Vault
    audit: AuditLog
    bindings: Bindings
    usage: Usage
    """What is used, and how what is served is doing."""
    used: Callable[[str], dict[str, int]]
    """How much of their quotas somebody has used, by `day` and `month`."""
    learnt: Reader
    """What feedback has taught."""
    anonymous: bool
    """May those without a token read and predict?"""
    shelf: Shelf
    """The checkpoints that jobs saved."""
    data_dir: Path
    """Where job sets leave their files (`runs/paths.py`)."""
    carried: Carried = nobody_to_carry
    pages: Pages = field(default_factory=Pages)
    apart: Apart = field(default_factory=Apart)
    """Where large bodies are read."""
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    """How much may be sent."""
    default_framework: str = ""
    """Of versions that name none and whose files do not tell."""
    capabilities: frozenset[str] = frozenset()
    """What the engine can do: `containers`, `gpus`."""
    recorder: Recorder = NOBODY
    """Who is told what people decided, for those who look at an object later."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the plane begins to stop: new requests are refused, and streams end."""


def plane_of(request: Request) -> Plane:
    plane = request.app.state.plane
    assert isinstance(plane, Plane)
    return plane
