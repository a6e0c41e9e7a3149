"""A seccomp filter: system calls that a model has no use for, and an attacker has.

Denied: tracing others and reading their memory, limits and priorities of others, new namespaces and mounts, keys,
kernel modules, BPF, io_uring (whose operations other filters do not see), clocks, setuid files, and sockets other than
unix, IP and netlink.

The kernel knows for which system calls the answer depends on the number only, and runs the filter just for the others.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
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
    "ioperm", "uselib", "modify_ldt", "process_madvise", "process_mrelease",
)  # fmt: skip
_UNKNOWN = ("clone3", "openat2")
"""Programs fall back to calls whose arguments a filter can read."""
_OTHER_PROCESS = {
    "setpriority": 1, "ioprio_set": 1, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
}  # fmt: skip
"""The argument that names a process; 0 is the calling one."""
_OF_USER = {"setpriority": 2, "ioprio_set": 3}
"""The first argument with which 0 stands for all processes of the user."""
_MODE = {
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "open": 2, "openat": 3, "creat": 1, "mknod": 1,
    "mknodat": 2,
}  # fmt: skip
"""The argument that is the mode of a file."""
_SET_USER_OR_GROUP = 0o6000
_CREATES = 0o100 | 0o20000000
"""Flags of open with which the mode counts: O_CREAT, and what is new in O_TMPFILE."""
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
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data: the number, the architecture, and the arguments, 8 bytes each, low half first."""

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
        _return(_KILL),
        _instruction(_LOAD, value=_NUMBER),
    ]
    if syscalls.architecture() == "x86_64":
        code += [_instruction(_AT_LEAST, no=1, value=_X32), _return(_KILL)]
    for name in _UNKNOWN:
        code += _deny(numbers[name], _ENOSYS)
    for name in _DENIED:
        if name in numbers:
            code += _deny(numbers[name], _EPERM)
    code += _branch(numbers["clone"], _refuse_bits(0, _NEW_NAMESPACES))
    code += _branch(numbers["socket"], _choose(0, _FAMILIES, listed=_ALLOW, others=_ERRNO | _EAFNOSUPPORT))
    code += _branch(numbers["ioctl"], _choose(1, _TERMINAL_INPUT, listed=_ERRNO | _EPERM, others=_ALLOW))
    code += _branch(numbers["prlimit64"], [*_return_if_null(0), *_return_if_null(2), _return(_ERRNO | _EPERM)])
    for name, index in _OTHER_PROCESS.items():
        all_of_user = _refuse_value(0, _OF_USER[name]) if name in _OF_USER else []
        own = _choose(index, (0,), listed=_ALLOW, others=_ERRNO | _EPERM)
        code += _branch(numbers[name], [*all_of_user, *own])
    for name, index in _MODE.items():
        if name in numbers:
            flags = _return_unless(index - 1, _CREATES) if name in ("open", "openat") else []
            code += _branch(numbers[name], [*flags, *_refuse_bits(index, _SET_USER_OR_GROUP)])
    code.append(_return(_ALLOW))
    return b"".join(code)


def _load(argument: int, *, high: bool = False) -> bytes:
    return _instruction(_LOAD, value=_ARGUMENTS + 8 * argument + (4 if high else 0))


def _return(value: int) -> bytes:
    return _instruction(_RETURN, value=value)


def _refuse_bits(argument: int, bits: int) -> list[bytes]:
    return [_load(argument), _instruction(_ANY_BIT, no=1, value=bits), _return(_ERRNO | _EPERM), _return(_ALLOW)]


def _refuse_value(argument: int, value: int) -> list[bytes]:
    return [_load(argument), _instruction(_EQUAL, no=1, value=value), _return(_ERRNO | _EPERM)]


def _return_unless(argument: int, bits: int) -> list[bytes]:
    """Allows the call if none of these bits is set."""
    return [_load(argument), _instruction(_ANY_BIT, yes=1, value=bits), _return(_ALLOW)]


def _return_if_null(argument: int) -> list[bytes]:
    """Allows the call if this argument is 0, in both halves."""
    return [
        _load(argument),
        _instruction(_EQUAL, no=3, value=0),
        _load(argument, high=True),
        _instruction(_EQUAL, no=1, value=0),
        _return(_ALLOW),
    ]


def _choose(argument: int, values: Sequence[int], *, listed: int, others: int) -> list[bytes]:
    tests = [_instruction(_EQUAL, yes=len(values) - index, value=each) for index, each in enumerate(values)]
    return [_load(argument), *tests, _return(others), _return(listed)]


def _instruction(code: int, *, yes: int = 0, no: int = 0, value: int) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _deny(number: int, error: int) -> list[bytes]:
    return [_instruction(_EQUAL, no=1, value=number), _return(_ERRNO | error)]


def _branch(number: int, body: list[bytes]) -> list[bytes]:
    """For this system call only. The body returns."""
    return [_instruction(_EQUAL, no=len(body), value=number), *body]
