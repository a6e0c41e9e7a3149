"""The protocol of a blob store outside this machine.

The plane keeps every file on its own disk and serves it from there (`file_store.py`). With the setting `blob_store`,
the plane also puts each file into a BlobStore before it acknowledges the write, and fetches files that are missing on
the disk from it (`backed_store.py`). `open_store.py` finds the store that an address names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from mizzen.errors import Invalid, Unavailable

_ANSWER = re.compile(r"<Code>(\w+)</Code>\s*<Message>([^<]*)</Message>")


@dataclass(frozen=True, slots=True)
class Stored:
    """One blob in a store."""

    digest: str
    size: int
    touched: datetime
    """Includes the time zone."""


class BlobStore(Protocol):
    """Blocking; used by several threads at once. May raise anything; callers then get Unavailable.

    Content is addressed by its digest, `sha256:<hex>`, and never changes.
    """

    def put(self, digest: str, file: Path) -> None:
        """Stores the content of this file, durably when it returns. Existing content counts as touched."""

    def get(self, digest: str, target: Path) -> None:
        """Writes the content to this file, which exists and is empty. Raises KeyError if it is not stored here."""

    def delete(self, digest: str) -> None:
        """Deletes a blob; does nothing if it is absent."""

    def stored(self) -> Iterator[Stored]:
        """Yields all blobs, in any order."""


@runtime_checkable
class KeepsDocuments(BlobStore, Protocol):
    """A store that also keeps documents (`documents.py`). With other stores, documents are only on this machine's disk.

    Document names consist of plain characters and slashes, and are already validated.
    """

    def uri(self, digest: str) -> str:
        """Returns the address of a blob, for display."""

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        """Stores a document atomically, durably when it returns.

        With `new`, an existing one is not replaced and the result is False. Of many concurrent callers, one gets True.
        """

    def get_document(self, name: str) -> bytes:
        """Raises KeyError if it is not stored here."""

    def delete_document(self, name: str) -> None:
        """Deletes a document; does nothing if it is absent."""

    def document_names(self) -> Iterator[str]:
        """Yields the names of all documents, in any order."""

    def document_uri(self, name: str) -> str:
        """Returns the address of a document, for display; for the empty name, that of the folder of all."""


@contextmanager
def explain_failures(operation: str) -> Iterator[None]:
    """Converts errors of a store to Unavailable, except Invalid."""
    try:
        yield
    except Invalid:
        raise
    except Exception as error:
        raise unavailable(operation, error) from error


def unavailable(operation: str, error: Exception) -> Unavailable:
    """Returns the error to raise for a failed operation of the store."""
    if isinstance(error, Unavailable):
        return error
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    hint = "check the settings blob_store and blob_store_secret" if denied else "try again when it responds"
    return Unavailable(f"the blob store cannot {operation}: {explain_error(error)}", hint=hint)


def explain_error(error: Exception) -> str:
    """Returns one line: the message of S3, or that of obstore without its internal details."""
    if answer := _ANSWER.search(str(error)):
        return f"{answer[1]}: {answer[2]}"[:300]
    message = str(error).partition("Debug source")[0]
    return " ".join(f"{type(error).__name__}: {message}".split())[:300]
