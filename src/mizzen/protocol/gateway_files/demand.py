"""What is asked of servers whose replicas follow it, as each gateway leaves it in a file for the plane.

A gateway replaces `run/demand/<gateway>.json` a few times a second while it changes, and at once when somebody asks a
server that has no replicas. The file says what is so until it is replaced: a plane that was away when somebody asked
finds it when it is back.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from mizzen.protocol.gateway_files import status_files

FOLDER = "demand"
"""In the run folder."""


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one server."""

    in_flight: float = 0.0
    """Requests that wait or are being answered: on average over the last second."""
    awaited: bool = False
    """It has no replica, and somebody waits for one, or was sent away a moment ago to come again."""
    used: bool = False
    """Somebody asked it within the last second, however short that was: in flight it may never have been seen."""


class Demand(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    servers: dict[str, Asked]
    """By id, `<namespace>/<InferenceModel name>`. Of whom nothing is asked is left out."""


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Demand).decode


def write(folder: Path, demand: Demand) -> None:
    """OSError when it cannot be written."""
    status_files.write(folder, demand.gateway, _encode(demand))


def read(folder: Path) -> list[Demand]:
    """Of all that have left any, also of gateways that are gone."""
    return status_files.read(folder, _decode)


def sweep(folder: Path, gateways: Collection[str]) -> None:
    status_files.sweep(folder, gateways, _decode)
