"""A PID namespace of its own for a process and all its descendants, where no cgroup can be created.

    supervisor ── watcher ── init, pid 1 inside ── the program ── its descendants

The watcher is the process that the supervisor starts and sees. It forwards signals to init, which forwards them to the
program. When the program ends, so does init, with its exit code, and then the watcher. When init ends for any reason,
the kernel kills everything in the namespace; init also ends with the watcher. Watcher and init are forked copies that
never call exec. Nothing in the namespace can leave it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Literal, NoReturn

from mizzen.confinement import namespaces, syscalls

Access = Literal["own", "user", "none"]
"""How a process gets the namespace: by root, through a user namespace, or not at all."""

_NEWPID = 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_MARK = "mz-"
_NAME_LENGTH = 15
"""Bytes of a process name that the kernel keeps."""


@cache
def detect() -> Access:
    """Tries it in a child process, once."""
    return "own" if os.getuid() == 0 and _works(own=True) else "user" if _works(own=False) else "none"


def enter(*, own: bool, run: str) -> None:
    """Returns in a forked child, which is in the new namespace. This process becomes the watcher, and never returns.

    Called between fork and exec. `run`: the id of this start, a mark on the watcher. Raises OSError.
    """
    namespaces.unshare(_NEWPID, own=own)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    reading, writing = os.pipe()
    init = os.fork()
    if init:
        _rename(mark_of(run))
        os.close(reading)
        _close_all({writing})
        _watch(init)
    os.close(writing)
    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_blocking(reading, False)
    try:
        if os.read(reading, 1) == b"":
            os._exit(1)  # the watcher ended before it could be watched
    except BlockingIOError:
        pass
    os.close(reading)
    namespaces.mount_proc()
    # Each in its own group: a signal to a group arrives once.
    os.setpgid(0, 0)
    program = os.fork()
    if program:
        _close_all(set())
        _watch(program)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def mark_of(run: str) -> str:
    """The name of a watcher of this start."""
    return f"{_MARK}{run}"[:_NAME_LENGTH]


def _watch(child: int) -> NoReturn:
    """Forwards all signals to the child, reaps everything, and ends like the child."""
    while True:
        number = signal.sigwait(signal.valid_signals())
        if number != signal.SIGCHLD:
            with suppress(OSError):
                os.kill(child, number)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(1)
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)
            if pid == 0:
                break


def _works(*, own: bool) -> bool:
    def attempt() -> None:
        enter(own=own, run="")
        os._exit(0 if os.getpid() == 2 and os.path.exists("/proc/2/stat") else 1)

    return _try(attempt)


def _try(attempt: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _close_all(kept: set[int]) -> None:
    """Also the descriptor by which the starter waits for exec, and the listening sockets."""
    first = 3
    for handle in sorted(each for each in kept if each >= first):
        os.closerange(first, handle)
        first = handle + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX") if first < 1 << 20 else first)


def _rename(name: str) -> None:
    text = ctypes.create_string_buffer(name.encode())
    syscalls.libc().prctl(ctypes.c_int(_PR_SET_NAME), text, 0, 0, 0)
