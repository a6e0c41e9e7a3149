"""Detecting whether a command ended because it ran out of memory."""

from __future__ import annotations

_SIGNS = ("MemoryError", "bad_alloc", "Unable to allocate", "can't allocate memory", "Cannot allocate memory")
"""Patterns in its last output: Python, C++, numpy, PyTorch, the system."""
TOO_LITTLE = "it ran out of memory: raise spec.resources.memory, or make it use less"


def count_kills() -> int:
    """Return how often the kernel has killed a process of this machine for memory so far; 0 where unknown."""
    try:
        with open("/proc/vmstat") as file:
            found = (line.split() for line in file if line.startswith("oom_kill "))
            return int(next(found, ["", "0"])[1])
    except (OSError, ValueError):
        return 0


def is_reported(lines: str) -> bool:
    """Return whether these last lines say so. Only the very last count: an error caught earlier is not the reason."""
    return any(sign in line for line in lines.splitlines()[-3:] for sign in _SIGNS)
