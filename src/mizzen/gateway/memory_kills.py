"""Tells whether the kernel ended a replica because the memory of its cgroup ran out.

The gateway sees only that a connection ends. The kernel counts such kills per cgroup, before it closes the connections
of the process. A replica in the cgroup of the gateway has none of its own, so its count would say nothing.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
_ROOT = Path("/sys/fs/cgroup")
_FIELD = "oom_kill"


class MemoryKills:
    """The count of one cgroup, compared with what it was when a replica connected."""

    __slots__ = ("_before", "_file")

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._before = _read_count(file)

    def has_grown(self) -> bool:
        count = _read_count(self._file)
        return self._before is not None and count is not None and count > self._before


def kills_of_peer(peer: socket.socket) -> MemoryKills:
    """Return the count of the process at the other end of a Unix socket."""
    try:
        pid, _, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    except OSError:
        return MemoryKills(None)
    return MemoryKills(_count_file(str(pid)))


def _count_file(pid: str) -> Path | None:
    try:
        theirs, ours = (_memory_cgroup(Path(f"/proc/{who}/cgroup").read_text()) for who in (pid, "self"))
    except OSError:
        return None
    return theirs if theirs != ours else None


def _memory_cgroup(text: str) -> Path | None:
    """Return the file with the count, by the lines of /proc/<pid>/cgroup."""
    unified = None
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _ROOT / "memory" / path.lstrip("/") / "memory.oom_control"
        if not controllers:
            unified = _ROOT / path.lstrip("/") / "memory.events"
    return unified


def _read_count(file: Path | None) -> int | None:
    """None: there is no such file, or it has no count."""
    try:
        lines = file.read_text().splitlines() if file is not None else []
    except OSError:
        return None
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    return int(fields[_FIELD]) if fields.get(_FIELD, "").isdigit() else None
