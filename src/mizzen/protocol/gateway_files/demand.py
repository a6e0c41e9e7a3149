"""Demand for autoscaled servers, which each gateway reports to the plane in a file.

A gateway replaces `run/demand/<gateway>.json` a few times a second while it changes, and at once when a request arrives
for a server without replicas. The file is valid until it is replaced: a plane that was down meanwhile reads it when it
is back.
"""

from __future__ import annotations

import msgspec

from mizzen.protocol.gateway_files.status_files import StatusFiles

FOLDER = "demand"
"""In the run folder."""


class ServerDemand(msgspec.Struct, frozen=True, omit_defaults=True):
    """Demand for one server."""

    in_flight: float = 0.0
    """Requests that wait or are in progress, averaged over the last second."""
    awaited: bool = False
    """It has no replica, and a request waits for one, or was rejected with a retry a moment ago."""
    used: bool = False
    """A request arrived within the last second; it may have been too short to show in `in_flight`."""


class Demand(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    servers: dict[str, ServerDemand]
    """By id, `<namespace>/<InferenceModel name>`. Servers without demand are omitted."""


FILES = StatusFiles(msgspec.json.Decoder(Demand).decode)
write, read, sweep = FILES.write, FILES.read, FILES.sweep
