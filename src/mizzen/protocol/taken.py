"""Which Table each gateway goes by, as it leaves it in a file for the plane.

A gateway replaces `run/tables/<gateway>.json` whenever it has put a Table in force. So the plane can tell when nobody
sends to a process any more that the newest Table does not name. Serials of Tables are the store's revisions: they
compare across restarts of both sides.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import msgspec

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
    """Whoever reads sees the old or the new one. OSError when it cannot be written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = folder / f".{taken.gateway}.fresh"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(_encode(taken))
    fresh.replace(folder / f"{taken.gateway}.json")


def remove(folder: Path, gateway: str) -> None:
    (folder / f"{gateway}.json").unlink(missing_ok=True)


def sweep(folder: Path, gateways: Collection[str]) -> None:
    """Removes what is left of gateways by other names than these: their pids may be somebody else's by now."""
    for file in folder.glob("*.json"):
        if file.stem not in gateways:
            file.unlink(missing_ok=True)


def living(folder: Path) -> list[Taken]:
    """Of the gateways that live. One that has left no file has no Table yet: it begins with the newest."""
    found = []
    for file in sorted(folder.glob("*.json")):
        try:
            taken = _decode(file.read_bytes())
        except (OSError, msgspec.DecodeError):
            continue
        if _lives(taken.pid):
            found.append(taken)
    return found


def _lives(pid: int) -> bool:
    """A number that somebody else has got since is mistaken for it; those who wait for it do not wait for long."""
    try:
        os.kill(pid, 0)
    except OSError:  # gone, or another user's
        return False
    return True
