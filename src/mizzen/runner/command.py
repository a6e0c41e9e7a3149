"""The command: started in its own process group, stopped on request, and ended with all its descendants.

It stays in the runner's session, all of which the supervisor ends when the runner is gone. A process that leaves that
session and clears its environment is still a descendant of the runner, which adopts orphans (Linux).
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from mizzen.confinement import machine
from mizzen.confinement.launcher import child_setup
from mizzen.confinement.spec import Confinement

NOT_FOUND = 127
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_LEFTOVERS = 2.0
"""Seconds to wait for the kernel after KILL; a process stuck for longer is left."""


class CannotStart(Exception):
    """The command cannot be started; the message says why, and what to do."""


class CommandProcess:
    def __init__(self, process: subprocess.Popen[bytes], run: str) -> None:
        self._process = process
        self._run = run
        self.pid = process.pid

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        python: str,
        cwd: Path,
        environment: Mapping[str, str],
        log: int,
        *,
        confinement: Confinement | None = None,
    ) -> Self:
        """`log`: a descriptor for its output, open to append and owned by the caller. Raises CannotStart."""
        _become_subreaper()
        words = [python, *argv[1:]] if argv[0] == "python" else list(argv)
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=None if confinement is None else child_setup(confinement, machine.detect()),  # noqa: PLW1509
            )
        except subprocess.SubprocessError as error:
            raise CannotStart("the command cannot be confined; its log says why") from error
        except (OSError, ValueError, UnicodeError) as error:
            raise CannotStart(_explain(words[0], cwd, error)) from error
        memory = environment.get("MIZZEN_MEMORY", "")
        if memory.isdecimal():
            with suppress(AttributeError, OSError, ValueError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (int(memory), int(memory)))
        return cls(process, environment.get("MIZZEN_PROCESS_RUN", ""))

    def code(self) -> int | None:
        """The exit code; 128 + s if killed by signal s. None while it runs."""
        code = self._process.poll()
        self._reap()
        return 128 - code if code is not None and code < 0 else code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and all its leftover processes, also in other groups and sessions. Blocks until they are gone."""
        deadline = time.monotonic() + _LEFTOVERS
        self._signal(signal.SIGKILL)
        while left := [*self._find_family()]:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEFTOVERS)
        self._reap()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _reap(self) -> None:
        """Reap ended orphans: they are the runner's, which has no other children while a command runs."""
        if sys.platform != "linux":
            return
        with suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid == self.pid:  # its code is read elsewhere
                    return
                os.waitpid(ended.si_pid, os.WNOHANG)

    def _find_family(self) -> Iterator[int]:
        """Yield live processes of this session, descendants of this process, and those with this start's marker in
        their environment; never this process."""
        mine, session = os.getpid(), os.getsid(0)
        below = _find_descendants(mine)
        leads = session == mine  # else it is a terminal's session, with other processes in it
        word = f"MIZZEN_PROCESS_RUN={self._run}".encode() if self._run else None
        for pid in _list_pids():
            with suppress(OSError, IndexError):
                folder = _PROC / str(pid)
                if pid == mine or folder.stat().st_uid != os.getuid():
                    continue
                related = pid in below or os.getpgid(pid) == self.pid or (leads and os.getsid(pid) == session)
                if not related and word is not None:
                    related = word in (folder / "environ").read_bytes().split(b"\0")
                if related and _stat(pid)[0] not in "ZX":
                    yield pid


def _become_subreaper() -> None:
    """Make orphans below this process its children instead of init's."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _find_descendants(pid: int) -> set[int]:
    """Return all its descendants."""
    children: dict[int, list[int]] = {}
    for child in _list_pids():
        with suppress(OSError, IndexError, ValueError):
            children.setdefault(int(_stat(child)[1]), []).append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()] if _PROC.is_dir() else []


def _stat(pid: int) -> list[str]:
    """Return its state, its parent's pid, and more. Raises OSError."""
    return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _explain(word: str, cwd: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename == str(cwd):
        return f"its working folder {cwd} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"there is no program '{word}' in the version's folder, in its environment or on the PATH"
    if isinstance(error, PermissionError):
        return f"'{word}' is not executable; call it with its interpreter, such as: sh {word}"
    return f"'{word}' cannot be started: {error}"
