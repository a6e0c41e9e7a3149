"""Ids that clients have chosen -> ids of ours. One mapped file per gateway, of fixed size.

It is a table of buckets with a few rows each, looked up by a hash of the chosen id. Of one id the newest row stays; of
several in one bucket the oldest has to go. A row that is half written, or whose record is gone, names a record that is
not found: so nobody has to lock anything.
"""

from __future__ import annotations

import mmap
import os
import struct
from binascii import unhexlify
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from mizzen.selection.records import segments

NAME = "index"

_MAGIC = b"MZIDXS\x00\x01"
_ROW = struct.Struct("<16s16sd")
"""Hash of the chosen id, our own, when."""
_WAYS = 8
_BUCKET = _ROW.size * _WAYS
_TIMES = struct.Struct("<" + "32xd" * _WAYS)
_LEAST, _MOST = 4096, 4 << 20


def size_for(max_bytes: int) -> int:
    """Of the index beside so many bytes of records, which it is part of."""
    wanted = min(max(max_bytes // 16, _LEAST), _MOST)
    return wanted // _BUCKET * _BUCKET


class Index:
    __slots__ = ("_buckets", "_inode", "_map", "_path")

    def __init__(self, home: Path, size: int) -> None:
        """The one that is there, if it has this size; else a new one in its place. OSError."""
        self._path = home / NAME
        self._buckets = size // _BUCKET - 1
        if not _fits(self._path, size):
            _create(self._path, size)
        with self._path.open("r+b", buffering=0) as file:
            self._map = mmap.mmap(file.fileno(), size)
            self._inode = os.fstat(file.fileno()).st_ino

    @property
    def there(self) -> bool:
        """False: somebody has removed the file, and nobody will read what is written here."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def put(self, chosen: bytes, id_: bytes, now: float) -> None:
        key = _hashed(chosen)
        table = self._map
        start = _place(key, self._buckets)
        at = table[start : start + _BUCKET].find(key)
        if at < 0 or at % _ROW.size:
            times = _TIMES.unpack_from(table, start)
            at = times.index(min(times)) * _ROW.size
        place = start + at
        table[place : place + _ROW.size] = _ROW.pack(key, unhexlify(id_), now)

    def close(self) -> None:
        self._map.close()


def remove_unless(home: Path, size: int) -> None:
    """One of another size is of no more use, and counts for the bytes that may be used. OSError."""
    path = home / NAME
    if not _fits(path, size):
        path.unlink(missing_ok=True)


def look(path: Path, chosen: bytes) -> Iterator[tuple[float, bytes]]:
    """When it was chosen, and our own id of it. OSError or ValueError when this is no index."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < 2 * _BUCKET or size % _BUCKET or os.pread(file.fileno(), len(_MAGIC), 0) != _MAGIC:
            raise ValueError("no index of records")
        key = _hashed(chosen)
        rows = os.pread(file.fileno(), _BUCKET, _place(key, size // _BUCKET - 1))
    for its_key, raw, since in _ROW.iter_unpack(rows):
        if its_key == key:
            yield since, raw.hex().encode()


def _hashed(chosen: bytes) -> bytes:
    return blake2b(chosen, digest_size=16).digest()


def _place(key: bytes, buckets: int) -> int:
    """The first bucket is the header."""
    return (int.from_bytes(key[:8], "little") % buckets + 1) * _BUCKET


def _fits(path: Path, size: int) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            return os.fstat(file.fileno()).st_size == size and file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _create(path: Path, size: int) -> None:
    """Beside, and renamed when it is whole."""
    fresh = path.with_name(f"{NAME}.{os.getpid()}.new")
    try:
        with open(fresh, "w+b", buffering=0, opener=segments.private) as file:
            segments.allocate(file.fileno(), size)
            os.pwrite(file.fileno(), _MAGIC, 0)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
