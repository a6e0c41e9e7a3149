"""What a place for blobs outside of this machine has to do, and how one is found by its address.

The plane keeps every file on its own disk, and serves from there (`files.py`). With the setting `blob_store` each file
is also put into a BlobStore before it is acknowledged, and what is missing on the disk is fetched from it
(`backed.py`). Object stores are built in (`objects.py`); others come as plug-ins, by the entry point `mizzen.blobs`
that is called like the address begins: `shelf` for `shelf:///mnt/shelf`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable
from urllib.parse import urlsplit

from mizzen.blobs.object_store_credentials import Credentials
from mizzen.errors import Unavailable

BUILT_IN = ("s3", "gs", "az", "file")

_ANSWER = re.compile(r"<Code>(\w+)</Code>\s*<Message>([^<]*)</Message>")

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


@runtime_checkable
class KeepsDocuments(BlobStore, Protocol):
    """One that keeps documents, too (`documents.py`). Behind one that does not, they are on this machine's disk alone.

    Their names are made of plain characters and slashes, and have been looked at.
    """

    def uri(self, digest: str) -> str:
        """Where people find a blob."""
        ...

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        """Whole, and durably when it returns. With `new`, False when there is one already: it is not replaced, and of
        many who put at the same time one is told True."""
        ...

    def get_document(self, name: str) -> bytes:
        """KeyError when it is not kept here."""
        ...

    def delete_document(self, name: str) -> None:
        """Nothing happens when it is not there."""
        ...

    def document_names(self) -> Iterator[str]:
        """Of all there are, in any order."""
        ...

    def document_uri(self, name: str) -> str:
        """Where people find one; for the empty name, where all of them are."""
        ...


def opened(url: str, credentials: Credentials | None = None, environ: Mapping[str, str] | None = None) -> BlobStore:
    """The store at this address. One that cannot be had is told in the log, and by every use of it: what is on this
    machine's own disk is served all the same.

    `credentials` are for S3. `environ`: variables of object stores, in place of this process's own.
    """
    from mizzen import plugins  # not above: most runners need none of it, and start more quickly

    scheme = urlsplit(url).scheme
    try:
        if scheme in BUILT_IN:
            from mizzen.blobs.object_store import ObjectBlobs

            return ObjectBlobs(url, credentials, environ)
        entry = plugins.entry(plugins.BLOBS, scheme)
        if entry is None:
            known = ", ".join([*BUILT_IN, *(one.name for one in plugins.entries(plugins.BLOBS))])
            return _Missing(f"no blob store '{scheme}' is installed; there are {known}")
        store: BlobStore = entry.load()(url)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not end the plane
        said = shown(error)
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

    def uri(self, digest: str) -> str:
        return ""

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        self._refuse()

    def get_document(self, name: str) -> bytes:
        self._refuse()

    def delete_document(self, name: str) -> None:
        self._refuse()

    def document_names(self) -> Iterator[str]:
        self._refuse()

    def document_uri(self, name: str) -> str:
        return ""

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._why, hint="see the setting blob_store")


def unavailable(doing: str, error: Exception) -> Any:
    """The error for whoever asked."""
    if isinstance(error, Unavailable):
        return error
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    hint = "see the settings blob_store and blob_store_secret" if denied else "try again when it answers"
    return Unavailable(f"the blob store does not {doing}: {shown(error)}", hint=hint)


def shown(error: Exception) -> str:
    """In one line: what S3 says of it, or what obstore does without what only its authors understand."""
    if answer := _ANSWER.search(str(error)):
        return f"{answer[1]}: {answer[2]}"[:300]
    said = str(error).partition("Debug source")[0]
    return " ".join(f"{type(error).__name__}: {said}".split())[:300]
