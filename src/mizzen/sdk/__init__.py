"""The Python client of a plane.

`connection` finds, starts and reaches a plane; `api` has its single calls; `operations` has those that take several.
`packaging` turns users' data into requests. `keywords` declares the keywords that several calls take. `client` is the
asynchronous client; `sync` and `handles` wrap it for programs without an event loop.

It does not format output for people and does not validate kinds. Only `operations.apply` and `explain` need the kinds,
and import them on use: pydantic would double the start time.

Public names are imported on first use: `mizzen down` needs `connection.locate` but not an HTTP client.
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
