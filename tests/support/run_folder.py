"""The folder for temporary files of a test run. A green run removes it; a process that outlives the run fails it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

PATIENCE = 15.0
"""Seconds that processes have to end by themselves: tests may stop them without waiting."""


def create() -> Path:
    """Make it, and let this process and its children use it. Its name is short: paths of unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="mzrun"))
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


def shared(name: str) -> Path:
    """A new folder that the models of all planes of the tests may write to."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=shared_root()))


def shared_root() -> Path:
    root = Path(os.environ["TMPDIR"]) / "shared"
    root.mkdir(exist_ok=True)
    return root


def remove(folder: Path) -> None:
    tempfile.tempdir = None
    os.environ.pop("TMPDIR", None)
    shutil.rmtree(folder, ignore_errors=True)


def end_processes(folder: Path) -> list[str]:
    """Wait for the processes that use this folder, kill those that stay, and return their command lines."""
    end = time.monotonic() + PATIENCE
    while list(_processes(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    killed = []
    for process in _processes(folder):
        with contextlib.suppress(psutil.Error):
            killed.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            process.send_signal(signal.SIGKILL)
    return killed


def _processes(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # Models have temporary folders of their own, in those of the planes.
            ours = process.pid != os.getpid() and process.environ().get("TMPDIR", "").startswith(str(folder))
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                yield process
