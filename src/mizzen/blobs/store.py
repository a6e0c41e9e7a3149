"""What a place for blobs outside of this machine has to do, and how one is found by its address.

The plane keeps every file on its own disk, and serves from there (`files.py`). With the setting `blob_store` each file
is also put into a BlobStore before it is acknowledged, and what is missing on the disk is fetched from it
(`backed.py`). Object stores are built in (`objects.py`); others come as plug-ins, by the entry point `mizzen.blobs`
that is called like the address begins: `shelf` for `shelf:///mnt/shelf`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

from mizzen import plugins
from mizzen.errors import Unavailable

BUILT_IN = ("s3", "gs", "az", "file")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """One blob as it lies in a store."""

    digest: str
    size: int
    touched: datetime
    """With its time zone."""


class BlobStore(Protocol):
    """Blocking; used by several threads at once. May raise anything: who asked is told that it is not to be had now.

    Content is addressed by its digest, `sha256:<hex>`, and never changes.
    """

    def put(self, digest: str, file: Path) -> None:
        """Keep the content of this file, durably when it returns. Content that is there already counts as touched."""
        ...

    def get(self, digest: str, target: Path) -> None:
        """Write the content to this file, which is there and empty. KeyError when it is not kept here."""
        ...

    def has(self, digest: str) -> bool: ...

    def delete(self, digest: str) -> None:
        """Nothing happens when it is not there."""
        ...

    def stored(self) -> Iterator[Stored]:
        """All there is, in any order."""
        ...


def opened(url: str) -> BlobStore:
    """The store at this address. One that cannot be had is told in the log, and by every use of it: what is on this
    machine's own disk is served all the same."""
    scheme = urlsplit(url).scheme
    try:
        if scheme in BUILT_IN:
            from mizzen.blobs.objects import ObjectBlobs

            return ObjectBlobs(url)
        entry = plugins.entry(plugins.BLOBS, scheme)
        if entry is None:
            known = ", ".join([*BUILT_IN, *(one.name for one in plugins.entries(plugins.BLOBS))])
            return _Missing(f"no blob store '{scheme}' is installed; there are {known}")
        store: BlobStore = entry.load()(url)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not end the plane
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return _Missing(f"the blob store '{scheme}' cannot be opened: {said}")
    return store


class _Missing:
    def __init__(self, why: str) -> None:
        log.error("%s; nothing new is kept until that is mended", why)
        self._why = why

    def put(self, digest: str, file: Path) -> None:
        self._refuse()

    def get(self, digest: str, target: Path) -> None:
        self._refuse()

    def has(self, digest: str) -> bool:
        self._refuse()

    def delete(self, digest: str) -> None:
        self._refuse()

    def stored(self) -> Iterator[Stored]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._why, hint="see the setting blob_store")


def unavailable(doing: str, error: Exception) -> Any:
    """The error for whoever asked."""
    if isinstance(error, Unavailable):
        return error
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Unavailable(f"the blob store does not {doing}: {said}", hint="try again when it answers")
