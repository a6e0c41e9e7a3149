"""A record by its id, whichever gateway has written it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mizzen.selection.records import client_id_index, record, segments
from mizzen.selection.records.record import Found


def find(folder: Path, uid: str, id_: bytes, *, since: float = 0.0) -> Found | None:
    """None when it is unknown, or was answered before `since`. Files that are missing, broken or not ours are as good
    as none."""
    home = folder / uid
    found = _sealed(home, id_, since)
    if found is not None:
        return found
    named = [each for path in home.glob(f"*/{client_id_index.NAME}") for each in _named(path, id_)]
    for _, own in sorted(named, reverse=True):
        found = _sealed(home, own, since)
        if found is not None:
            return found
    return None


def _sealed(home: Path, id_: bytes, since: float) -> Found | None:
    address = segments.address_of(id_)
    if address is None:
        return None
    try:
        body = segments.read(home / str(address.gateway), address)
        if body is None or not body.at >= since:
            return None
        return Found(segments.id_of(address), body.at, body.user.decode(), body.outputs, record.decode(body.what))
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def _named(path: Path, chosen: bytes) -> list[tuple[float, bytes]]:
    try:
        return list(client_id_index.look(path, chosen))
    except (OSError, ValueError):
        return []
