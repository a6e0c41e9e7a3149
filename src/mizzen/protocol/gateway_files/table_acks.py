"""Acknowledgments: the Table that each gateway uses, in a file for the plane.

A gateway replaces `run/tables/<gateway>.json` whenever it has activated a Table. So the plane knows when no gateway
sends requests any more to a process that the newest Table does not list. Table serials are the store's revisions: they
stay comparable across restarts of both sides.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from mizzen.protocol.gateway_files import status_files

FOLDER = "tables"
"""In the run folder."""


class TableAck(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    serial: int
    """Of the Table."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TableAck).decode


def write(folder: Path, ack: TableAck) -> None:
    """Raises OSError if it cannot be written."""
    status_files.write(folder, ack.gateway, _encode(ack))


def list_alive(folder: Path) -> list[TableAck]:
    """Return the acknowledgments of live gateways. A gateway without a file has no Table yet and will start with the
    newest. If another process has reused a pid, the wait for it is still bounded."""
    return [taken for taken in status_files.read(folder, _decode) if status_files.is_alive(taken)]


def sweep(folder: Path, gateways: Collection[str]) -> None:
    status_files.sweep(folder, gateways, _decode)
