"""The filter of system calls, run by a small interpreter of its instructions."""

from __future__ import annotations

import struct

import pytest

from mizzen.confinement import seccomp, syscalls

pytestmark = pytest.mark.skipif(syscalls.architecture() != "x86_64", reason="the numbers below are of x86-64")

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = (0x00050000 | code for code in (1, 38, 97))
X86_64, I386 = 0xC000003E, 0x40000003


def answer(number: int, *arguments: int, architecture: int = X86_64) -> int:
    """What the kernel does about this call."""
    padded = [each & (1 << 64) - 1 for each in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    code = list(struct.iter_unpack("=HBBI", seccomp.program()))
    at = accumulator = 0
    while True:
        kind, yes, no, value = code[at]
        at += 1
        if kind == 0x20:
            [accumulator] = struct.unpack_from("=I", data, value)
        elif kind == 0x06:
            return int(value)
        else:
            tests = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += yes if tests[kind] else no


@pytest.mark.parametrize(
    "name",
    [
        "ptrace", "process_vm_readv", "process_vm_writev", "mount", "umount2", "unshare", "setns", "chroot", "bpf",
        "keyctl", "add_key", "userfaultfd", "io_uring_setup", "pidfd_getfd", "open_by_handle_at", "kexec_load",
        "init_module", "perf_event_open", "reboot", "move_mount", "open_tree", "process_madvise",
    ],
)  # fmt: skip
def test_calls_against_others_are_denied(name: str) -> None:
    assert answer(syscalls.numbers()[name]) == EPERM


@pytest.mark.parametrize("number", [0, 1, 3, 9, 45, 59, 60, 61, 202, 231, 232, 281, 318, 425 - 1, 434, 439])
def test_ordinary_calls_are_allowed(number: int) -> None:
    """read, write, close, mmap, recvfrom, execve, exit, wait4, futex, exit_group, epoll, getrandom, pidfd, …"""
    assert answer(number) == ALLOW


@pytest.mark.parametrize("name", ["clone3", "openat2"])
def test_calls_that_hide_their_arguments_do_not_exist(name: str) -> None:
    assert answer(syscalls.numbers()[name]) == ENOSYS


def test_other_architectures_cannot_be_used_to_pass() -> None:
    assert answer(26, architecture=I386) == KILL
    assert answer(0x40000000 | 101) == KILL


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_a_clone_gets_no_namespaces(flag: int) -> None:
    assert answer(56, flag | 17) == EPERM
    assert answer(56, 0x3D0F00) == ALLOW, "a thread"


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (1, ALLOW), (2, ALLOW), (10, ALLOW), (16, ALLOW),
        (17, EAFNOSUPPORT), (38, EAFNOSUPPORT), (40, EAFNOSUPPORT), (44, EAFNOSUPPORT),
    ],
)  # fmt: skip
def test_sockets_are_of_four_families(family: int, expected: int) -> None:
    assert answer(41, family) == expected


def test_nothing_types_into_a_terminal() -> None:
    assert answer(16, 0, 0x5412) == EPERM
    assert answer(16, 0, 0x5412 | 1 << 32) == EPERM, "the kernel looks at the low half only"
    assert answer(16, 0, 0x541C) == EPERM
    assert answer(16, 0, 0x5413) == ALLOW


def test_limits_and_priorities_are_its_own() -> None:
    assert answer(302, 0, 7, 0x1000) == ALLOW
    assert answer(302, 4711, 7, 0, 0x1000) == ALLOW, "reading those of another process"
    assert answer(302, 4711, 7, 0x1000) == EPERM
    assert answer(302, 4711, 7, 1 << 32) == EPERM, "a pointer whose low half is 0"
    assert answer(141, 0, 0, 5) == ALLOW
    assert answer(141, 0, 4711, 5) == EPERM
    assert answer(141, 2, 0, 5) == EPERM, "all processes of the user"
    assert answer(251, 3, 0, 5) == EPERM
    assert answer(144, 4711) == EPERM
    assert answer(144, 0) == ALLOW


@pytest.mark.parametrize("bits", [0o4000, 0o2000])
def test_no_file_becomes_setuid(bits: int) -> None:
    for number, arguments in (
        (90, (0,)),
        (91, (0,)),
        (268, (0, 0)),
        (452, (0, 0)),
        (85, (0,)),
        (133, (0,)),
        (259, (0, 0)),
    ):
        assert answer(number, *arguments, bits | 0o755) == EPERM
        assert answer(number, *arguments, 0o755) == ALLOW
    create = 0o100 | 1
    assert answer(2, 0, create, bits | 0o755) == answer(257, 0, 0, create, bits | 0o755) == EPERM
    assert answer(257, 0, 0, 0, bits | 0o755) == ALLOW, "without O_CREAT the mode is not an argument"


def test_every_jump_stays_inside() -> None:
    code = list(struct.iter_unpack("=HBBI", seccomp.program()))
    assert len(code) < 4096, "the kernel accepts no more"
    for at, (kind, yes, no, _) in enumerate(code):
        if kind not in (0x20, 0x06):
            assert at + 1 + max(yes, no) < len(code)
    assert code[-1][0] == 0x06
