"""Process and port information from the operating system. For Linux; docstrings say what other systems get."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


def start_of(pid: int) -> str | None:
    """Returns the start time of the process as an opaque string, or None if it does not exist or is a zombie.

    A process whose first thread alone has ended also looks like a zombie, but still exists with all its resources. That
    is the state after a kill until its last thread has handled the signal.

    The string includes the boot id of the machine: records outlive a reboot, and pids and ticks restart after one.
    """
    if not _has_proc():
        return _start_by_ps(pid)
    fields = _stat(pid)
    if not fields or (fields[0] in ("Z", "X") and int(fields[17]) < 2):
        return None
    return f"{_boot()}.{fields[19]}"


def resource_usage(pid: int) -> tuple[str, float, int] | None:
    """Returns the start (as in `start_of`), the CPU seconds used, and the bytes of memory held.

    All come from one read, so they belong to one process. None if there is no such process or no /proc.
    """
    fields = _stat(pid)
    if not fields or fields[0] in ("Z", "X"):
        return None
    spent = (int(fields[11]) + int(fields[12])) / _ticks()
    return f"{_boot()}.{fields[19]}", spent, int(fields[21]) * _page()


def is_leader(pid: int) -> bool:
    """Whether the process leads a session, as every process started by a supervisor does."""
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def environ(pid: int) -> dict[str, str]:
    """Returns the environment at the start of the process; empty if it is unreadable or unknown."""
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(pair).partition("=") for pair in content.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


def find_named(name: str) -> int | None:
    """Returns a process of this user with this name."""
    for pid in own_pids():
        with suppress(OSError):
            if (_PROC / str(pid) / "comm").read_text().rstrip("\n") == name:
                return pid
    return None


def own_pids() -> Iterator[int]:
    """Yields the pids of this user's processes. Yields none if there is no /proc."""
    if not _has_proc():
        return
    uid = os.getuid()
    for entry in os.scandir(_PROC):
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                yield int(entry.name)


def send(pid: int, start: str, number: signal.Signals) -> bool:
    """Signals the process, unless it has ended or its pid was reused. Returns False in those cases."""
    if start_of(pid) != start:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def limit_data(pid: int, most: int) -> None:
    """Limits the data segment, including thread stacks, of this process and of children it starts from now on.

    Set from outside, right after the start: otherwise the child would have to run our code before its own. Does nothing
    if the system does not support this or the process has already ended.
    """
    with suppress(AttributeError, OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process, as SIGSTOP or a debugger does."""
    found = _stat(pid)
    return found is not None and found[0] in "Tt"


def wait_for_end(pid: int, start: str, seconds: float) -> bool:
    """Blocks until the process has ended, for at most `seconds`. Returns whether it has ended."""
    deadline = time.monotonic() + seconds
    while start_of(pid) == start:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def kill_session(pid: int) -> None:
    """Sends KILL to the session that `pid` leads or led, with every group in it.

    The kernel does not give a number that still names a group or session to a new process. Without /proc, kills only
    the process group of that number.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    killed: set[int] = set()
    while left := {member for member in own_pids() if _session_of(member) == pid} - killed:
        for member in left:  # includes unreaped zombies, which a signal does not harm
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)
        killed |= left


def holder_of(port: int) -> str:
    """Returns `name (pid 12)` of the program that listens on this TCP port, or "" if unknown."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _find_listening(table, port)}
    targets = {f"socket:[{inode}]" for inode in inodes}
    for pid in own_pids() if targets else ():
        with suppress(OSError):
            for descriptor in os.scandir(_PROC / str(pid) / "fd"):
                if os.readlink(descriptor.path) in targets:
                    return f"{(_PROC / str(pid) / 'comm').read_text().strip()} (pid {pid})"
    return ""


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


@cache
def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


@cache
def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")


@cache
def _page() -> int:
    return resource.getpagesize()


@cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/<pid>/stat from the state on; the name before it may contain spaces and brackets."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)  # called often: a file object costs 3 times as much
    except OSError:
        return None
    try:
        return os.read(descriptor, 4096).decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _start_by_ps(pid: int) -> str | None:
    found = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    state, _, start = found.stdout.strip().partition(" ")
    return start.strip() if state and not state.startswith("Z") else None


def _find_listening(table: str, port: int) -> Iterator[str]:
    try:
        lines = (_PROC / "net" / table).read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]
