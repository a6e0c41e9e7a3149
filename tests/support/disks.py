"""A small real disk, that can be filled to the last byte."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """Skips the test where nobody may mount one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class Ballast:
    """A file that takes all of the disk but some bytes."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._file = disk / "ballast"

    def leave(self, free: int) -> None:
        self._file.unlink(missing_ok=True)
        with self._file.open("wb") as file:
            while True:
                found = os.statvfs(self._disk)
                size = found.f_bavail * found.f_frsize - free
                if size <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                except OSError as error:  # somebody else has taken some of it meanwhile
                    if error.errno != errno.ENOSPC:
                        raise
                else:
                    return
