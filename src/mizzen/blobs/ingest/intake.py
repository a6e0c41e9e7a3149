"""Intake of files from an archive or a repository: names are checked, sizes bounded, files stored one by one.

Nothing is ever written under an incoming name: names only become the paths of entries. Faults are collected and
reported together; after the first fault nothing more is stored. Blobs stored before it are unreferenced, and garbage
collection removes them.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from mizzen.blobs.file_store import BlobDescriptor, Entry
from mizzen.blobs.fs.content import ByteReader
from mizzen.blobs.fs.folders import is_skipped
from mizzen.blobs.limits import IngestLimits, Meter, Metered, printable
from mizzen.errors import Fault, Invalid

MOST_PATH = 1024
MOST_PART = 255
MOST_FAULTS = 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""The surrogates that Python uses for bytes that are not UTF-8."""


class Intake:
    def __init__(self, put: Callable[[ByteReader], BlobDescriptor], limits: IngestLimits, packed: int) -> None:
        """`packed`: the size in bytes of the whole input before unpacking."""
        self._put = put
        self._limits = limits
        self._meter = Meter(limits, packed)
        self._files: dict[str, BlobDescriptor | None] = {}
        self._links: dict[str, str] = {}
        self._folders: set[str] = set()
        self._faults: list[Fault] = []
        self._seen = 0

    def announce(self, names: Iterable[str]) -> None:
        """Raises Invalid if there are too many. For callers that know all names before the first file."""
        files = sum(not name.endswith("/") and not is_skipped(_strip_name(name)) for name in names)
        if files > self._limits.files:
            raise self._too_many()

    def add_file(self, name: str, source: ByteReader) -> BlobDescriptor | None:
        """Stores a file. Returns None if it is skipped or faulty."""
        path = self._admit_new(name)
        if path is None or is_skipped(path):
            return None
        self._files[path] = None
        if len(self._files) + len(self._links) > self._limits.files:
            raise self._too_many()
        if self._faults:
            return None
        self._files[path] = blob = self._put(Metered(source, self._meter, path))
        return blob

    def add_folder(self, name: str) -> None:
        path = self._admit(name)
        if path:
            self._folders.add(path)

    def add_symbolic_link(self, name: str, target: str) -> None:
        """Adds a link as a copy of its target, which is looked up after all files have arrived."""
        path = self._admit_new(name)
        if path is None:
            return
        if target.startswith("/") or "\\" in target or _DRIVE.match(target):
            self._refuse(name, f"a link to '{printable(target)}', outside of the archive")
            return
        self._link(name, path, posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))

    def add_hard_link(self, name: str, target: str) -> None:
        path = self._admit_new(name)
        if path is not None:
            self._link(name, path, posixpath.normpath(_strip_name(target)))

    def reject(self, name: str, what: str) -> None:
        """Records a fault for an item that is neither file nor folder nor link."""
        path = self._admit(name)
        if path is not None:
            self._refuse(name, f"{what}: only files, folders and links can be stored")

    def entries(self) -> tuple[Entry, ...]:
        """Returns all files, ordered by path. Raises Invalid, with all faults."""
        found = {path: blob for path, blob in self._files.items() if blob is not None}
        for path, target in self._links.items():
            if is_skipped(path):
                continue
            blob = self._files.get(target)
            if blob is not None:
                self._meter.count(blob.size, path)  # when laid out, it takes space like any other file
                found[path] = blob
            elif target not in self._files:
                self._refuse(path, f"a link to '{printable(target)}', which is not a file in the archive")
        self._check_neighbours()
        if self._faults:
            left = len(self._faults) - MOST_FAULTS
            more = (Fault("", f"and {left} more faults"),) if left > 0 else ()
            raise Invalid.of("the version", (*self._faults[:MOST_FAULTS], *more))
        if not found:
            raise Invalid.of("the version", (Fault("", "no files in it"),))
        return tuple(Entry(path, blob.digest, blob.size) for path, blob in sorted(found.items()))

    def _admit(self, name: str) -> str | None:
        """Returns the path of a name, empty for the top folder; None if it is rejected."""
        self._seen += 1
        if self._seen > 2 * self._limits.files:
            raise Invalid.of("the version", (Fault("", f"more than {2 * self._limits.files:,} files and folders"),))
        path = _strip_name(name)
        fault = path_fault(path) if path else None
        if fault is not None:
            self._refuse(name, fault)
            return None
        return path

    def _admit_new(self, name: str) -> str | None:
        """Like `_admit`, for a new file."""
        path = self._admit(name)
        if path == "":
            self._refuse(name, "a file without a name")
        elif path in self._files or path in self._links:
            self._refuse(name, "named twice")
        else:
            return path
        return None

    def _link(self, name: str, path: str, target: str) -> None:
        if target.startswith(("../", "/")) or target == "..":
            self._refuse(name, f"a link to '{printable(target)}', outside of the archive")
        else:
            self._links[path] = target

    def _check_neighbours(self) -> None:
        """Checks that all paths can coexist on any file system."""
        names = [*self._files, *self._links]
        parents = {str(parent) for path in names for parent in PurePosixPath(path).parents}
        written: dict[str, str] = {}
        for path in names:
            if path in parents or path in self._folders:
                self._refuse(path, "both a file and a folder")
            other = written.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if other != path:
                self._refuse(
                    path, f"differs from '{printable(other)}' only by case or accents; not every disk can hold both"
                )

    def _too_many(self) -> Invalid:
        return Invalid.of("the version", (Fault("", f"more than {self._limits.files:,} files"),))

    def _refuse(self, name: str, why: str) -> None:
        self._faults.append(Fault(printable(name), why))


def path_fault(path: str) -> str | None:
    """Returns why this cannot be a file path inside a folder on any supported system, or None if it can."""
    parts = path.split("/")
    lengths = [len(part.encode(errors="surrogatepass")) for part in parts]
    too_long = max(lengths) > MOST_PART or sum(lengths) + len(lengths) > MOST_PATH
    wrong = {
        "an absolute path": path.startswith("/") or _DRIVE.match(path),
        "a backslash in its name: paths have forward slashes": "\\" in path,
        "a control character in its name": _CONTROL.search(path),
        "leads out of the folder": ".." in parts,
        "not a relative path inside the folder": not all(parts) or "." in parts,
        "its name is not UTF-8: rename it": _SURROGATE.search(path),
        f"its name is too long: {MOST_PATH} bytes in all, {MOST_PART} between two slashes": too_long,
    }
    return next((why for why, is_so in wrong.items() if is_so), None)


def without_top(entries: tuple[Entry, ...], entrypoint: str | None) -> tuple[Entry, ...]:
    """Strips the single top folder of all entries; keeps it if the entrypoint names it."""
    tops = {entry.path.partition("/")[0] for entry in entries}
    top = next(iter(tops))
    if len(tops) > 1 or any("/" not in entry.path for entry in entries):
        return entries
    if entrypoint is not None and re.match(rf"{re.escape(top)}[/.:]", entrypoint):
        return entries
    return tuple(Entry(entry.path.removeprefix(f"{top}/"), entry.digest, entry.size) for entry in entries)


def _strip_name(name: str) -> str:
    """Strips the additions of archive programs to a name: a leading `./`, and the trailing slash of a folder."""
    while name.startswith("./"):
        name = name[2:]
    name = name.removesuffix("/") if len(name) > 1 else name
    return "" if name == "." else name
