"""What a hostile model tries from inside: the text of this module is embedded in models, jobs and packages.

Standard library only, and nothing of Mizzen: it runs wherever users' code runs. Each attack returns evidence if it
succeeded. Nothing here damages the machine, even where it succeeds: files are opened for writing and left as they are.
"""

from __future__ import annotations

import ctypes
import glob
import http.client
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

TARGETS: dict[str, Any] = {}
"""What the attacker knows: the paths, pids and ports of the plane, and the secrets by which a success shows."""
MARK = "HOSTILE-REPORT "
_SECONDS = 20
Attack = Callable[[], Any]


def run(targets: dict[str, Any]) -> str:
    """Print one line, and return it: the number of attacks, and the evidence of those that succeeded."""
    TARGETS.update(targets)
    sys.stdout.flush()
    sys.stderr.flush()
    succeeded = {name: found for name, attack in attacks() if (found := _attempt(attack))}
    done = {"uid": os.getuid(), "tried": len(list(attacks())), "succeeded": succeeded}
    line = f"{MARK}{json.dumps(done)}"
    os.write(1, f"\n{line}\n".encode())
    return line


def attacks() -> Iterator[tuple[str, Attack]]:
    """Every attack, by name."""
    for name, path in TARGETS["files"].items():
        yield f"read {name}", partial(read, path)
        yield f"open {name} to write", partial(opens_to_write, path)
        yield f"link {name}", partial(links, path)
        yield f"change the mode of {name}", partial(changes_mode, path)
        yield f"change the times of {name}", partial(changes_times, path)
    for name, path in TARGETS["folders"].items():
        yield f"list {name}", partial(os.listdir, path)
        yield f"create a file in {name}", partial(creates_file, path)
        yield f"create a folder in {name}", partial(creates_folder, path)
    for name, pid in TARGETS["pids"].items():
        for part in ("environ", "maps", "auxv", "cwd", "root", "exe", "fd", "mem"):
            yield f"{part} of {name}", partial(look_into, pid, part)
        yield f"files through the root of {name}", partial(read, f"/proc/{pid}/root{TARGETS['token']}")
        yield f"signal {name}", partial(signals, pid)
        yield f"trace {name}", partial(traces, pid)
        yield f"read the memory of {name}", partial(reads_memory, pid)
        yield f"take a descriptor of {name}", partial(takes_descriptor, pid)
        yield f"limit {name}", partial(limits, pid)
        yield f"slow down {name}", partial(slows_down, pid)
        yield f"enter the namespaces of {name}", partial(enters, pid)
    for name, path in TARGETS["sockets"].items():
        yield f"call {name}", partial(calls_socket, path)
    yield "call the supervisor", calls_supervisor
    yield "slow down all processes of the user", lambda: _was_allowed(lambda: os.setpriority(os.PRIO_USER, 0, 0))
    for name, where in TARGETS["requests"].items():
        yield f"request {name} without a token", partial(requests, where, None)
        yield f"request {name} with a token that was read", partial(requests_with_token, where)
    yield "find a secret of the operator", finds_secret
    yield from (("look for files of the plane below /proc", looks_for_files), ("shared memory", finds_shared_memory))
    yield from ((f"write to {path}", partial(opens_to_write, path)) for path in _KERNEL_FILES)
    yield from ((name, partial(calls_kernel, *arguments)) for name, arguments in _CALLS.items())
    yield from (("chroot", lambda: _was_allowed(lambda: os.chroot("."))), ("a device", makes_device))
    yield from (("a setuid file", makes_setuid), ("a packet socket", opens_packet_socket), ("a raw socket", opens_raw))
    yield "leave the folder through its parents", lambda: read("../../admin-token") or read("../../../../admin-token")
    yield "call an abstract socket", calls_abstract_socket


_KERNEL_FILES = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
    "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs",
    "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/proc/1/oom_score_adj",
)  # fmt: skip
# x86-64 and the numbers that are the same everywhere. Arguments that change nothing even if the call is allowed.
_CALLS: dict[str, tuple[int, ...]] = {
    "unshare a mount namespace": (272, 0x00020000),
    "unshare a user namespace": (272, 0x10000000),
    "unshare a PID namespace": (272, 0x20000000),
    "a user namespace through clone": (56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "a new mount": (430, ctypes.cast(ctypes.c_char_p(b"tmpfs"), ctypes.c_void_p).value or 0, 0),
    "a BPF map": (321, 0, 0, 0),
    "a key of the session": (250, 0, -3, 1),
    "the user keyring": (250, 0, -4, 1),
    "an io_uring": (425, 1, ctypes.addressof(ctypes.create_string_buffer(256))),
    "userfaultfd": (323, 0),
}


def read(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(handle, 40).hex() or "it is empty"
    finally:
        os.close(handle)


def opens_to_write(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return "opened"


def links(path: str) -> str:
    os.link(path, "linked-by-a-model")
    os.unlink("linked-by-a-model")
    return "linked"


def changes_mode(path: str) -> str:
    os.chmod(path, os.stat(path).st_mode & 0o7777)
    return "changed"


def changes_times(path: str) -> str:
    found = os.stat(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    return "changed"


def creates_file(folder: str) -> str:
    path = os.path.join(folder, f"hostile-{os.getpid()}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)
    return "created"


def creates_folder(folder: str) -> str:
    path = os.path.join(folder, f"hostile-{os.getpid()}")
    os.mkdir(path)
    os.rmdir(path)
    return "created"


def look_into(pid: int, part: str) -> str:
    path = f"/proc/{pid}/{part}"
    if part in ("cwd", "root", "exe"):
        return os.readlink(path)
    if part == "fd":  # their numbers say nothing
        return os.readlink(f"{path}/0")
    return read(path) if part != "mem" else opens_to_write(path)


def signals(pid: int) -> str:
    os.kill(pid, signal.SIGCONT)
    return "signalled"


def traces(pid: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(0x4206), ctypes.c_long(pid), ctypes.c_long(0), ctypes.c_long(0)):  # SEIZE
        return ""
    libc.ptrace(ctypes.c_long(17), ctypes.c_long(pid), ctypes.c_long(0), ctypes.c_long(0))  # DETACH
    return "traced"


def reads_memory(pid: int) -> str:
    """It succeeds unless the call is denied: a bad address is not a refusal."""
    return calls_kernel(310, pid, 0, 0, 0, 0, 0)


def takes_descriptor(pid: int) -> str:
    handle = os.pidfd_open(pid)
    return calls_kernel(438, handle, 0, 0)


def limits(pid: int) -> str:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE))
    return "limited"


def slows_down(pid: int) -> str:
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    return "slower"


def enters(pid: int) -> str:
    handle = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    return calls_kernel(308, handle, 0)


def calls_kernel(number: int, *arguments: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments))
    if result == 0 and number == 56:
        os._exit(0)  # the child
    if result < 0 and ctypes.get_errno() in (1, 13, 38, 3):  # EPERM, EACCES, ENOSYS, ESRCH
        return ""
    return f"it returned {result}, error {ctypes.get_errno()}"


def calls_socket(path: str) -> str:
    """Another model's: it greets with frame type 1, and asks strangers for a proof with type 7."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(5)
        peer.connect(path)
        head = peer.recv(12)
        kind = struct.unpack_from("<IBBHI", head)[2]
        if kind == 7:
            peer.sendall(struct.pack("<IBBHI", 12 + 32, head[4], 8, 1, 0) + bytes(32))
            while answer := peer.recv(4096):
                if len(answer) >= 12 and answer[5] == 1:
                    return "it accepted a wrong proof"
            return ""
        return f"it sent a frame of type {kind}"


def calls_supervisor() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(5)
        peer.connect(TARGETS["supervisor"])
        peer.sendall(b'{"op": "key", "key": "", "id": 0}\n{"op": "list", "prefix": "", "id": 1}\n')
        text = b""
        while chunk := peer.recv(65536):
            text += chunk
            if b'"processes"' in text:
                return "it lists its processes"
    return ""


def calls_abstract_socket() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(5)
        peer.connect("\0" + TARGETS["abstract"])
        return "connected"


def requests(where: list[Any], token: str | None) -> str:
    host, port, method, path = where
    connection = http.client.HTTPConnection(host, port, timeout=10)
    headers = {} if token is None else {"Authorization": "Bearer " + bytes.fromhex(token).decode().strip()}
    connection.request(method, path, headers=headers)
    code = connection.getresponse().status
    return f"status {code}" if code < 400 else ""


def requests_with_token(where: list[Any]) -> str:
    return requests(where, read(TARGETS["token"]))


def finds_secret() -> str:
    """In every environment that can be read, its own included."""
    secret = TARGETS["secret"].encode()
    if secret in "\0".join(f"{name}={value}" for name, value in os.environ.items()).encode():
        return "in its own environment"
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if secret in file.read():
                    return path
        except OSError:
            continue
    return ""


def looks_for_files() -> str:
    for path in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd"):
        if path.split("/")[2] != str(os.getpid()) and os.path.exists(f"{path}{TARGETS['token']}"):
            return path
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(path) in TARGETS["files"].values():
                return path
        except OSError:
            continue
    return ""


def finds_shared_memory() -> str:
    with open(f"/dev/shm/{TARGETS['shared_memory']}") as file:
        return file.read()


def makes_device() -> str:
    os.mknod("device-of-a-model", 0o20600, os.makedev(1, 5))
    os.unlink("device-of-a-model")
    return "made"


def makes_setuid() -> str:
    with open("setuid-by-a-model", "w") as file:
        os.fchmod(file.fileno(), 0o4755)
    os.unlink("setuid-by-a-model")
    return "made"


def opens_packet_socket() -> str:
    socket.socket(17, socket.SOCK_RAW, 0).close()
    return "opened"


def opens_raw() -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
    return "opened"


def _was_allowed(act: Callable[[], Any]) -> str:
    act()
    return "allowed"


def _attempt(attack: Attack) -> str:
    """Try it in a child of its own, in a folder that it may write to. Returns the evidence; empty: it failed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        found = ""
        try:
            os.close(reader)
            signal.alarm(_SECONDS)
            os.chdir(os.environ.get("TMPDIR") or ".")
            found = str(attack() or "")[:200]
        except BaseException:  # noqa: BLE001 - a refusal of any kind
            pass
        finally:
            os.write(writer, found.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.005)
    return found
