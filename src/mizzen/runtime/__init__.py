"""The runtime: a small process that holds one model and answers frames in the user's environment.

It loads a model, merges requests into calls of it, and serves frames. It knows nothing of HTTP, the store or the rest
of the plane. Of Mizzen it imports only `mizzen.protocol` and the table `mizzen.frameworks`; besides, numpy and the
standard library. It must start fast and coexist with whatever packages the user installed.

`callers()` tells models in Python whose rows they are called with.
"""

from __future__ import annotations

from mizzen.runtime.caller_context import Caller, callers

__all__ = ["Caller", "callers"]
