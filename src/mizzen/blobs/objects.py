"""Blobs in an object store, or in a folder that others share: S3, GCS, Azure and file addresses, through obstore.

Credentials come from the environment, as for other programs (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
from obstore.store import LocalStore, from_url

from mizzen.blobs import content
from mizzen.blobs.store import Stored


class ObjectBlobs:
    """A BlobStore."""

    def __init__(self, url: str) -> None:
        if url.startswith("file://"):
            folder = Path(url.removeprefix("file://"))
            folder.mkdir(parents=True, exist_ok=True)
            self._store: Any = LocalStore(folder)
            return
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        plain = {"client_options": {"allow_http": True}} if endpoint.startswith("http://") else {}
        self._store = from_url(url, **plain)  # type: ignore[call-overload]

    def put(self, digest: str, file: Path) -> None:
        obstore.put(self._store, _key(digest), file)

    def get(self, digest: str, target: Path) -> None:
        try:
            found = obstore.get(self._store, _key(digest))
        except FileNotFoundError:
            raise KeyError(digest) from None
        with target.open("wb") as file:
            for chunk in found.stream():
                file.write(chunk)

    def has(self, digest: str) -> bool:
        try:
            obstore.head(self._store, _key(digest))
        except FileNotFoundError:
            return False
        return True

    def delete(self, digest: str) -> None:
        try:
            obstore.delete(self._store, _key(digest))
        except FileNotFoundError:
            return

    def stored(self) -> Iterator[Stored]:
        for page in obstore.list(self._store, "sha256"):
            for item in page:
                digest = content.named(item["path"].rpartition("/")[2])
                if content.DIGEST.fullmatch(digest):
                    yield Stored(digest, item["size"], item["last_modified"])


def _key(digest: str) -> str:
    hex_ = content.hex_of(digest)
    return f"sha256/{hex_[:2]}/{hex_}"
