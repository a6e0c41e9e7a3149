"""Reading a write-ahead log without SQLite: how many commits the store had when the log began.

SQLite replays a log over any database file, also over an older copy, which then is a mix of both. But each transaction
of a store writes its state row, and a log begins only after the database file has everything of the previous one. So
the first commit in the log follows directly on those in the file, or the two do not belong together.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

_HEADER: Final = 32
_FRAME: Final = 24
_SMALL: Final = {8: 0, 9: 1}
"""Serial types of integers that are stored in the type itself."""
_WIDTHS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def path_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def has_frames(database: Path) -> bool:
    try:
        return path_of(database).stat().st_size > _HEADER
    except FileNotFoundError:
        return False


def first_commits(database: Path, page: int, column: int) -> int | None:
    """Returns an integer column of the only row of a table, as the first transaction in the log that writes it left it.

    `page`: the root page of the table. None: no transaction in the log writes it. Raises ValueError for a damaged log.
    """
    with path_of(database).open("rb") as file:
        header = file.read(_HEADER)
        size = int.from_bytes(header[8:12], "big")
        if len(header) < _HEADER or header[:3] != b"\x37\x7f\x06" or size < 512:
            raise ValueError("its header is not valid")
        return _find(file, header[16:24], size or 1 << 16, page, column)


def _find(file: BinaryIO, salt: bytes, size: int, page: int, column: int) -> int | None:
    found: bytes | None = None
    while len(frame := file.read(_FRAME + size)) == _FRAME + size and frame[8:16] == salt:
        if int.from_bytes(frame[:4], "big") == page:
            found = frame[_FRAME:]
        ends = int.from_bytes(frame[4:8], "big") > 0
        if ends and found is not None:
            return _read_column(found, column)
    return None


def _read_column(leaf: bytes, column: int) -> int:
    """Raises ValueError unless the page is a leaf of a table with one row."""
    if leaf[0] != 0x0D or int.from_bytes(leaf[3:5], "big") != 1:
        raise ValueError("the page of its state is not valid")
    at = int.from_bytes(leaf[8:10], "big")
    _, at = _varint(leaf, at)  # the size of the record
    _, at = _varint(leaf, at)  # the rowid
    start = at
    length, at = _varint(leaf, at)
    body = start + length
    for number in range(column + 1):
        kind, at = _varint(leaf, at)
        width = _WIDTHS.get(kind, 0)
        if number == column:
            if kind in _SMALL:
                return _SMALL[kind]
            if not width:
                raise ValueError("its state is not a number")
            return int.from_bytes(leaf[body : body + width], "big", signed=True)
        body += width if kind < 12 else (kind - 12) // 2
    raise ValueError("the row of its state is too short")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(9):
        if at + step >= len(data):
            break
        byte = data[at + step]
        if step == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    raise ValueError("a number is not valid")
