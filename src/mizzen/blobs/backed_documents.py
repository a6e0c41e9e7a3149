"""Documents on this disk with a store behind them: what is put is in both before it is acknowledged.

The store behind decides who was first to make one. What is here is read here. A disk that is new to the store, which
has no mark of it, gets all documents from it once, by the first who looks (`settle`); until that is possible, reads
go on with what is here.

    blobs/named/…        the documents
    blobs/named.lock     shared by who puts and deletes; alone for who brings what is behind, or it is deleted meanwhile
    blobs/named.behind   the address of the store whose documents are all here
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mizzen.blobs.documents import Documents
from mizzen.blobs.fs.fsync import make_folder
from mizzen.blobs.ingest.spool import disk_faults
from mizzen.blobs.store import KeepsDocuments, unavailable
from mizzen.errors import Invalid, NotFound, Unavailable

AGAIN: Final = 10.0
"""Seconds after which a store that did not answer is asked again for what only it may have."""
_AT_ONCE = 8

log = logging.getLogger(__name__)


class BackedDocuments(Documents):
    """Of several who replace one document at the same time, either may be the last, here and behind: let there be one.

    A `put` that raises Unavailable may have got there all the same. Then the next one with `new` is told False.
    """

    def __init__(self, root: Path, behind: KeepsDocuments) -> None:
        super().__init__(root)
        self._behind = behind
        self._mark = root / "named.behind"
        self._lock = root / "named.lock"
        self._all_here = False
        self._asked = -AGAIN

    def put(self, name: str, data: bytes, *, new: bool = False) -> bool:
        place = self._place(name)
        with self._turn(fcntl.LOCK_SH):
            if new and place.is_file():
                return False
            with _answering("keep a document"):
                made = self._behind.put_document(name, data, new=new)
            if made:
                return super().put(name, data)
        self._bring(name)
        return False

    def get(self, name: str) -> bytes:
        """Unavailable when only the store behind can know whether there is one, and it does not answer."""
        try:
            return super().get(name)
        except NotFound:
            if not self._complete():
                self._bring(name)
        return super().get(name)

    def names(self, prefix: str = "") -> list[str]:
        self._complete()
        return super().names(prefix)

    def delete(self, name: str) -> bool:
        self._place(name)
        with self._turn(fcntl.LOCK_SH):
            with _answering("delete a document"):
                self._behind.delete_document(name)
            return super().delete(name)

    def settle(self) -> None:
        with self._turn(fcntl.LOCK_EX):
            with _answering("list its documents"):
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
        """Is all here that is behind? Asks for it where it is not, now and then."""
        if not self._all_here:
            self._all_here = self._mark.is_file() and self._mark.read_text() == self._behind.document_uri("")
        if not self._all_here and time.monotonic() - self._asked >= AGAIN:
            self._asked = time.monotonic()
            try:
                self.settle()
            except Unavailable as error:
                self._asked = time.monotonic()
                log.warning("documents that only the blob store has are not seen: %s; trying again", error.message)
        return self._all_here

    def _bring(self, name: str) -> None:
        with self._turn(fcntl.LOCK_EX):
            self._fetch(name)

    def _fetch(self, name: str) -> None:
        with _answering("give a document"):
            try:
                data = self._behind.get_document(name)
            except KeyError:  # deleted meanwhile
                return
        super().put(name, data, new=True)

    def _send(self, name: str) -> None:
        with _answering("keep a document"):
            self._behind.put_document(name, super().get(name), new=False)

    @contextmanager
    def _turn(self, how: int) -> Iterator[None]:
        with disk_faults():
            make_folder(self._root)
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)


@contextmanager
def _answering(doing: str) -> Iterator[None]:
    try:
        yield
    except Invalid:
        raise
    except Exception as error:
        raise unavailable(doing, error) from error
