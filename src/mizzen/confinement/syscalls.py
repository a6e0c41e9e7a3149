"""System calls that Python does not wrap, by number."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

PR_SET_NO_NEW_PRIVS = 38

_NAMES = (
    "add_key", "request_key", "keyctl", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "mount",
    "umount2", "pivot_root", "chroot", "unshare", "setns", "bpf", "perf_event_open", "userfaultfd",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff",
    "reboot", "open_by_handle_at", "name_to_handle_at", "quotactl", "acct", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "syslog", "sethostname", "setdomainname", "vhangup", "lookup_dcookie",
    "fanotify_init", "clone", "socket", "ioctl", "seccomp", "capset", "prlimit64", "setpriority",
    "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set", "fchmod", "fchmodat", "mknodat", "openat",
)  # fmt: skip
_X86_64 = (
    248, 249, 250, 101, 310, 311, 312, 165, 166, 155, 161, 272,
    308, 321, 298, 323, 246, 320, 175, 313, 176, 167,
    168, 169, 304, 303, 179, 163, 164, 227, 305, 159,
    103, 170, 171, 153, 212, 300, 56, 41, 16, 317, 126, 302, 141,
    144, 142, 314, 251, 91, 268, 259, 257,
)  # fmt: skip
_AARCH64 = (
    217, 218, 219, 117, 270, 271, 272, 40, 39, 41, 51, 97,
    268, 280, 241, 282, 104, 294, 105, 273, 106, 224,
    225, 142, 265, 264, 60, 89, 170, 112, 266, 171,
    116, 161, 162, 58, 18, 262, 220, 198, 29, 277, 91, 261, 140,
    119, 118, 274, 30, 52, 53, 33, 56,
)  # fmt: skip
# Newer calls have the same number everywhere.
_COMMON = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "landlock_create_ruleset": 444,
    "landlock_add_rule": 445, "landlock_restrict_self": 446, "process_mrelease": 448, "fchmodat2": 452,
    "open_tree_attr": 467,
}  # fmt: skip
_ONLY_X86 = {
    "iopl": 172, "ioperm": 173, "uselib": 134, "modify_ldt": 154, "open": 2, "creat": 85, "chmod": 90, "mknod": 133,
}  # fmt: skip


@cache
def architecture() -> str:
    """`x86_64` or `aarch64`; empty: one whose numbers are not known here."""
    machine = platform.machine()
    return machine if machine in ("x86_64", "aarch64") and os.uname().sysname == "Linux" else ""


@cache
def numbers() -> dict[str, int]:
    """The numbers by name; empty on an architecture that is not known here."""
    if not architecture():
        return {}
    x86 = architecture() == "x86_64"
    return {**dict(zip(_NAMES, _X86_64 if x86 else _AARCH64, strict=True)), **_COMMON, **(_ONLY_X86 if x86 else {})}


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Raises OSError."""
    number = numbers().get(name)
    if number is None:
        raise OSError(38, f"{name} is not known on this machine")
    return check(libc().syscall(ctypes.c_long(number), *(_pass(each) for each in arguments)), name)


def prctl(option: int, *arguments: int) -> int:
    """Raises OSError."""
    padded = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return check(libc().prctl(ctypes.c_int(option), *padded), f"prctl {option}")


def check(result: int, name: str) -> int:
    """Returns the result of a call into libc. Raises OSError if it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return int(result)


def _pass(value: object) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value
