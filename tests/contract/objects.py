"""Stores of blobs: each in a place of its own, or away."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

from mizzen.blobs.object_store import ObjectBlobs
from mizzen.blobs.store import BlobStore, Stored
from tests.support.seaweed import BUCKET, Seaweed


def new_s3(server: Seaweed) -> ObjectBlobs:
    return ObjectBlobs(f"s3://{BUCKET}/{uuid.uuid4().hex}/blobs", server.credentials)


def new_folder(folder: Path) -> ObjectBlobs:
    return ObjectBlobs(f"file://{folder}")


def has(store: BlobStore, digest: str) -> bool:
    return digest in {blob.digest for blob in store.stored()}


class Away:
    """A store that does not answer."""

    def put(self, digest: str, file: Path) -> None:
        raise OSError("no route")

    def get(self, digest: str, target: Path) -> None:
        raise OSError("no route")

    def delete(self, digest: str) -> None:
        raise OSError("no route")

    def stored(self) -> Iterator[Stored]:
        raise OSError("no route")
