"""The small process that holds one model and answers frames: what runs in the user's environment.

Here: loading a model, merging requests into calls of it, the frame server.
Not here: HTTP, the store, anything of the plane. Of ours it imports `mizzen.protocol` and the table `mizzen.frameworks`
only, beside that numpy and the standard library: it must start fast and live beside whatever the user installed.

`callers()` is for models in Python: whose rows they are called with.
"""

from __future__ import annotations

from mizzen.runtime.caller_context import Caller, callers

__all__ = ["Caller", "callers"]
