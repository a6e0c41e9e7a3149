"""One segment: a file of fixed size that slots fill from the front and bodies from the back.

    header | slot | slot | ... -> free <- ... | body | body

An id names a slot, before it is known how large the record will be; the slot is filled when its body is there, so
whoever is killed between the two leaves a record that reads as unknown. A body whose segment was full meanwhile stands
in a later one. All of the file is allocated when it is made: a disk that fills up later ends no process by SIGBUS.

An id is `gateway, serial of the segment, slot, word`, in hexadecimal. The word is random and stands in the body, too:
who was not given an id cannot name its record. What callers send is part of bodies, and might be made to look like a
slot and its body: so check sums begin with a number that only the segment's header tells.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from binascii import unhexlify
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

SUFFIX = ".seg"
MAX_GATEWAY = 0xFFFE
MAX_OUTPUTS = 4096
"""Bytes of an answer that are kept; of a larger one, that it was."""
MAX_USER = 1024
"""Bytes; a longer one is not kept, and counts as none."""
MAX_BODY = 1 << 20
TOO_LARGE = 0xFFFF
ID_LENGTH = 32

PREFIX = b"%04x%08x"
"""Of all ids of one segment."""
PLAIN = PREFIX % (0xFFFF, 0xFFFFFFFF)
"""Of ids that name no record."""

_MAGIC = b"MZRECS\x00\x01"
_HEADER = struct.Struct("<8sHIId")
"""Magic, gateway, serial, where check sums begin, until when slots are given away."""
_HEADER_BYTES = 64
SLOT = struct.Struct("<III")
"""Where the body is, as serial of the segment and offset, and its check sum. Serials begin at 1: an empty slot names
none."""
SLOT_BYTES = SLOT.size
HEAD = struct.Struct("<8sdIHH")
"""Of a body: word, time, and the sizes of what follows."""
TAIL = struct.Struct(">H8s")
"""Of an id: slot and word."""
_ID = struct.Struct(">HIH8s")

FIRST_SLOT = -(-_HEADER_BYTES // SLOT_BYTES)
MAX_SLOTS = 1 << 16


class Address(NamedTuple):
    gateway: int
    serial: int
    slot: int
    word: bytes


class Header(NamedTuple):
    gateway: int
    serial: int
    seed: int
    until: float
    size: int
    """Of the file."""


class Body(NamedTuple):
    at: float
    what: bytes
    user: bytes
    outputs: bytes | None
    """None: too large."""


class Segment:
    """One that is written, by whom it is left to see that slots and bodies do not meet."""

    __slots__ = ("map", "path", "prefix", "seed", "serial", "size", "top", "until")

    def __init__(self, path: Path, header: Header, opened: mmap.mmap) -> None:
        self.path = path
        self.serial = header.serial
        self.seed = header.seed
        self.size = self.top = header.size
        """`top`: of the lowest body."""
        self.until = header.until
        self.prefix = PREFIX % (header.gateway, header.serial)
        self.map = opened

    def close(self) -> None:
        self.map.close()


def create(home: Path, header: Header) -> Segment:
    """In an empty file of its own. FileExistsError when somebody has this serial; OSError, and no file, when there is
    no room."""
    path = home / name_of(header.serial)
    with open(path, "x+b", buffering=0, opener=private) as file:
        try:
            allocate(file.fileno(), header.size)
            opened = mmap.mmap(file.fileno(), header.size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    opened[: _HEADER.size] = _HEADER.pack(_MAGIC, header.gateway, header.serial, header.seed, header.until)
    return Segment(path, header, opened)


def allocate(descriptor: int, size: int) -> None:
    """So many bytes, for good. OSError when there is no room."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        if os.pwrite(descriptor, bytes(size), 0) != size:  # a file system that knows no better way
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


def private(path: str, flags: int) -> int:
    """An opener: what was answered, and for whom, is nobody else's business."""
    return os.open(path, flags, 0o600)


def name_of(serial: int) -> str:
    return f"{serial:08x}{SUFFIX}"


def serial_of(name: str) -> int | None:
    """None when no segment is called so."""
    stem, suffix = os.path.splitext(name)
    if suffix != SUFFIX or len(stem) != 8:
        return None
    try:
        return int(stem, 16)
    except ValueError:
        return None


def address_of(id_: bytes) -> Address | None:
    """None when it is no id of ours."""
    if len(id_) != ID_LENGTH:
        return None
    try:
        return Address(*_ID.unpack(unhexlify(id_)))
    except ValueError:
        return None


def id_of(address: Address) -> bytes:
    return _ID.pack(*address).hex().encode()


def header(path: Path) -> Header:
    """OSError when there is no such file, ValueError when it is no segment."""
    with path.open("rb", buffering=0) as file:
        return _header(file.fileno())


def read(home: Path, address: Address) -> Body | None:
    """None when there is no such record. OSError or ValueError when files are missing, or are not ours."""
    with (home / name_of(address.serial)).open("rb", buffering=0) as file:
        head = _header(file.fileno())
        if address.slot < FIRST_SLOT:
            return None
        serial, offset, total = SLOT.unpack(_exactly(file.fileno(), SLOT_BYTES, address.slot * SLOT_BYTES))
        if serial == address.serial:
            return _body(file.fileno(), head, offset, total, address.word)
    if not serial:
        return None
    with (home / name_of(serial)).open("rb", buffering=0) as file:
        return _body(file.fileno(), _header(file.fileno()), offset, total, address.word)


def _header(descriptor: int) -> Header:
    magic, gateway, serial, seed, until = _HEADER.unpack(_exactly(descriptor, _HEADER.size, 0))
    if magic != _MAGIC:
        raise ValueError("no segment of records")
    return Header(gateway, serial, seed, until, os.fstat(descriptor).st_size)


def _body(descriptor: int, head: Header, offset: int, total: int, word: bytes) -> Body | None:
    if offset < _HEADER_BYTES:
        return None
    its_word, at, what, user, outputs = HEAD.unpack(_exactly(descriptor, HEAD.size, offset))
    large = outputs == TOO_LARGE
    length = HEAD.size + what + user + (0 if large else outputs)
    if its_word != word or length > MAX_BODY:
        return None
    data = _exactly(descriptor, length, offset)
    if crc32(data, head.seed) != total:
        return None
    middle, end = HEAD.size + what, HEAD.size + what + user
    return Body(at, data[HEAD.size : middle], data[middle:end], None if large else data[end:])


def _exactly(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    if len(data) != size:
        raise ValueError("the file ends too early")
    return data
