"""The files of the machine that every confined process may read: programs, libraries, public settings, and devices."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from glob import glob
from pathlib import Path

_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/proc",
    "/sys/devices", "/sys/class", "/sys/bus", "/sys/fs/cgroup", "/sys/kernel/mm", "/sys/module",
)  # fmt: skip
_ETC = "/etc"
_LINKED = ("/etc/resolv.conf", "/etc/localtime", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt")
"""Files that may be links to elsewhere, such as below `/run`."""
_DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/fd", "/dev/kfd", "/dev/dri",
    "/dev/nvidia*", "/dev/infiniband",
)  # fmt: skip
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of its own where the machine allows it


def devices() -> list[str]:
    return [path for pattern in _DEVICES for path in glob(pattern)]


def readable(protected: Collection[str], more: Iterable[str] = ()) -> list[str]:
    """These paths and `more`, without those in `protected` and what lies below them. Links are resolved."""
    real = sorted({os.path.realpath(path) for path in protected})
    roots = [*_SYSTEM, *_interpreters(), *(os.path.realpath(path) for path in _LINKED), *_public(_ETC), *more]
    return [path for root in dict.fromkeys(roots) for path in without(os.path.realpath(root), real)]


def list_named() -> tuple[str, ...]:
    """Paths of the above as programs name them, through links."""
    return (sys.executable, sys.prefix, *_LINKED, *(path for path in sys.path if os.path.isabs(path)))


def without(path: str, protected: Collection[str]) -> Iterator[str]:
    """This path, or what it contains except the protected paths. All are resolved.

    A folder that contains a protected path is listed entry by entry: a file created there later is not included.
    """
    if any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in protected):
        return
    prefix = f"{path.rstrip('/')}/"
    if not any(each.startswith(prefix) for each in protected):
        yield path
        return
    with suppress(OSError):
        for entry in os.scandir(path):
            if not entry.is_symlink():
                yield from without(entry.path, protected)


@cache
def _interpreters() -> tuple[str, ...]:
    """Where this interpreter, its packages and Mizzen itself are. Not the current folder, nor the root of all."""
    found = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, str(Path(__file__).parents[2])}
    found |= {path for path in sys.path if os.path.isabs(path)}
    return tuple(sorted(path for path in map(os.path.realpath, found) if path.count("/") > 1 or path not in _broad()))


def _broad() -> Collection[str]:
    return {"/", os.path.realpath(os.path.expanduser("~")), "/root", "/home", "/tmp", "/var"}  # noqa: S108


@cache
def _public(folder: str) -> tuple[str, ...]:
    """The largest parts of this folder that every user of the machine may read."""
    parts, whole = _split(folder)
    return (folder,) if whole else tuple(parts)


def _split(folder: str) -> tuple[list[str], bool]:
    parts: list[str] = []
    whole = True
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return [], False
    for entry in entries:
        with suppress(OSError):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                continue
            if stat.S_ISDIR(mode) and mode & 0o005 == 0o005:
                below, all_of_it = _split(entry.path)
                whole = whole and all_of_it
                parts += [entry.path] if all_of_it else below
            elif stat.S_ISREG(mode) and mode & 0o004:
                parts.append(entry.path)
            else:
                whole = False
    return parts, whole
