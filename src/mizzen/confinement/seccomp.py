"""A seccomp filter: system calls that a model has no use for, and an attacker has.

Denied: tracing others and reading their memory, new namespaces and mounts, keys, kernel modules, BPF, io_uring (whose
operations other filters do not see), clocks, and sockets other than unix, IP and netlink.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache

from mizzen.confinement import syscalls

_DENIED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "mount", "umount2", "pivot_root",
    "chroot", "unshare", "setns", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at", "fanotify_init", "add_key",
    "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
    "swapon", "swapoff", "reboot", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "syslog", "vhangup", "lookup_dcookie", "iopl",
    "ioperm", "uselib",
)  # fmt: skip
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_NEW_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""ioctls that type into a terminal: TIOCSTI and TIOCLINUX."""

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data: the number, the architecture, and the low halves of the first two arguments."""

_SET_MODE_FILTER = 1
_SPEC_ALLOW = 4
"""Without it, older kernels slow down every process that has a filter."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


@cache
def available() -> bool:
    """Whether the kernel has filters. A null filter is a bad address where it does."""
    try:
        syscalls.call("seccomp", _SET_MODE_FILTER, 0, None)
    except OSError as error:
        return error.errno == 14
    return False


def restrict() -> None:
    """Filters the system calls of this process and its descendants. Needs no_new_privs. Raises OSError."""
    content = program()
    filter_ = _Program(len(content) // 8, content)
    syscalls.call("seccomp", _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.byref(filter_))


@cache
def program() -> bytes:
    """The filter in the kernel's own instructions, 8 bytes each."""
    numbers = syscalls.numbers()
    code = [
        _instruction(_LOAD, value=_ARCH),
        _instruction(_EQUAL, yes=1, value=_AUDIT_ARCH[syscalls.architecture()]),
        _instruction(_RETURN, value=_KILL),
        _instruction(_LOAD, value=_NUMBER),
    ]
    if syscalls.architecture() == "x86_64":
        code += [_instruction(_AT_LEAST, no=1, value=_X32), _instruction(_RETURN, value=_KILL)]
    # glibc falls back to clone, whose flags a filter can read.
    code += _deny(numbers["clone3"], _ENOSYS)
    for name in _DENIED:
        if name in numbers:
            code += _deny(numbers[name], _EPERM)
    code += _branch(
        numbers["clone"],
        [
            _instruction(_LOAD, value=_FIRST),
            _instruction(_ANY_BIT, no=1, value=_NEW_NAMESPACES),
            _instruction(_RETURN, value=_ERRNO | _EPERM),
            _instruction(_RETURN, value=_ALLOW),
        ],
    )
    families = [_instruction(_EQUAL, yes=len(_FAMILIES) - i, value=each) for i, each in enumerate(_FAMILIES)]
    code += _branch(
        numbers["socket"],
        [
            _instruction(_LOAD, value=_FIRST),
            *families,
            _instruction(_RETURN, value=_ERRNO | _EAFNOSUPPORT),
            _instruction(_RETURN, value=_ALLOW),
        ],
    )
    requests = [
        _instruction(_EQUAL, yes=len(_TERMINAL_INPUT) - i, value=each) for i, each in enumerate(_TERMINAL_INPUT)
    ]
    code += _branch(
        numbers["ioctl"],
        [
            _instruction(_LOAD, value=_SECOND),
            *requests,
            _instruction(_RETURN, value=_ALLOW),
            _instruction(_RETURN, value=_ERRNO | _EPERM),
        ],
    )
    code.append(_instruction(_RETURN, value=_ALLOW))
    return b"".join(code)


def _instruction(code: int, *, yes: int = 0, no: int = 0, value: int) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _deny(number: int, error: int) -> list[bytes]:
    return [_instruction(_EQUAL, no=1, value=number), _instruction(_RETURN, value=_ERRNO | error)]


def _branch(number: int, body: list[bytes]) -> list[bytes]:
    """For this system call only. The body returns."""
    return [_instruction(_EQUAL, no=len(body), value=number), *body]
