"""Privileges of a process: capabilities of root, the user it runs as, and what exec may add."""

from __future__ import annotations

import ctypes
import os
import pwd
from contextlib import suppress

from mizzen.confinement import syscalls

_PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_CAP_AMBIENT, _CLEAR_ALL = 24, 28, 47, 4
_LAST = 63
_NOROOT_LOCKED = 0b00101111
"""exec as root adds nothing; nor does a change of the user; both for good."""
_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def become(user: str) -> None:
    """Runs this process as another user, without any other groups. Needs root. Raises OSError, KeyError."""
    found = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(found.pw_gid, found.pw_gid, found.pw_gid)
    os.setresuid(found.pw_uid, found.pw_uid, found.pw_uid)


def drop() -> None:
    """Gives up all capabilities, also of programs that it starts. Raises OSError if some are left."""
    with suppress(OSError):  # a process without them cannot change these
        syscalls.prctl(_PR_SET_SECUREBITS, _NOROOT_LOCKED)
    with suppress(OSError):
        for capability in range(_LAST + 1):  # ends at the first one that the kernel does not have
            syscalls.prctl(_PR_CAPBSET_DROP, capability)
    with suppress(OSError):
        syscalls.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL)
    header = _Header(_VERSION_3, 0)
    syscalls.call("capset", ctypes.byref(header), ctypes.byref((_Data * 2)()))


def forbid_gains() -> None:
    """No program started from here on gains privileges, such as a setuid one. Raises OSError."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
