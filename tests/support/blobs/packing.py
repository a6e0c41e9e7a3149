"""Archives for tests, good and bad ones."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mizzen.blobs.file_store import BlobDescriptor, Entry, FileBlobs
from mizzen.blobs.fs.content import ByteReader
from mizzen.blobs.ingest import archives
from mizzen.blobs.ingest.intake import Intake
from mizzen.blobs.limits import IngestLimits

FILES = {"model.py": b"def predict(x): return x\n", "data/weights.bin": bytes(range(256)) * 9, "data/empty": b""}


def tarred(files: Mapping[str, bytes], mode: str = "w:gz", *members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for member in members:
            archive.addfile(member)
    return buffer.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unpack(blobs: FileBlobs, data: bytes, limits: IngestLimits | None = None) -> tuple[Entry, ...]:
    limits = limits or IngestLimits()
    intake = Intake(blobs.put, limits, len(data))
    archives.unpack(io.BytesIO(data), len(data), intake, limits)
    return intake.entries()


def weigh(source: ByteReader) -> BlobDescriptor:
    """As storing it would, for tests that do it very often."""
    hasher, size = hashlib.sha256(), 0
    while chunk := source.read(1 << 16):
        hasher.update(chunk)
        size += len(chunk)
    return BlobDescriptor(f"sha256:{hasher.hexdigest()}", size)


def unpack_unstored(data: bytes, limits: IngestLimits) -> tuple[Entry, ...]:
    intake = Intake(weigh, limits, len(data))
    archives.unpack(io.BytesIO(data), len(data), intake, limits)
    return intake.entries()


def content(blobs: FileBlobs, entries: tuple[Entry, ...]) -> dict[str, bytes]:
    return {entry.path: blobs.path(entry.digest).read_bytes() for entry in entries}


def outside(root: Path) -> list[Path]:
    """What lies below a folder of a test and not in its blobs."""
    return [path for path in root.rglob("*") if path.is_file() and (root / "blobs") not in path.parents]
