"""The Python client of a plane.

Here: finding or starting a plane (`locate`, `starting`), every call on its two APIs (`client`, asynchronous; `sync`,
the dress over it), and turning what people have into what is sent (`payload`, `source`, `objects`, `training`;
manifests by `applying`).
Not here: output for people; kinds and their validation. Only `applying` needs those, and is loaded when it is used:
pydantic would double the start time.

Its names are loaded when they are first used: `mizzen down` needs `locate` but no HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.connection.start import Graph, Job, MizzenWarning, Model, Monitor, Plane, connect, start

__all__ = ["Graph", "Job", "MizzenWarning", "Model", "Monitor", "Plane", "connect", "start"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mizzen.sdk.connection import start as connection_start

        return getattr(connection_start, name)
    raise AttributeError(f"module 'mizzen.sdk' has no attribute {name!r}")
