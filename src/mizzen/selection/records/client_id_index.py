"""Maps ids that clients chose to record ids. One mapped file of fixed size per gateway.

A table of buckets with a few rows each, addressed by a hash of the client's id. A new row replaces the row of the same
id, or the oldest row of the bucket. A half-written row, or a row whose record is gone, leads to a record that is not
found. So no lock is needed.
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
"""Hash of the client's id, record id, time."""
_WAYS = 8
_BUCKET = _ROW.size * _WAYS
_TIMES = struct.Struct("<" + "32xd" * _WAYS)
_MIN_BYTES, _MAX_BYTES = 4096, 4 << 20


def size_for(max_bytes: int) -> int:
    """Return the size of the index for this many bytes of records; it counts toward them."""
    size = min(max(max_bytes // 16, _MIN_BYTES), _MAX_BYTES)
    return size // _BUCKET * _BUCKET


class ClientIdIndex:
    __slots__ = ("_buckets", "_inode", "_map", "_path")

    def __init__(self, home: Path, size: int) -> None:
        """Opens the existing file if it has this size; else replaces it. Raises OSError."""
        self._path = home / NAME
        self._buckets = size // _BUCKET - 1
        if not _has_size(self._path, size):
            _create(self._path, size)
        with self._path.open("r+b", buffering=0) as file:
            self._map = mmap.mmap(file.fileno(), size)
            self._inode = os.fstat(file.fileno()).st_ino

    @property
    def exists(self) -> bool:
        """False: the file was removed, so writes here will never be read."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def put(self, chosen: bytes, id_: bytes, now: float) -> None:
        key = _hash(chosen)
        table = self._map
        start = _bucket_offset(key, self._buckets)
        at = table[start : start + _BUCKET].find(key)
        if at < 0 or at % _ROW.size:
            times = _TIMES.unpack_from(table, start)
            at = times.index(min(times)) * _ROW.size
        place = start + at
        table[place : place + _ROW.size] = _ROW.pack(key, unhexlify(id_), now)

    def close(self) -> None:
        self._map.close()


def remove_unless_size(home: Path, size: int) -> None:
    """Remove an index of another size: it is useless and counts toward the limit. Raises OSError."""
    path = home / NAME
    if not _has_size(path, size):
        path.unlink(missing_ok=True)


def look_up(path: Path, chosen: bytes) -> Iterator[tuple[float, bytes]]:
    """Yield time and record id for a client's id. Raises OSError, or ValueError if this is not an index."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < 2 * _BUCKET or size % _BUCKET or os.pread(file.fileno(), len(_MAGIC), 0) != _MAGIC:
            raise ValueError("this file is not a record index")
        key = _hash(chosen)
        rows = os.pread(file.fileno(), _BUCKET, _bucket_offset(key, size // _BUCKET - 1))
    for its_key, raw, since in _ROW.iter_unpack(rows):
        if its_key == key:
            yield since, raw.hex().encode()


def _hash(chosen: bytes) -> bytes:
    return blake2b(chosen, digest_size=16).digest()


def _bucket_offset(key: bytes, buckets: int) -> int:
    """Return the offset of a key's bucket. The first bucket is the header."""
    return (int.from_bytes(key[:8], "little") % buckets + 1) * _BUCKET


def _has_size(path: Path, size: int) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            return os.fstat(file.fileno()).st_size == size and file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _create(path: Path, size: int) -> None:
    """Create the file under a temporary name, then rename it."""
    fresh = path.with_name(f"{NAME}.{os.getpid()}.new")
    try:
        with open(fresh, "w+b", buffering=0, opener=segments.open_private) as file:
            segments.allocate(file.fileno(), size)
            os.pwrite(file.fileno(), _MAGIC, 0)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
