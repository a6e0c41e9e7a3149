"""Was it for want of memory that a command ended?"""

from __future__ import annotations

_SIGNS = ("MemoryError", "bad_alloc", "Unable to allocate", "can't allocate memory", "Cannot allocate memory")
"""In what it printed last: Python, C++, numpy, PyTorch, the system."""
TOO_LITTLE = "it was refused memory: raise spec.resources.memory, or make it keep less"


def killings() -> int:
    """How often the kernel has killed something for it, on this machine, so far; 0 where it does not tell."""
    try:
        with open("/proc/vmstat") as file:
            found = (line.split() for line in file if line.startswith("oom_kill "))
            return int(next(found, ["", "0"])[1])
    except (OSError, ValueError):
        return 0


def is_told(lines: str) -> bool:
    """Do these last lines say so? Only the very last count: what was caught before is no reason."""
    return any(sign in line for line in lines.splitlines()[-3:] for sign in _SIGNS)
