"""Documents on the local disk, backed by a store: a put reaches both before it is acknowledged.

The backing store decides which of several creators was first. Reads use the local copy. A disk without a mark of the
store gets all documents from it once, on first use (`settle`). Until that is possible, reads use the local documents.

    blobs/named/…        the documents
    blobs/named.lock     shared for puts and deletes; exclusive for the copy from the backing store, which could
                         otherwise bring back a document that is being deleted
    blobs/named.behind   the address of the backing store whose documents are all here
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.fs.fsync import make_folder
from mizzen.blobs.ingest.spool import disk_faults, hold_lock
from mizzen.blobs.store import KeepsDocuments, explain_failures
from mizzen.errors import NotFound, Unavailable

AGAIN: Final = 10.0
"""Seconds before retrying a backing store that did not respond."""
_AT_ONCE = 8

log = logging.getLogger(__name__)


class BackedDocuments(FileDocuments):
    """Documents with a backing store. Let only one writer replace a given document.

    With concurrent writers, the last one may differ between the disk and the backing store. A `put` that raises
    Unavailable may have reached the store all the same. Then the next `put` with `new` returns False.
    """

    def __init__(self, root: Path, behind: KeepsDocuments) -> None:
        super().__init__(root)
        self._behind = behind
        self._mark = root / "named.behind"
        self._lock = root / "named.lock"
        self._all_here = False
        self._tried_at = -AGAIN

    def put(self, name: str, data: bytes, *, new: bool = False) -> bool:
        place = self._place(name)
        with self._hold_lock(fcntl.LOCK_SH):
            if new and place.is_file():
                return False
            with explain_failures("store a document"):
                stored = self._behind.put_document(name, data, new=new)
            if stored:
                return super().put(name, data)
        self._fetch_locked(name)
        return False

    def get(self, name: str) -> bytes:
        """Raises Unavailable if only the backing store can know whether it exists, and the store does not respond."""
        try:
            return super().get(name)
        except NotFound:
            if not self._complete():
                self._fetch_locked(name)
        return super().get(name)

    def names(self, prefix: str = "") -> list[str]:
        self._complete()
        return super().names(prefix)

    def delete(self, name: str) -> bool:
        self._place(name)
        with self._hold_lock(fcntl.LOCK_SH):
            with explain_failures("delete a document"):
                self._behind.delete_document(name)
            return super().delete(name)

    def settle(self) -> None:
        with self._hold_lock(fcntl.LOCK_EX):
            with explain_failures("list its documents"):
                behind = frozenset(self._behind.document_names())
            here = frozenset(super().names())
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._fetch, sorted(behind - here)))
                list(threads.map(self._send, sorted(here - behind)))
            with disk_faults():
                self._mark.write_text(self._behind.document_uri(""))
        self._all_here = True

    def uri(self, name: str) -> str:
        self._place(name)
        return self._behind.document_uri(name) or super().uri(name)

    def _complete(self) -> bool:
        """Whether all documents of the backing store are here. If not, tries now and then to copy them."""
        if not self._all_here:
            self._all_here = self._mark.is_file() and self._mark.read_text() == self._behind.document_uri("")
        if not self._all_here and time.monotonic() - self._tried_at >= AGAIN:
            self._tried_at = time.monotonic()
            try:
                self.settle()
            except Unavailable as error:
                self._tried_at = time.monotonic()
                log.warning("documents that only the blob store has are not visible: %s; trying again", error.message)
        return self._all_here

    def _fetch_locked(self, name: str) -> None:
        with self._hold_lock(fcntl.LOCK_EX):
            self._fetch(name)

    def _fetch(self, name: str) -> None:
        with explain_failures("return a document"):
            try:
                data = self._behind.get_document(name)
            except KeyError:  # deleted meanwhile
                return
        super().put(name, data, new=True)

    def _send(self, name: str) -> None:
        with explain_failures("store a document"):
            self._behind.put_document(name, super().get(name), new=False)

    def _hold_lock(self, how: int) -> AbstractContextManager[None]:
        with disk_faults():
            make_folder(self._root)
        return hold_lock(self._lock, how, os.O_RDWR | os.O_CREAT)
