"""The command: started in its own process group, stopped on request, and ended with all its descendants.

It has a cgroup of its own, or else a PID namespace: nothing that it starts can leave those. The runner is outside, so
that the limits of the command are not its own. Without either, the command stays in the runner's session, all of which
the supervisor ends when the runner is gone; a process that leaves that session and clears its environment is still a
descendant of the runner, which adopts orphans (Linux).
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mizzen.confinement import machine, pid_namespace, process_tree
from mizzen.confinement.cgroups import groups, search
from mizzen.confinement.cgroups.groups import Cgroup, Limits
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from mizzen.confinement.launcher import child_setup
from mizzen.confinement.spec import Confinement

NOT_FOUND = 127
_PROC = Path("/proc")
_LEFTOVERS = 2.0
"""Seconds to wait for the kernel after KILL; a process stuck for longer is left."""


class CannotStart(Exception):
    """The command cannot be started; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class CommandBounds:
    """What holds a command together with its descendants, and what they may use together."""

    limits: Limits = Limits()  # noqa: RUF009 - frozen
    hierarchies: Hierarchies = Hierarchies()  # noqa: RUF009 - frozen
    group: str = ""
    """The name of its group."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """`environ`: the runner's own, with what the supervisor and the engine say."""
        names = (environ.get(f"MIZZEN_{name}", "") for name in ("DATA_DIR", "PROCESS_KEY", "PROCESS_RUN"))
        data_dir, key, run = names
        known = Hierarchies.from_text(environ.get("MIZZEN_CGROUPS", ""))
        name = search.name_of(search.prefix_of(data_dir), key, run) + search.COMMAND if key and run else ""
        memory, pids = (_read_number(environ.get(f"MIZZEN_{each}")) for each in ("MEMORY", "PIDS"))
        cpu = _read_number(environ.get("MIZZEN_CPU"))
        limits = Limits(int(memory) if memory else None, int(pids) if pids else None, cpu or None)
        return cls(limits, known if name else Hierarchies(), name)


class CommandProcess:
    def __init__(self, process: subprocess.Popen[bytes], run: str, group: Cgroup | None) -> None:
        self._process = process
        self._run = run
        self._group = group
        self.pid = process.pid
        self.memory_kills = 0
        """How many of its processes the kernel has killed for memory; known once it is killed or has ended."""

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
        bounds: CommandBounds | None = None,
    ) -> Self:
        """`log`: a descriptor for its output, owned by the caller. Raises CannotStart."""
        process_tree.become_subreaper()
        words = [python, *argv[1:]] if argv[0] == "python" else list(argv)
        bounds = bounds or CommandBounds()
        doors: list[int] = []
        group = None
        try:
            if bounds.hierarchies.kill:
                group = Cgroup.create(bounds.hierarchies, bounds.group, bounds.limits)
                doors = group.open_doors()
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=_setup(confinement, bounds, doors, environment.get("MIZZEN_PROCESS_RUN", "")),  # noqa: PLW1509
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if group is not None:
                group.remove()
            if isinstance(error, subprocess.SubprocessError):
                raise CannotStart("the command cannot be confined; its log says why") from error
            raise CannotStart(_explain(words[0], cwd, error)) from error
        finally:
            for door in doors:
                os.close(door)
        return cls(process, environment.get("MIZZEN_PROCESS_RUN", ""), group)

    def code(self) -> int | None:
        """The exit code; 128 + s if killed by signal s. None while it runs."""
        code = self._process.poll()
        self._reap()
        return 128 - code if code is not None and code < 0 else code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and all its leftover processes, also in other groups and sessions. Blocks until they are gone."""
        if self._group is not None:
            self.memory_kills = self._group.oom_kills() or self.memory_kills
            self._group.end(_LEFTOVERS)
        else:
            self._signal(signal.SIGKILL)
            process_tree.kill_until_gone(self._find_family, _LEFTOVERS)
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
        below = process_tree.find_descendants(mine)
        leads = session == mine  # else it is a terminal's session, with other processes in it
        word = f"MIZZEN_PROCESS_RUN={self._run}".encode() if self._run else None
        for pid in process_tree.list_pids():
            with suppress(OSError, IndexError):
                folder = _PROC / str(pid)
                if pid == mine or folder.stat().st_uid != os.getuid():
                    continue
                related = pid in below or os.getpgid(pid) == self.pid or (leads and os.getsid(pid) == session)
                if not related and word is not None:
                    related = word in (folder / "environ").read_bytes().split(b"\0")
                if related and process_tree.read_stat(pid)[0] not in "ZX":
                    yield pid


def _setup(
    confinement: Confinement | None, bounds: CommandBounds, doors: Sequence[int], run: str
) -> Callable[[], None]:
    confine = child_setup(confinement, machine.detect()) if confinement is not None else None
    namespace = pid_namespace.detect() if confine is not None and not doors else "none"
    memory = bounds.limits.memory

    def set_up() -> None:
        groups.join(doors)
        if namespace != "none":
            pid_namespace.enter(own=namespace == "own", run=run)
        if memory is not None:
            with suppress(AttributeError, OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        if confine is not None:
            confine()

    return set_up


def _read_number(text: str | None) -> float:
    """Returns 0 if it is not a number."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _explain(word: str, cwd: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename == str(cwd):
        return f"its working folder {cwd} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"there is no program '{word}' in the version's folder, in its environment or on the PATH"
    if isinstance(error, PermissionError):
        return f"'{word}' is not executable; call it with its interpreter, such as: sh {word}"
    return f"'{word}' cannot be started: {error}"
