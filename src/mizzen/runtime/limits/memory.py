"""Ending a process whose memory allocation failed under the limit MIZZEN_MEMORY.

After a failed allocation anything may be half done, in the model and in its libraries, and a leak would make it fail
repeatedly. A new process starts with all of its memory. Without a limit, a single request needed too much.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence

from mizzen.runtime.limits import watchdog

VARIABLE = "MIZZEN_MEMORY"
EXIT_OUT_OF_MEMORY = 71


class OutOfMemory(BaseException):
    """The memory limit was reached; `__cause__` is the error. Not an Exception, so that nothing mistakes it for one of
    the model's."""

    def __init__(self, places: Sequence[int]) -> None:
        self.places = places
        """The requests in whose call that happened."""


def is_memory_limit(error: BaseException, environ: Mapping[str, str]) -> bool:
    """Return whether the limit caused this error."""
    return isinstance(error, MemoryError) and bool(environ.get(VARIABLE))


def end(error: BaseException, environ: Mapping[str, str]) -> None:
    """End the process at once: even answering pending requests would need memory. Gateways retry on another replica, or
    on this one's successor, except a request that was alone in its call (`frame_server`)."""
    limit = int(environ[VARIABLE])
    try:
        detail = f": {error}" if str(error) else ""
        message = f"out of memory: spec.resources.memory allows {limit / 2**20:.0f} Mi{detail}"
        watchdog.leave_last_words(environ.get("MIZZEN_TERMINATION_LOG"), message)
        traceback.print_exception(error)
    finally:
        os._exit(EXIT_OUT_OF_MEMORY)
