"""A mount namespace of its own: private `/run`, `/dev/shm` and, for root, a `/proc` without the processes of others.

Sockets with a path, such as those of container engines and desktop sessions, are out of reach then. The namespace is
also a mark that no descendant can take off: `mark_of` recognizes all of them.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache

from mizzen.confinement import syscalls

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_RUN = "/run"
_RESOLVER = "/etc/resolv.conf"


def enter(*, own: bool, keep: tuple[str, ...] = ()) -> None:
    """Moves this process, which has one thread, to new namespaces. `own`: it is root and needs no user namespace.

    Paths in `keep` stay reachable. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    _check(syscalls.libc().unshare(ctypes.c_int(_NEWNS if own else _NEWNS | _NEWUSER)), "unshare")
    if not own:
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount("none", "/", "", _REC | _PRIVATE, "")
    _hide_run(keep)
    if os.path.isdir("/dev/shm"):  # noqa: S108
        _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")  # noqa: S108
    if own:
        with suppress(OSError):  # an old kernel; Landlock still protects what matters there
            _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "hidepid=ptraceable")


def mark_of(pid: int) -> str:
    """The mount namespace of a process as text; empty: it has ended, or belongs to another user."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


@cache
def own_mark() -> str:
    return mark_of(os.getpid())


def _hide_run(keep: tuple[str, ...]) -> None:
    """Mounts an empty folder over /run. The name server's file is often below it, and maybe our own folders."""
    if not os.path.isdir(_RUN) or os.path.islink(_RUN):
        return
    kept = {}
    for path in {os.path.realpath(_RESOLVER), *map(os.path.realpath, keep)}:
        if path.startswith(f"{_RUN}/") and os.path.exists(path):
            kept[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _mount("tmpfs", _RUN, "tmpfs", _NOSUID | _NODEV, "mode=755")
    for path, handle in kept.items():
        source = f"/proc/self/fd/{handle}"
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        _mount(source, path, "", _BIND | _REC, "")
        os.close(handle)


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    words = (each.encode() or None for each in (source, target, kind))
    done = syscalls.libc().mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    _check(done, f"mount {target}")


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


_check = syscalls.check
