"""Documents: small named files that reference blobs by digest.

A document is complete or absent, and durable once acknowledged. It may be replaced and deleted; blobs that it
references are kept as long as it exists. Blocking code; any number of threads and processes may use one folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mizzen.blobs.fs import content
from mizzen.blobs.fs.fsync import make_folder, sync_folder
from mizzen.blobs.fs.name_journal import NameJournal
from mizzen.blobs.ingest.spool import disk_faults, new_file
from mizzen.errors import Fault, Invalid, NotFound

FOLDER: Final = "named"
JOURNAL: Final = "named.journal"
_PART = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MOST_NAME: Final = 800
"""Maximum length in characters. Backing stores allow about a thousand, including the folder."""


class FileDocuments:
    def __init__(self, root: Path) -> None:
        """`root`: the folder of the blobs."""
        self._root = root
        self._folder = root / FOLDER
        self._journal = NameJournal(root / JOURNAL)

    def put(self, name: str, data: bytes, *, new: bool = False) -> bool:
        """Stores a document, durably when this returns. Raises Invalid or Unavailable.

        With `new`, an existing document stays unchanged and the result is False. Of many concurrent callers, in any
        processes, exactly one gets True.
        """
        place = self._place(name)
        with disk_faults(), _draft(self._root / "incoming", data) as draft:
            known = place.exists()
            stored = _move_into_place(draft, place, new=new)
            # Also if it already existed: its creator may not have synced yet.
            _sync_folder(place.parent)
            if not known:
                self._journal.add(name)
        return stored

    def get(self, name: str) -> bytes:
        """Raises NotFound or Invalid."""
        try:
            return self._place(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(f"no document {name}") from None

    def last_modified(self, name: str) -> datetime:
        """Returns when it was last put here. Raises NotFound."""
        try:
            return datetime.fromtimestamp(self._place(name).stat().st_mtime, UTC)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"no document {name}") from None

    def names(self, prefix: str = "") -> list[str]:
        """Returns all names with this prefix, sorted."""
        above = prefix.rpartition("/")[0]
        start = self._place(above) if above else self._folder
        found = []
        for folder, _, files in os.walk(start):
            below = Path(folder).relative_to(self._folder)
            found += [(below / file).as_posix() for file in files]
        return sorted(name for name in found if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Deletes durably; returns False if it does not exist."""
        place = self._place(name)
        with disk_faults():
            if place.exists():
                self._journal.remove(name)
            try:
                place.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return False
            _sync_folder(place.parent)
        for folder in place.parents:
            if folder == self._folder:
                break
            try:
                folder.rmdir()
            except OSError:  # it is not empty
                break
        return True

    def list_damaged(self) -> dict[str, str]:
        """Returns documents that were lost or cannot be read, and why: what they reference is not known."""
        names = self.names()
        found = dict.fromkeys(self._journal.find_lost(names), "it was removed by something else than Mizzen")
        for name in names:
            try:
                json.loads(self.get(name))
            except NotFound:  # deleted meanwhile
                continue
            except ValueError:
                found[name] = "it is not valid JSON"
        return found

    def accept_lost(self) -> None:
        """Gives up lost documents: what they referenced may be collected."""
        self._journal.reset(self.names())

    def settle(self) -> None:
        """Copies documents that only this folder or only its backing store has to the other. Raises Unavailable."""

    def uri(self, name: str) -> str:
        """Returns its address for display, whether or not it exists."""
        return self._place(name).as_uri()

    def _place(self, name: str) -> Path:
        return self._folder / check_name(name)


def check_name(name: str) -> str:
    """Raises Invalid unless it can be the name of a document."""
    parts = name.split("/")
    if len(name) > _MOST_NAME or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        message = f"{name[:100]!r} is not valid; expected letters, digits, '.', '_', '-' and '/'"
        raise Invalid.of("the name of a document", (Fault("", message),))
    return name


@contextmanager
def _draft(folder: Path, data: bytes) -> Iterator[Path]:
    handle, path = new_file(make_folder(folder))
    try:
        with open(handle, "wb", buffering=0) as file:
            content.write_all(file, data)
            os.fsync(handle)
            yield path
    finally:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):  # its last document was deleted, and the folder with it
        sync_folder(folder)


def _move_into_place(draft: Path, place: Path, *, new: bool) -> bool:
    while True:
        try:
            make_folder(place.parent)
        except FileNotFoundError:  # a parent folder became empty and was removed
            continue
        except (FileExistsError, NotADirectoryError):
            raise _both(place.parent) from None
        if place.is_dir():
            raise _both(place)
        try:
            if not new:
                draft.replace(place)
            else:
                os.link(draft, place)
        except FileExistsError:
            return False
        except FileNotFoundError:
            if not draft.exists():
                raise
            continue  # the folder became empty and was removed
        return True


def _both(place: Path) -> Invalid:
    fault = Fault("", f"{place.name!r} cannot be both a document and a folder of others")
    return Invalid.of("the name of a document", (fault,))
