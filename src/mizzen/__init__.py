"""Mizzen: from a model's code to production traffic, on one machine or on Kubernetes.

Importing this package costs nothing: the SDK is loaded when one of its names is first used, because runtimes, gateways
and the supervisor live below this package, too, and must stay small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.errors import (
        AlreadyExists,
        BadRequest,
        Conflict,
        DeadlineExceeded,
        Expired,
        Fault,
        Forbidden,
        Invalid,
        MizzenError,
        ModelFailed,
        NoRoom,
        NotFound,
        TooLarge,
        TooManyRequests,
        TrainingFailed,
        Unauthenticated,
        Unavailable,
        UnsupportedMediaType,
    )
    from mizzen.sdk import Graph, Job, MizzenWarning, Model, Monitor, Plane, connect, start

    __version__: str

__all__ = [
    "AlreadyExists", "BadRequest", "Conflict", "DeadlineExceeded", "Expired", "Fault", "Forbidden", "Graph",
    "Invalid", "Job", "MizzenError", "MizzenWarning", "Model", "ModelFailed", "Monitor", "NoRoom", "NotFound", "Plane",
    "TooLarge", "TooManyRequests", "TrainingFailed", "Unauthenticated", "Unavailable", "UnsupportedMediaType",
    "connect", "start",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from mizzen.version import VERSION

        return VERSION
    if name not in __all__:
        raise AttributeError(f"module 'mizzen' has no attribute {name!r}")
    from mizzen import errors

    if hasattr(errors, name):
        return getattr(errors, name)
    from mizzen import sdk

    return getattr(sdk, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
