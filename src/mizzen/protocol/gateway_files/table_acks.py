"""Acknowledgments: the Table that each gateway uses, in a file for the plane.

A gateway replaces `run/tables/<gateway>.json` whenever it has activated a Table. So the plane knows when no gateway
sends requests any more to a process that the newest Table does not list. Table serials are the store's revisions: they
stay comparable across restarts of both sides.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mizzen.protocol.gateway_files import status_files
from mizzen.protocol.gateway_files.status_files import StatusFiles

FOLDER = "tables"
"""In the run folder."""


class TableAck(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    serial: int
    """Of the Table."""


FILES = StatusFiles(msgspec.json.Decoder(TableAck).decode)
write, sweep = FILES.write, FILES.sweep


def list_alive(folder: Path) -> list[TableAck]:
    """Return the acknowledgments of live gateways. A gateway without a file has no Table yet and will start with the
    newest. If another process has reused a pid, the wait for it is still bounded."""
    return [ack for ack in FILES.read(folder) if status_files.is_alive(ack)]
