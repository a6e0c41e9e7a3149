"""The file format of a segment: a file of fixed size, filled with slots from the front and bodies from the back.

    header | slot | slot | ... -> free <- ... | body | body

An id names a slot before the size of the record is known. The slot is written after its body, so a process that is
killed in between leaves an unknown record. If the segment is full by then, the body goes to a later one. The whole file
is allocated at creation, so that a disk that fills up later kills no process by SIGBUS.

An id is `gateway, serial of the segment, slot, nonce`, in hexadecimal. The random nonce is repeated in the body: a
client cannot guess the id of a record. Bodies contain data from callers, which could imitate a slot and its body, so
checksums start from a seed that only the segment's header holds.
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
"""Maximum bytes of a stored answer; for a larger one, only TOO_LARGE is stored."""
MAX_USER = 1024
"""Bytes; a longer user name is not stored and counts as none."""
MAX_BODY = 1 << 20
TOO_LARGE = 0xFFFF
ID_LENGTH = 32

PREFIX = b"%04x%08x"
"""Common prefix of all ids of one segment."""
PLAIN = PREFIX % (0xFFFF, 0xFFFFFFFF)
"""Prefix of ids without a record."""

_MAGIC = b"MZRECS\x00\x01"
_HEADER = struct.Struct("<8sHIId")
"""Magic, gateway, serial, checksum seed, time until which slots are handed out."""
_HEADER_BYTES = 64
SLOT = struct.Struct("<III")
"""Location of the body, as serial of the segment and offset, and its checksum. Serials start at 1; 0 is an empty
slot."""
SLOT_BYTES = SLOT.size
HEAD = struct.Struct("<8sdIHH")
"""Head of a body: nonce, time, and the sizes of the parts that follow."""
TAIL = struct.Struct(">H8s")
"""Tail of an id: slot and nonce."""
_ID = struct.Struct(">HIH8s")

FIRST_SLOT = -(-_HEADER_BYTES // SLOT_BYTES)
MAX_SLOTS = 1 << 16


class RecordAddress(NamedTuple):
    gateway: int
    serial: int
    slot: int
    nonce: bytes


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
    """None: too large to be stored."""


class RecordSegment:
    """A segment open for writing. The writer must keep slots and bodies from overlapping."""

    __slots__ = ("map", "path", "prefix", "seed", "serial", "size", "top", "until")

    def __init__(self, path: Path, header: Header, opened: mmap.mmap) -> None:
        self.path = path
        self.serial = header.serial
        self.seed = header.seed
        self.size = self.top = header.size
        """`top`: offset of the lowest body."""
        self.until = header.until
        self.prefix = PREFIX % (header.gateway, header.serial)
        self.map = opened

    def close(self) -> None:
        self.map.close()


def create(home: Path, header: Header) -> RecordSegment:
    """Create a new segment file. Raises FileExistsError if the serial is taken, and OSError, without leaving a file, if
    there is no space."""
    path = home / name_of(header.serial)
    with open(path, "x+b", buffering=0, opener=open_private) as file:
        try:
            allocate(file.fileno(), header.size)
            opened = mmap.mmap(file.fileno(), header.size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    opened[: _HEADER.size] = _HEADER.pack(_MAGIC, header.gateway, header.serial, header.seed, header.until)
    return RecordSegment(path, header, opened)


def allocate(descriptor: int, size: int) -> None:
    """Allocate disk space for a file. Raises OSError if there is no space."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        if os.pwrite(descriptor, bytes(size), 0) != size:  # the file system does not support fallocate
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


def open_private(path: str, flags: int) -> int:
    """An opener for files that only the owner may read: answers and user names are private."""
    return os.open(path, flags, 0o600)


def name_of(serial: int) -> str:
    return f"{serial:08x}{SUFFIX}"


def serial_of(name: str) -> int | None:
    """Return the serial of a segment's file name; None if it is not one."""
    stem, suffix = os.path.splitext(name)
    if suffix != SUFFIX or len(stem) != 8:
        return None
    try:
        return int(stem, 16)
    except ValueError:
        return None


def address_of(id_: bytes) -> RecordAddress | None:
    """Parse an id; None if it is not a record id."""
    if len(id_) != ID_LENGTH:
        return None
    try:
        return RecordAddress(*_ID.unpack(unhexlify(id_)))
    except ValueError:
        return None


def id_of(address: RecordAddress) -> bytes:
    return _ID.pack(*address).hex().encode()


def read_header(path: Path) -> Header:
    """Raises OSError if there is no such file, ValueError if it is not a segment."""
    with path.open("rb", buffering=0) as file:
        return _read_header(file.fileno())


def read(home: Path, address: RecordAddress) -> Body | None:
    """Return the body; None if there is no such record. Raises OSError or ValueError for missing or foreign files."""
    with (home / name_of(address.serial)).open("rb", buffering=0) as file:
        head = _read_header(file.fileno())
        if address.slot < FIRST_SLOT:
            return None
        serial, offset, total = SLOT.unpack(_read_exactly(file.fileno(), SLOT_BYTES, address.slot * SLOT_BYTES))
        if serial == address.serial:
            return _read_body(file.fileno(), head, offset, total, address.nonce)
    if not serial:
        return None
    with (home / name_of(serial)).open("rb", buffering=0) as file:
        return _read_body(file.fileno(), _read_header(file.fileno()), offset, total, address.nonce)


def _read_header(descriptor: int) -> Header:
    magic, gateway, serial, seed, until = _HEADER.unpack(_read_exactly(descriptor, _HEADER.size, 0))
    if magic != _MAGIC:
        raise ValueError("this file is not a record segment")
    return Header(gateway, serial, seed, until, os.fstat(descriptor).st_size)


def _read_body(descriptor: int, head: Header, offset: int, total: int, word: bytes) -> Body | None:
    if offset < _HEADER_BYTES:
        return None
    its_word, at, what, user, outputs = HEAD.unpack(_read_exactly(descriptor, HEAD.size, offset))
    large = outputs == TOO_LARGE
    length = HEAD.size + what + user + (0 if large else outputs)
    if its_word != word or length > MAX_BODY:
        return None
    data = _read_exactly(descriptor, length, offset)
    if crc32(data, head.seed) != total:
        return None
    middle, end = HEAD.size + what, HEAD.size + what + user
    return Body(at, data[HEAD.size : middle], data[middle:end], None if large else data[end:])


def _read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    if len(data) != size:
        raise ValueError("the file is truncated")
    return data
