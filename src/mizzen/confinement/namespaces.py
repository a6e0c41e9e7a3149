"""A mount namespace of its own, with a smaller view of the file system; and an IPC namespace.

Hidden folders are empty except for what the process needs, and all the rest is read-only. That covers what Landlock
does not: sockets with a path, such as those of container engines and agents, and changes of modes and times. The
namespace is also a mark that no descendant can take off: `mark_of` recognizes all of them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from mizzen.confinement import syscalls
from mizzen.confinement.files.mount_plan import NOTHING, MountPlan

_NEWNS, _NEWIPC, _NEWUSER = 0x00020000, 0x08000000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_CWD, _RECURSIVE, _ATTR_RDONLY = -100, 0x8000, 1
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )  # fmt: skip


def enter(*, own: bool, plan: MountPlan = NOTHING) -> None:
    """Moves this process, which has one thread, to new namespaces. `own`: it is root and needs no user namespace.

    Raises OSError.
    """
    unshare(_NEWIPC, own=own)
    _apply(plan)
    if own:
        with suppress(OSError):  # an old kernel; Landlock still protects what matters there
            mount_proc(_RDONLY, "hidepid=ptraceable")


def unshare(kinds: int, *, own: bool) -> None:
    """Moves this process to new namespaces of these kinds, and to one with mounts of its own. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _check(syscalls.libc().unshare(ctypes.c_int(_NEWNS | kinds | (0 if own else _NEWUSER))), "unshare")
    if not own:
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount("none", "/", "", _REC | _PRIVATE, "")


def mount_proc(flags: int = 0, options: str = "") -> None:
    """Shows the processes of this process's PID namespace. Raises OSError."""
    _mount("proc", "/proc", "proc", flags | _NOSUID | _NODEV | _NOEXEC, options)


def mark_of(pid: int) -> str:
    """The mount namespace of a process as text; empty: it has ended, or belongs to another user."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


@cache
def own_mark() -> str:
    return mark_of(os.getpid())


def _apply(plan: MountPlan) -> None:
    try:
        here = os.getcwd()
    except OSError:  # removed
        here = "/"
    handles = _open_all((*plan.keep, *plan.write))
    with suppress(OSError):  # before Linux 5.12
        _set_read_only("/", recursive=True)
    mask = os.umask(0o022)
    if os.path.isdir(_SHARED_MEMORY):
        _mount("tmpfs", _SHARED_MEMORY, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    for root in plan.hidden:
        _hide(root)
    for path, text in plan.links:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileExistsError):
            os.symlink(text, path)
    for path in sorted(handles):  # a folder before what lies in it
        _bind(handles[path], path)
    with suppress(OSError):
        for root in plan.hidden:
            _set_read_only(root, recursive=False)
        for path in plan.write:
            if path in handles:
                _set_writable(path)
    os.umask(mask)
    for handle in handles.values():
        os.close(handle)
    # The former working folder is one of the old view: `..` would lead to what is hidden.
    os.chdir(here if os.path.isdir(here) else "/")


def _open_all(paths: Iterable[str]) -> dict[str, int]:
    handles = {}
    for path in paths:
        if path not in handles:
            with suppress(OSError):  # absent
                handles[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    return handles


def _hide(path: str) -> None:
    if os.path.isdir(path):
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=755")
    elif os.path.exists(path):
        _mount("/dev/null", path, "", _BIND, "")


def _bind(handle: int, path: str) -> None:
    source = f"/proc/self/fd/{handle}"
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(source):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    _mount(source, path, "", _BIND | _REC, "")


def _set_read_only(path: str, *, recursive: bool) -> None:
    _set_attributes(path, _MountAttr(set=_ATTR_RDONLY), recursive=recursive)


def _set_writable(path: str) -> None:
    _set_attributes(path, _MountAttr(clear=_ATTR_RDONLY), recursive=True)


def _set_attributes(path: str, attr: _MountAttr, *, recursive: bool) -> None:
    flags = _RECURSIVE if recursive else 0
    syscalls.call("mount_setattr", _CWD, os.fsencode(path), flags, ctypes.byref(attr), ctypes.sizeof(attr))


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    words = (os.fsencode(each) or None for each in (source, target, kind))
    done = syscalls.libc().mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    _check(done, f"mount {target}")


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


_check = syscalls.check
