"""The end of a process that was refused memory where MIZZEN_MEMORY limits it.

After a refusal anything may be half done, in the model and in its libraries, and what leaks would be refused again and
again; a new process has all of its memory before it. Without a limit, it is one request that asks for too much.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping

from mizzen.runtime.limits import watchdog

VARIABLE = "MIZZEN_MEMORY"
EXIT_OUT_OF_MEMORY = 71


def is_memory_limit(error: BaseException, environ: Mapping[str, str]) -> bool:
    """Is this the limit's doing?"""
    return isinstance(error, MemoryError) and bool(environ.get(VARIABLE))


def end(error: BaseException, environ: Mapping[str, str]) -> None:
    """At once: to answer what is owed would take memory, too. Gateways ask somebody else, or this one's successor."""
    limit = int(environ[VARIABLE])
    try:
        said = f": {error}" if str(error) else ""
        message = f"out of memory: spec.resources.memory allows {limit / 2**20:.0f} Mi{said}"
        watchdog.leave_last_words(environ.get("MIZZEN_TERMINATION_LOG"), message)
        traceback.print_exception(error)
    finally:
        os._exit(EXIT_OUT_OF_MEMORY)
