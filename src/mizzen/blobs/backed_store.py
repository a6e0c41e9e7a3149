"""Blobs on the local disk, backed by a BlobStore. A put reaches both before it is acknowledged.

Blobs missing on the disk are fetched. Garbage collection deletes from the disk, then from the backing store; an
unavailable store delays only the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path

from mizzen.blobs.backed_documents import BackedDocuments
from mizzen.blobs.disk_room import Room
from mizzen.blobs.file_store import BlobDescriptor, FileBlobs
from mizzen.blobs.fs import content
from mizzen.blobs.store import BlobStore, KeepsDocuments, Stored, explain_failures, unavailable
from mizzen.errors import NotFound, Unavailable


class BackedBlobs(FileBlobs):
    def __init__(self, root: Path, behind: BlobStore, room: Room | None = None) -> None:
        super().__init__(root, room)
        self._behind = behind
        self._keeps_documents = behind if isinstance(behind, KeepsDocuments) else None
        if self._keeps_documents is not None:
            self.documents = BackedDocuments(self.root, self._keeps_documents)

    def path(self, digest: str) -> Path:
        try:
            return super().path(digest)
        except NotFound:
            return self._fetch(digest)

    def uri(self, digest: str) -> str:
        behind = self._keeps_documents.uri(digest) if self._keeps_documents is not None else ""
        return behind or super().uri(digest)

    def hold(self, digests: Iterable[str]) -> frozenset[str]:
        missing = set()
        for digest in super().hold(digests):
            try:
                self.path(digest)
            except NotFound:
                missing.add(digest)
        return frozenset(missing)

    def list_behind(self) -> Iterator[Stored]:
        with explain_failures("list its files"):
            for one in self._behind.stored():
                # A plug-in store may omit the time zone; assume UTC, the most likely one.
                yield one if one.touched.tzinfo is not None else replace(one, touched=one.touched.replace(tzinfo=UTC))

    def remove_behind(self, digest: str) -> bool:
        place = self._place(digest)
        if place.is_file():
            return False
        with explain_failures("delete a file"):
            self._behind.delete(digest)
            if place.is_file():  # put and acknowledged meanwhile: its copy may be the one just deleted
                self._behind.put(digest, place)
                return False
        return True

    def put_behind(self, digest: str) -> None:
        with explain_failures("store a file"), suppress(FileNotFoundError):  # collected meanwhile
            self._behind.put(digest, self._place(digest))

    def _move_into_place(self, file: Path, blob: BlobDescriptor) -> Path:
        folder = super()._move_into_place(file, blob)
        with explain_failures("store a file"):
            self._behind.put(blob.digest, self._place(blob.digest))
        return folder

    def _fetch(self, digest: str) -> Path:
        """Fetches a blob from the backing store and verifies its digest."""
        content.hex_of(digest)
        with self.spool() as spool:
            try:
                self._behind.get(digest, spool.path)
            except KeyError:
                raise NotFound(f"no blob {digest}") from None
            except Exception as error:
                raise unavailable("return a file", error) from error
            if content.digest_of(spool.path) != digest:
                raise Unavailable(f"the blob store has other content for {digest}", hint="restore it from a backup")
            folder = super()._move_into_place(spool.path, BlobDescriptor(digest, spool.path.stat().st_size))
        del folder
        return super().path(digest)
