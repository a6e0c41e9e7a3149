"""The runtime: a small process that holds one model and answers frames in the user's environment.

It loads a model, merges requests into calls of it, and serves frames. It knows nothing of HTTP, the store or the rest
of the plane. It imports only `mizzen.protocol`, the table `mizzen.frameworks`, numpy and the standard library. It must
start fast and coexist with all packages that users install.

`callers()` returns the callers whose rows a Python model is called with.
"""

from __future__ import annotations

from mizzen.runtime.caller_context import Caller, callers

__all__ = ["Caller", "callers"]
