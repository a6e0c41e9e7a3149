"""What this machine offers to confine processes with, found by trying."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from mizzen.confinement import landlock, namespaces, seccomp

Namespaces = Literal["own", "user", "none"]
"""How a process gets a mount namespace: by root, through a user namespace, or not at all."""


@dataclass(frozen=True, slots=True)
class Machine:
    landlock: int
    """The version of its interface; 0: none."""
    seccomp: bool
    namespaces: Namespaces
    root: bool

    @property
    def protects_files(self) -> bool:
        """Whether files of the plane are out of reach: denied by Landlock, or not in the process's view."""
        return self.landlock > 0 or self.namespaces != "none"


@cache
def detect() -> Machine:
    """Tries each mechanism in a child process, once."""
    root = os.getuid() == 0
    found: Namespaces = "none"
    if root and _works(lambda: namespaces.enter(own=True)):
        found = "own"
    elif _works(lambda: namespaces.enter(own=False)):
        found = "user"
    return Machine(landlock.version(), seccomp.available(), found, root)


def _works(attempt: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            attempt()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
