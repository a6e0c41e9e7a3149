"""The Python client of a plane.

Here: finding a plane (`locate`), every call on its two APIs (`client`, asynchronous; `sync`, the dress over it), and
turning what people have into what is sent (`payload`, `source`, `objects`).
Not here: kinds and their validation (the plane does that; pydantic would double the start time), output for people.

Its names are loaded when they are first used: `mizzen down` needs `locate` but no HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.sync import Model, Plane, connect, start

__all__ = ["Model", "Plane", "connect", "start"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mizzen.sdk import sync

        return getattr(sync, name)
    raise AttributeError(f"module 'mizzen.sdk' has no attribute {name!r}")
