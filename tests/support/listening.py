"""What the processes of a plane listen on, as the kernel knows it: nobody's word is taken for it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import planes

_LISTEN, _UNBOUND_UDP = "0A", "07"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass
class Open:
    tcp: set[tuple[str, int]] = field(default_factory=set)
    udp: set[tuple[str, int]] = field(default_factory=set)
    unix: set[str] = field(default_factory=set)
    """Paths; abstract names begin with @."""


def found(data_dir: Path) -> Open:
    """Of every process of the plane in this data dir."""
    inodes = {inode for process in planes.members(data_dir) for inode in _sockets(process.pid)}
    opened = Open()
    for protocol, state, kept in (("tcp", _LISTEN, opened.tcp), ("udp", _UNBOUND_UDP, opened.udp)):
        for table in (protocol, f"{protocol}6"):
            for words in _rows(f"/proc/net/{table}"):
                if words[3] == state and words[9] in inodes:
                    kept.add(_address(words[1]))
    for words in _rows("/proc/net/unix"):
        accepts = int(words[3], 16) & 0x10000
        if accepts and words[6] in inodes:
            opened.unix.add(words[7] if len(words) > 7 else "")
    return opened


def _sockets(pid: int) -> set[str]:
    seen = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if match := _SOCKET.fullmatch(os.readlink(f"/proc/{pid}/fd/{name}")):
                    seen.add(match[1])
    return seen


def _rows(path: str) -> list[list[str]]:
    return [line.split() for line in Path(path).read_text().splitlines()[1:]]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    words = [struct.pack("=I", int(host[start : start + 8], 16)) for start in range(0, len(host), 8)]
    packed = b"".join(words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return str(ipaddress.ip_address(socket.inet_ntop(family, packed))), int(port, 16)
