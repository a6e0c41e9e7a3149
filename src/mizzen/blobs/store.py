"""The protocol of a blob store outside this machine.

The plane keeps every file on its own disk and serves it from there (`file_store.py`). With the setting `blob_store`,
the plane also puts each file into a BlobStore before it acknowledges the write, and fetches files that are missing on the
disk from it (`backed_store.py`). `open_store.py` finds the store that an address names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mizzen.errors import Unavailable

_ANSWER = re.compile(r"<Code>(\w+)</Code>\s*<Message>([^<]*)</Message>")


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


def unavailable(doing: str, error: Exception) -> Any:
    """The error for whoever asked."""
    if isinstance(error, Unavailable):
        return error
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    hint = "see the settings blob_store and blob_store_secret" if denied else "try again when it answers"
    return Unavailable(f"the blob store does not {doing}: {explain_error(error)}", hint=hint)


def explain_error(error: Exception) -> str:
    """In one line: what S3 says of it, or what obstore does without what only its authors understand."""
    if answer := _ANSWER.search(str(error)):
        return f"{answer[1]}: {answer[2]}"[:300]
    said = str(error).partition("Debug source")[0]
    return " ".join(f"{type(error).__name__}: {said}".split())[:300]
