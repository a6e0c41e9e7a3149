"""Mizzen: from a model's code to production traffic, on one machine or on Kubernetes.

Importing this package costs nothing: the SDK is loaded when one of its names is first used, because runtimes, gateways
and the supervisor live below this package, too, and must stay small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk import MizzenWarning, Model, Plane, connect, start

__all__ = ["MizzenWarning", "Model", "Plane", "connect", "start"]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mizzen import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module 'mizzen' has no attribute {name!r}")
