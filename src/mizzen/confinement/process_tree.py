"""A process and its descendants, found by their parents: what is left where groups and namespaces are not available.

A descendant whose parents have ended is a child of the nearest *subreaper* above it, else of init.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_PAUSE = 0.01


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process instead of init's. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def find_descendants(pid: int) -> set[int]:
    """Returns all its descendants."""
    children: dict[int, list[int]] = {}
    for child in list_pids():
        with suppress(OSError, IndexError, ValueError):
            children.setdefault(int(read_stat(child)[1]), []).append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def kill_until_gone(look: Callable[[], Iterable[int]], seconds: float) -> None:
    """Sends KILL to the processes that `look` finds until it finds none, for at most so many seconds. Blocks."""
    deadline = time.monotonic() + seconds
    while left := [*look()]:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)


def list_pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()] if _PROC.is_dir() else []


def read_stat(pid: int) -> list[str]:
    """Returns its state, its parent's pid, and more. Raises OSError."""
    return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
