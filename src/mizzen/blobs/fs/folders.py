"""Folders of files: listing the files of one, and laying one out from files stored elsewhere.

A laid-out folder has a marker file next to it, with the digest and inode state of each file. Any change to a file
changes its inode, so a later check reads no content.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from mizzen.blobs.fs import content
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.errors import Fault, Invalid, NotFound

MOST_FILES = 5000
SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", "__MACOSX"})
SKIPPED_SUFFIX = ".pyc"
COMPLETE = ".complete"
"""A file that marks a folder as finished. Not part of its content."""


class HasContent(Protocol):
    """Anything that names a file and its content, such as an entry or an artifact."""

    @property
    def path(self) -> str: ...

    @property
    def digest(self) -> str: ...


def is_skipped(path: str) -> bool:
    """Whether every import skips this path: leftovers of tools, and markers."""
    *folders, name = path.split("/")
    return name.endswith(SKIPPED_SUFFIX) or path == COMPLETE or not SKIPPED_FOLDERS.isdisjoint(folders)


def files_of(source: Path) -> tuple[tuple[str, Path], ...]:
    """Returns (relative path, file) for a single file, or for each file of a folder, ordered by path.

    A link to a file within the folder counts as that file. Raises NotFound, and Invalid, with every fault, for files
    that cannot be stored as content.
    """
    try:
        top = source.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        raise NotFound(f"no file or folder {source}") from error
    if not top.is_dir():
        fault = _fault(top, top.parent)
        if fault:
            raise Invalid.of(str(source), (Fault("", fault),))
        return ((source.name, top),)
    files: list[tuple[str, Path]] = []
    faults: list[Fault] = []
    for file in _walk(top):
        path = file.relative_to(top).as_posix()
        if path == COMPLETE:
            continue
        fault = _fault(file, top)
        if fault:
            faults.append(Fault(path.encode(errors="replace").decode(), fault))
        files.append((path, file))
        if len(files) > MOST_FILES:
            raise Invalid.of(str(source), (Fault("", f"more than {MOST_FILES:,} files"),))
    if not files:
        faults.append(Fault("", "no files in this folder"))
    if faults:
        raise Invalid.of(str(source), tuple(faults))
    return tuple(sorted(files))


def check_entries(entries: Iterable[HasContent]) -> dict[str, str]:
    """Returns path to digest. Raises Invalid, with every fault, unless all paths can coexist in one folder."""
    digests: dict[str, str] = {}
    faults: list[Fault] = []
    for entry in entries:
        parts = entry.path.split("/")
        if not _is_text(entry.path) or not all(parts) or {".", ".."} & set(parts):
            faults.append(Fault(repr(entry.path)[:200], "not a relative path inside the folder"))
        elif entry.path in digests:
            faults.append(Fault(entry.path, "named twice"))
        digests[entry.path] = entry.digest
    folders = {str(parent) for path in digests for parent in PurePosixPath(path).parents}
    faults += [Fault(path, "both a file and a folder") for path in digests if path in folders]
    if faults:
        raise Invalid.of("files", tuple(faults))
    return digests


def lay_out(files: Mapping[str, tuple[str, Path]], target: Path, ask: Callable[[int], None] | None = None) -> None:
    """Makes `target` a folder of exactly these files, path to (digest, content): builds it next to it, then renames.

    The files are copies, not links, because the process that uses them may write to them. Raises NotFound if a content
    does not match its digest. `ask` is called with the number of bytes before any is written, and may raise to refuse.
    """
    # Fixed names, so that the next process finds and removes the leftovers of a killed one.
    new, old, marker = (target.with_name(f".{target.name}.{word}") for word in ("new", "old", "laid"))
    if _holds(target, {path: digest for path, (digest, _) in files.items()}, marker):
        return
    _remove(new)
    _remove(old)
    if ask is not None:
        ask(sum(source.stat().st_size for _, source in files.values()))
    new.mkdir(parents=True)
    laid: dict[str, Any] = {}
    for path, (digest, source) in files.items():
        place = new / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content.clone_or_copy(source, place) != digest:
            _remove(new)
            raise NotFound(
                f"blob {digest} is damaged: {source} has other content",
                hint="register a version with this file again, to replace it",
            )
        place.chmod(0o444)
        laid[path] = [digest, *_file_state(place)]
    if os.path.lexists(target):
        target.rename(old)
    new.rename(target)
    marker.write_text(json.dumps(laid))
    _remove(old)


def _walk(top: Path) -> Iterator[Path]:
    """Yields everything in a folder that is not itself a folder; does not follow links."""
    for folder, names, files in os.walk(top, onerror=_unreadable):
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        names[:] = [name for name in names if name not in SKIPPED_FOLDERS and name not in links]
        for name in [*files, *(link for link in links if link not in SKIPPED_FOLDERS)]:
            if not name.endswith(SKIPPED_SUFFIX):
                yield Path(folder) / name


def _unreadable(error: OSError) -> None:
    raise Invalid.of(str(error.filename), (Fault("", f"cannot be read: {error.strerror}"),)) from error


def _fault(file: Path, top: Path) -> str | None:
    """Returns why this cannot be stored as a file of the folder `top`, or None if it can."""
    if not _is_text(str(file.relative_to(top))):
        return "its name is not UTF-8: rename it"
    try:
        real = file.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError):
        return "a link that leads nowhere"
    if not real.is_relative_to(top):
        return "a link that leaves the folder"
    if stat.S_ISDIR(mode):
        return "a link to a folder: only links to files are followed"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return None


def _holds(target: Path, digests: Mapping[str, str], marker: Path) -> bool:
    """Whether the folder holds exactly these files, unchanged. Bytecode caches do not count."""
    if not target.is_dir():
        return False
    try:
        laid = json.loads(marker.read_bytes())
    except (OSError, ValueError):  # missing or incomplete
        return False
    found = {file.relative_to(target).as_posix(): file for file in _walk(target)}
    return found.keys() == digests.keys() and laid == {
        path: [digests[path], *_file_state(file)] for path, file in found.items()
    }


def _file_state(file: Path) -> tuple[int, ...]:
    """Returns a value that changes with the file: only the kernel sets its change time."""
    found = file.lstat()
    return found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _is_text(name: str) -> bool:
    """False for names with NUL, or with the surrogates that Python uses for non-UTF-8 names."""
    return "\0" not in name and name == name.encode(errors="replace").decode()
