"""Blobs in a plain folder, such as one that several machines mount: a file each, called by its digest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from mizzen.blobs.store import Stored


class Shelf:
    """For addresses such as shelf:///mnt/shelf."""

    def __init__(self, url: str) -> None:
        self._folder = Path(urlsplit(url).path)
        self._folder.mkdir(parents=True, exist_ok=True)

    def put(self, digest: str, file: Path) -> None:
        place = self._place(digest)
        if place.exists():
            os.utime(place)
            return
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
        with open(handle, "wb") as copy, file.open("rb") as source:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.replace(name, place)  # whole, or not there at all
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def get(self, digest: str, target: Path) -> None:
        try:
            shutil.copyfile(self._place(digest), target)
        except FileNotFoundError:
            raise KeyError(digest) from None

    def delete(self, digest: str) -> None:
        self._place(digest).unlink(missing_ok=True)

    def stored(self) -> Iterator[Stored]:
        for file in self._folder.glob("sha256-*"):
            found = file.stat()
            digest = file.name.replace("-", ":", 1)
            yield Stored(digest, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))

    def _place(self, digest: str) -> Path:
        return self._folder / digest.replace(":", "-")
