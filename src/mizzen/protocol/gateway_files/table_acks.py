"""Which Table each gateway goes by, as it leaves it in a file for the plane.

A gateway replaces `run/tables/<gateway>.json` whenever it has put a Table in force. So the plane can tell when nobody
sends to a process any more that the newest Table does not name. Serials of Tables are the store's revisions: they
compare across restarts of both sides.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from mizzen.protocol.gateway_files import status_files

FOLDER = "tables"
"""In the run folder."""


class Taken(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    serial: int
    """Of the Table."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Taken).decode


def write(folder: Path, taken: Taken) -> None:
    """OSError when it cannot be written."""
    status_files.write(folder, taken.gateway, _encode(taken))


def living(folder: Path) -> list[Taken]:
    """Of the gateways that live. One that has left no file has no Table yet: it begins with the newest. Where a pid is
    somebody else's by now, those who wait for it do not wait for long."""
    return [taken for taken in status_files.read(folder, _decode) if status_files.lives(taken)]


def sweep(folder: Path, gateways: Collection[str]) -> None:
    status_files.sweep(folder, gateways, _decode)
