"""Finds a record by its id, whichever gateway wrote it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mizzen.selection.records import client_id_index, record, segments
from mizzen.selection.records.record import StoredRecord


def find(folder: Path, uid: str, id_: bytes, *, since: float = 0.0) -> StoredRecord | None:
    """Return the record; None if it is unknown or was answered before `since`. Missing, broken and foreign files are
    ignored."""
    home = folder / uid
    found = _find_by_own_id(home, id_, since)
    if found is not None:
        return found
    named = [each for path in home.glob(f"*/{client_id_index.NAME}") for each in _list_own_ids(path, id_)]
    for _, own in sorted(named, reverse=True):
        found = _find_by_own_id(home, own, since)
        if found is not None:
            return found
    return None


def _find_by_own_id(home: Path, id_: bytes, since: float) -> StoredRecord | None:
    address = segments.address_of(id_)
    if address is None:
        return None
    try:
        body = segments.read(home / str(address.gateway), address)
        if body is None or not body.at >= since:
            return None
        return StoredRecord(
            segments.id_of(address), body.at, body.user.decode(), body.outputs, record.decode(body.what)
        )
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def _list_own_ids(path: Path, chosen: bytes) -> list[tuple[float, bytes]]:
    try:
        return list(client_id_index.look_up(path, chosen))
    except (OSError, ValueError):
        return []
