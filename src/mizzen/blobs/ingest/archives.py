"""Archives, detected by content: tar, plain or compressed by gzip, bzip2 or xz, and zip. Unpacked into an Intake.

Archives are untrusted. The standard library parses them; this module keeps parsing bounded (headers, directories,
recursion), checks that the content matches its declaration, and never mistakes damage for the end. A damaged archive
raises BadRequest, bad names raise Invalid, and an excessive size raises TooLarge.
"""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO, BinaryIO, Literal, cast

from mizzen.blobs.ingest.decompression import Expanded, compression_of
from mizzen.blobs.ingest.intake import Intake
from mizzen.blobs.limits import IngestLimits, Meter
from mizzen.errors import BadRequest

Format = Literal["tar", "zip"]

PLAIN = frozenset({
    ".joblib", ".pkl", ".pickle", ".pt", ".pt2", ".pth", ".ckpt", ".keras", ".h5", ".npz", ".skops", ".onnx", ".mar",
    ".nemo", ".whl", ".jar", ".safetensors",
})  # fmt: skip
"""Suffixes of files that may be archives inside but are stored as they are."""

MOST_HEADER = 256 << 10
"""Maximum bytes of tar headers per member: names are short, extended attributes not always."""
MOST_DIRECTORY = 8 << 20
"""Maximum bytes of a zip's directory; enough for 10,000 long names."""
_LINK = 4096
_ZERO = bytes(tarfile.BLOCKSIZE)
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_ENCRYPTED = 0x1 | 0x40 | 0x2000

_TAR_DAMAGE = (tarfile.TarError, ValueError, OverflowError, RecursionError, struct.error)
_ZIP_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RecursionError,
    NotImplementedError, RuntimeError, KeyError, IndexError,
)  # fmt: skip


def format_of(file: BinaryIO) -> Format | None:
    """Returns the archive format by content, not by name; None if it is not an archive."""
    file.seek(0)
    head = file.read(8)
    if head.startswith(_ZIP_MAGIC):
        return "zip"
    try:
        tarfile.TarInfo.frombuf(Expanded(file).read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
    except (BadRequest, *_TAR_DAMAGE):
        return None
    return "tar"


def should_unpack(file: BinaryIO, name: str) -> bool:
    """Whether to unpack this file. Not if its name shows another format that is only packed as an archive."""
    return PurePosixPath(name).suffix.lower() not in PLAIN and format_of(file) is not None


def unpack(file: BinaryIO, size: int, intake: Intake, limits: IngestLimits) -> None:
    """Unpacks an archive of `size` bytes into the intake. Raises BadRequest, TooLarge or Invalid."""
    match format_of(file):
        case "tar":
            _unpack_tar(Expanded(file, Meter(limits, size)), intake)
        case "zip":
            _unpack_zip(file, intake)
        case None:
            file.seek(0)
            inside = compression_of(file.read(8))
            what = f"a {inside} file without a tar inside, or damaged" if inside else "neither a tar nor a zip"
            raise BadRequest(f"this is {what}", hint="pack the files with 'tar czf code.tgz -C <folder> .'")


def zip_names(file: BinaryIO) -> list[str]:
    """Returns the names in a zip. Raises BadRequest if it is damaged or its directory is too large."""
    try:
        with zipfile.ZipFile(cast("IO[bytes]", _Bounded(file))) as archive:
            return archive.namelist()
    except _ZIP_DAMAGE as error:
        raise BadRequest(f"the zip is damaged: {_one_line(error)}") from error


def _unpack_tar(stream: Expanded, intake: Intake) -> None:
    name = ""
    try:
        stream.allowance = MOST_HEADER
        archive = tarfile.TarFile(
            fileobj=cast("IO[bytes]", stream), mode="r", encoding="utf-8", errors="surrogateescape"
        )
        while (member := archive.next()) is not None:
            name = stream.name = member.name
            stream.allowance = None
            _take_member(archive, member, intake)
            # Otherwise tarfile would keep all members and their headers in memory.
            archive.members = []  # type: ignore[attr-defined]
            archive.pax_headers = {}
            stream.allowance = MOST_HEADER
    except _TAR_DAMAGE as error:
        raise BadRequest(f"the tar is damaged{_after(name)}: {_one_line(error)}") from error
    # tarfile treats an unreadable header as the end.
    if stream.last != _ZERO:
        raise BadRequest(f"the tar is damaged or cut off{_after(name)}: its end is missing")
    stream.allowance = None
    while stream.read(1 << 16):  # verifies compressed content up to its last byte
        pass


def _take_member(archive: tarfile.TarFile, member: tarfile.TarInfo, intake: Intake) -> None:
    if member.size < 0:
        raise BadRequest(f"the tar is damaged: '{member.name[:200]!a}' has a negative size")
    if member.issparse():
        intake.reject(member.name, "a sparse file")
    elif member.isreg():
        content = archive.extractfile(member)
        assert content is not None
        intake.add_file(member.name, content)
    elif member.isdir():
        intake.add_folder(member.name)
    elif member.issym():
        intake.add_symbolic_link(member.name, member.linkname)
    elif member.islnk():
        intake.add_hard_link(member.name, member.linkname)
    else:
        kinds = {tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a named pipe"}
        intake.reject(member.name, kinds.get(member.type, f"a member of unknown type {member.type!r}"))


def _unpack_zip(file: BinaryIO, intake: Intake) -> None:
    name = ""
    try:
        with zipfile.ZipFile(cast("IO[bytes]", _Bounded(file))) as archive:
            members = archive.infolist()
            intake.announce(member.orig_filename for member in members)
            _refuse_overlaps(members, archive.start_dir)
            for member in members:
                name = member.orig_filename
                _take_zipped(archive, member, intake)
    except _ZIP_DAMAGE as error:
        raise BadRequest(f"the zip is damaged{_after(name)}: {_one_line(error)}") from error


def _take_zipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo, intake: Intake) -> None:
    name, mode = member.orig_filename, member.external_attr >> 16
    kind = stat.S_IFMT(mode) if member.create_system == 3 else 0  # 3: packed on Unix
    if member.flag_bits & _ENCRYPTED:
        intake.reject(name, "encrypted")
    elif member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        intake.reject(name, f"compressed with method {member.compress_type}; expected deflate")
    elif name.endswith("/") or kind == stat.S_IFDIR:
        intake.add_folder(name)
    elif kind == stat.S_IFLNK:
        with archive.open(member) as content:
            intake.add_symbolic_link(name, content.read(_LINK).decode(errors="surrogateescape"))
    elif kind not in (0, stat.S_IFREG):
        intake.reject(name, "a device or a pipe")
    else:
        with archive.open(member) as content:
            blob = intake.add_file(name, content)
        if blob is not None and blob.size != member.file_size:
            raise zipfile.BadZipFile(f"a file declares {member.file_size:,} bytes and has {blob.size:,}")


def _refuse_overlaps(members: list[zipfile.ZipInfo], end: int) -> None:
    """Rejects files that share packed bytes, which turn a small zip into a bomb."""
    free = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < free:
            raise zipfile.BadZipFile(f"'{member.filename[:200]!a}' overlaps another file")
        free = member.header_offset + 30 + len(member.orig_filename) + member.compress_size
    if free > end:
        raise zipfile.BadZipFile("files overlap its directory")


class _Bounded:
    """A file with bounded reads: zipfile reads a whole directory, however long it claims to be."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(MOST_DIRECTORY + 1 if size < 0 else min(size, MOST_DIRECTORY + 1))
        if len(data) > MOST_DIRECTORY:
            raise BadRequest("the zip's directory is too large")
        return data

    def seek(self, position: int, whence: int = 0, /) -> int:
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _after(name: str) -> str:
    return f" at or after {name[:200]!a}" if name else ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).encode(errors="replace").decode()[:300] or type(error).__name__
