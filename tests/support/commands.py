"""The command line in processes of its own, without the half second that Python and the imports take for each.

A helper imports the command line once and forks for every command: what runs is a process with its own environment,
folder, output and exit code. That a fresh interpreter finds the command line too is what the README's test shows.

Run as a program, this file is the helper. Requests come as messages over its socket (`_Request` as JSON, with the
connection to answer on and the command's stdin, stdout and stderr); it ends with its end.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypedDict

ROOT = Path(__file__).resolve().parents[2]
MESSAGE_BYTES = 1 << 17

_at_exit = contextlib.ExitStack()
atexit.register(_at_exit.close)


class _Request(TypedDict):
    words: list[str]
    environ: dict[str, str]
    cwd: str


def run(
    words: Sequence[str], *, environ: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """`mizzen` with these words; its output and exit code when it has ended and closed its output."""
    request = _Request(words=list(words), environ=dict(environ), cwd=str(cwd))
    here, there = socket.socketpair()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    with here, os.fdopen(out) as stdout, os.fdopen(err) as stderr:
        socket.send_fds(_helper(), [json.dumps(request).encode()], [there.fileno(), nothing, out_end, err_end])
        there.close()
        for end in (nothing, out_end, err_end):
            os.close(end)
        pid = int(_told(here))
        late = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
        late.start()
        try:
            rest = _Rest(stderr)
            printed = stdout.read()
            complained = rest.text()
            code = int(_told(here))
        finally:
            late.cancel()
    if code == -signal.SIGKILL:
        raise subprocess.TimeoutExpired(["mizzen", *words], timeout, printed, complained)
    return subprocess.CompletedProcess(["mizzen", *words], code, printed, complained)


class _Rest:
    """What is left to read of a file, read beside."""

    def __init__(self, file: IO[str]) -> None:
        self._parts: list[str] = []
        self._thread = threading.Thread(target=lambda: self._parts.append(file.read()))
        self._thread.start()

    def text(self) -> str:
        self._thread.join()
        return "".join(self._parts)


@functools.cache
def _helper() -> socket.socket:
    """One for each process of the tests; it ends with that, whose end closes the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        helper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.commands", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=dict(os.environ, COLUMNS="200"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        helper.wait()

    _at_exit.callback(end)
    return ours


def close() -> None:
    """End the helper of this process, if it has one."""
    _at_exit.close()
    _helper.cache_clear()


def _told(connection: socket.socket) -> str:
    """One line."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            raise AssertionError("the process that runs commands has died")
        line += part
    return line.decode()


# In the helper


def _serve(control: socket.socket) -> _Request | None:
    """Returns a request in the process that is to run it, and None in the helper itself, at its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not message:
            return None
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            return _started(json.loads(message), *fds)
        for fd in fds:
            os.close(fd)


def _started(request: _Request, answer: int, *standard: int) -> _Request:
    """Returns in a new process; the one that called it waits for that, tells of it and ends."""
    pid = os.fork()
    if pid:
        for fd in standard:
            os.close(fd)
        os.write(answer, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(answer, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.close(answer)
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["mizzen", *request["words"]]
    sys.path[0] = request["cwd"]
    return request


def _imported() -> None:
    import mizzen.cli

    for module in pkgutil.iter_modules(mizzen.cli.__path__, "mizzen.cli."):
        importlib.import_module(module.name)
    for name in ("mizzen.sdk.client", "mizzen.sdk.connection.locate", "mizzen.manifests.lint", "typer._adapters"):
        importlib.import_module(name)
    importlib.import_module("mizzen.cli.app").command()


if __name__ == "__main__":
    _imported()
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        asked = _serve(inherited)
    if asked is not None:
        from mizzen.cli.main import main

        main()
