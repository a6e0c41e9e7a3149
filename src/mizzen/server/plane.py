"""What every route works with: the store, the blobs, and what assembly passed in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from starlette.requests import Request

from mizzen.blobs.files import FileBlobs
from mizzen.kinds.meta import Resource
from mizzen.stores.store import Store


class Logs(Protocol):
    def __call__(self, workload: Resource, *, tail: int | None, follow: bool) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Plane:
    store: Store
    blobs: FileBlobs
    inference_url: str
    logs: Logs
    ready: Callable[[], bool]
    loopback: bool
    """Is the control API reachable from this machine only?"""
    now: Callable[[], datetime]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the plane begins to stop: new requests are refused, and streams end."""


def plane_of(request: Request) -> Plane:
    plane = request.app.state.plane
    assert isinstance(plane, Plane)
    return plane
