"""Landlock: an allow-list of files for this process and all its descendants, enforced by the kernel.

It also denies tracing and reading the memory and environment of processes outside, and, where the kernel is new enough,
signals to them and their abstract sockets. It does not restrict sockets with a path, nor the network.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from mizzen.confinement import syscalls

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPES = 1 | 2
"""Abstract unix sockets, and signals."""
_RULE_PATH_BENEATH = 1
SCOPED_SINCE = 6
"""The first version of the interface that restricts signals."""


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def version() -> int:
    """The version of the kernel's interface; 0: there is none, or it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def restrict(read: Iterable[str], write: Iterable[str], devices: Iterable[str]) -> None:
    """Denies this process all files except these. Absent ones are skipped. Needs no_new_privs. Raises OSError.

    `devices` are files and folders of which open and ioctl are allowed, but nothing can be created.
    """
    handled = _rights(version())
    attr = _RulesetAttr(handled, 0, _SCOPES if version() >= SCOPED_SINCE else 0)
    size = 24 if version() >= SCOPED_SINCE else 8
    ruleset = syscalls.call("landlock_create_ruleset", ctypes.byref(attr), size, 0)
    try:
        for path in read:
            _allow(ruleset, path, handled & _READ)
        for path in devices:
            _allow(ruleset, path, handled & (_READ | _WRITE_FILE | _IOCTL_DEV))
        for path in write:
            _allow(ruleset, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK))
        _allow(ruleset, "/proc/self/fd/1", handled & _WRITE_FILE)  # programs may open /dev/stdout
        syscalls.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _rights(known: int) -> int:
    rights = (1 << 13) - 1
    if known >= 2:
        rights |= _REFER
    if known >= 3:
        rights |= _TRUNCATE
    if known >= 5:
        rights |= _IOCTL_DEV
    return rights


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # absent, or not permitted anyway
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _FILE
        beneath = _PathBeneath(rights, handle)
        with suppress(OSError):  # a pipe needs no rule
            syscalls.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(handle)
