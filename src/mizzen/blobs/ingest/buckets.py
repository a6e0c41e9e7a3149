"""Files from a bucket: downloads all objects below a prefix into a folder. Blocking code.

<target>/…                      complete files, with their names below the prefix
<target's folder>/.<name>.parts/
    <hash>.part                 the received part of an object; the next run resumes it
    <hash>                      empty: this version of the object is complete
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from mizzen.blobs.disk_room import Room
from mizzen.blobs.fs import content
from mizzen.blobs.ingest import private_addresses
from mizzen.blobs.ingest.spool import disk_faults
from mizzen.blobs.object_store import open_object_store, pieces
from mizzen.blobs.object_store_credentials import Credentials
from mizzen.blobs.store import explain_error
from mizzen.errors import Fault, Invalid, NotFound, Unavailable

_AT_ONCE: Final = 4
_MOST_FAULTS: Final = 10
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
"""ETag of an object uploaded in one part; ETags of others end with the number of parts."""
_REFUSED = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|403 Forbidden|401 Unauthorized")

log = logging.getLogger(__name__)

Report = Callable[[int, int], None]
"""Called with the bytes received and the total, by several threads, one at a time."""


@dataclass(frozen=True, slots=True)
class _Object:
    key: str
    path: str
    """Path below the target."""
    size: int
    e_tag: str

    @property
    def mark(self) -> str:
        """A value that changes with the content."""
        return hashlib.sha256(f"{self.key}\0{self.e_tag}\0{self.size}".encode()).hexdigest()[:40]


def fetch_prefix(
    bucket: str,
    prefix: str,
    target: Path,
    credentials: Credentials | None,
    report: Report,
    *,
    room: Room | None = None,
    private: bool = True,
) -> None:
    """Makes `target` hold exactly the objects below the prefix, or the one object of that name.

    Complete when this returns; a new run after a failure resumes. Without a key, requests are anonymous. `private`:
    whether the endpoint may be in this machine's private network.

    Raises NotFound if there is nothing; Invalid for permanent errors, such as rejected keys or names that are not valid
    paths; Unavailable, NoRoom.
    """
    given = credentials or Credentials()
    if not private and given.endpoint:
        _refuse_private(given.endpoint)
    anonymous = {} if given.access_key_id else {"aws_skip_signature": True}
    store = open_object_store(f"s3://{bucket}", given, {}, **anonymous)
    where = f"s3://{bucket}/{prefix.strip('/')}"
    with _explain_errors(where):
        objects = _list_objects(store, prefix.strip("/"), where)
    parts = target.parent / f".{target.name}.parts"
    with disk_faults():
        parts.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        _remove_others(target, {one.path for one in objects})
    fetch = _Fetch(store, target, parts, where, _Count(report, sum(one.size for one in objects)))
    fetch.all(objects, room)
    with disk_faults():
        shutil.rmtree(parts)


def _refuse_private(endpoint: str) -> None:
    """Raises Invalid for a private endpoint. Cannot rule out that the name resolves differently later."""
    import asyncio

    parsed = urlsplit(endpoint)
    port = parsed.port or (80 if parsed.scheme == "http" else 443)
    asyncio.run(private_addresses.resolve_host(parsed.hostname or "", port, private=False, field="endpoint"))


def _list_objects(store: Any, prefix: str, where: str) -> list[_Object]:
    found = {item["path"]: item for page in obstore.list(store, prefix or None) for item in page}
    # Cloud consoles create an empty object for each folder.
    folders = {above for key in found for above in _above(key)}
    objects = [
        _Object(key, key.removeprefix(f"{prefix}/") if prefix else key, item["size"], item["e_tag"] or "")
        for key, item in found.items()
        if not (key in folders and item["size"] == 0)
    ]
    if not objects and prefix:
        with suppress(FileNotFoundError):
            item = obstore.head(store, prefix)
            objects.append(_Object(prefix, prefix.rpartition("/")[2], item["size"], item["e_tag"] or ""))
    if not objects:
        raise NotFound(f"nothing is below {where}", hint="check the bucket and the prefix; do not add '*'")
    both = sorted(one.path for one in objects if one.key in folders)
    odd = [one.path for one in objects if not _is_path(one.path)]
    if both or odd:
        faults = [Fault(path[:200], "is both a file and a folder") for path in both]
        faults += [Fault(repr(path[:200]), "is not a valid file name") for path in odd]
        raise Invalid.of(where, tuple(faults[:_MOST_FAULTS]))
    return sorted(objects, key=lambda one: one.path)


def _above(key: str) -> Iterator[str]:
    while key := key.rpartition("/")[0]:
        yield key


def _is_path(path: str) -> bool:
    parts = path.split("/")
    return all(part not in ("", ".", "..") and "\0" not in part and len(part.encode()) <= 255 for part in parts)


def _remove_others(target: Path, wanted: set[str]) -> None:
    """Removes files of an earlier run that no longer exist, and links, which would redirect writes elsewhere."""
    for folder, folders, files in os.walk(target, topdown=False):
        for name in (*folders, *files):
            path = Path(folder) / name
            if path.is_symlink() or (path.is_file() and path.relative_to(target).as_posix() not in wanted):
                path.unlink()
            elif path.is_dir():
                with suppress(OSError):  # it is not empty
                    path.rmdir()


class _Fetch:
    def __init__(self, store: Any, target: Path, parts: Path, where: str, count: _Count) -> None:
        self._store = store
        self._target = target
        self._parts = parts
        self._where = where
        self._count = count
        self._stop = threading.Event()

    def all(self, objects: list[_Object], room: Room | None) -> None:
        left = []
        for one in objects:
            if self._is_here(one):
                self._count.add(one.size)
            else:
                left.append(one)
        if room is not None:
            room.for_files(sum(one.size - self._resume_offset(one) for one in left))
        self._count.add(0)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            running = [threads.submit(self._one, one) for one in left]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
            finally:
                self._stop.set()
                threads.shutdown(cancel_futures=True)
        for each in done:
            each.result()

    def _is_here(self, one: _Object) -> bool:
        place = self._target / one.path
        return (self._parts / one.mark).exists() and place.is_file() and place.stat().st_size == one.size

    def _resume_offset(self, one: _Object) -> int:
        try:
            return (self._parts / f"{one.mark}.part").stat().st_size
        except FileNotFoundError:
            return 0

    def _one(self, one: _Object) -> None:
        part = self._parts / f"{one.mark}.part"
        found, expected = self._fill(one, part), _MD5.fullmatch(one.e_tag)
        if expected is not None and found != expected[1]:
            # Damaged in transit; or encrypted at rest, where the ETag is not an MD5: then it arrives the same again.
            self._count.add(-one.size)
            part.unlink()
            again = self._fill(one, part)
            if again not in (found, expected[1]):
                part.unlink()
                raise Unavailable(f"{self._where}: {one.path} arrives damaged", hint="try again")
            if again == found:
                log.info("%s: the ETag of %s is not an MD5; only its size is verified", self._where, one.path)
        place = self._target / one.path
        with disk_faults():
            place.parent.mkdir(parents=True, exist_ok=True)
            part.replace(place)
            (self._parts / one.mark).touch()

    def _fill(self, one: _Object, part: Path) -> str:
        """Downloads the rest and returns the MD5 of the whole part."""
        hasher = hashlib.md5(usedforsecurity=False)
        with disk_faults(), part.open("a+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > one.size:
                file.truncate(0)
            file.seek(0)
            while data := file.read(content.CHUNK):
                hasher.update(data)
                self._count.add(len(data))
            for data in self._rest(one, file.tell()):
                hasher.update(data)
                content.write_all(file, data)
                self._count.add(len(data))
            os.fsync(file.fileno())
        return hasher.hexdigest()

    def _rest(self, one: _Object, start: int) -> Iterator[bytes]:
        with _explain_errors(self._where):
            for data in pieces(self._store, one.key, start, one.size, one.e_tag or None):
                yield data
                if self._stop.is_set():
                    raise Unavailable("another object could not be fetched")


class _Count:
    def __init__(self, report: Report, total: int) -> None:
        self._report = report
        self._total = total
        self._done = 0
        self._turn = threading.Lock()

    def add(self, size: int) -> None:
        with self._turn:
            self._done += size
            self._report(self._done, self._total)


@contextmanager
def _explain_errors(where: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, BaseError, ValueError) as error:
        raise _fault(where, error) from error


def _fault(where: str, error: Exception) -> NotFound | Invalid | Unavailable:
    message = str(error)
    if "NoSuchBucket" in message:
        return NotFound(f"{where}: there is no such bucket", hint="check its name and the endpoint")
    if isinstance(error, (FileNotFoundError, PreconditionError)):
        return Unavailable(f"{where} changed during the download", hint="try again when no process writes to it")
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or _REFUSED.search(message):
        why = f"the object store rejects accessKeyId and secretAccessKey, or they lack rights: {explain_error(error)}"
        return Invalid.of(where, (Fault("secret", why),))
    if isinstance(error, (InvalidPathError, ValueError)):
        return Invalid.of(
            where, (Fault("prefix", f"a name below it is not a valid file name: {explain_error(error)}"),)
        )
    return Unavailable(
        f"{where} cannot be fetched: {explain_error(error)}", hint="try again when the object store responds"
    )
