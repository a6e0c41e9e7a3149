"""Finding the groups of a data dir without any record: by their names, wherever they were created.

A supervisor of systemd and a `mizzen down` in a terminal are in different groups, so all hierarchies are searched.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from mizzen.confinement.cgroups import hierarchies
from mizzen.confinement.cgroups.groups import Cgroup
from mizzen.confinement.cgroups.hierarchies import Hierarchies, Mount

_OURS = "mizzen-"
COMMAND = "~command"
"""Ends the name of the group of a training command. The group without it is that of its runner."""
_ABANDONED = 3600.0
_DEPTH = 12


def prefix_of(data_dir: str) -> str:
    """The beginning of the names of its groups. Its inode separates folders of one path in different containers."""
    try:
        state = os.stat(data_dir)
        known = f"{data_dir}\0{state.st_dev}\0{state.st_ino}"
    except OSError:
        known = data_dir
    return f"{_OURS}{hashlib.sha256(os.fsencode(known)).hexdigest()[:16]}."


def name_of(prefix: str, key: str, run: str) -> str:
    return f"{prefix}{key}.{run}"


def parse_name(prefix: str, name: str) -> tuple[str, str]:
    """Returns the key of the process and the id of its start."""
    key, _, run = name.removeprefix(prefix).removesuffix(COMMAND).rpartition(".")
    return key, run


def groups_below(known: Hierarchies, prefix: str) -> list[Cgroup]:
    """The groups of these hierarchies whose names begin so."""
    return _join_folders(_list_here(filter(None, (known.kill, *known.limits.values())), prefix))


def groups_anywhere(prefix: str) -> list[Cgroup]:
    """The groups of the whole machine whose names begin so. Those with all processes come first in each group."""

    def rank(mount: Mount) -> int:
        return 0 if not mount.controllers else 1 if "freezer" in mount.controllers else 2

    mounts = sorted(hierarchies.read_mounts(), key=rank)
    return _join_folders(folder for mount in mounts for folder in _walk(mount.folder, prefix, _DEPTH))


def remove_abandoned(known: Hierarchies, now: float) -> None:
    """Removes empty groups that planes left behind which were killed and never started again."""
    for group in groups_below(known, _OURS):
        with suppress(OSError):
            if now - max(os.stat(folder).st_mtime for folder in group.folders) > _ABANDONED:
                group.remove()  # fails if it has processes


def _list_here(bases: Iterable[str], prefix: str) -> Iterator[str]:
    for base in dict.fromkeys(bases):
        with suppress(OSError):
            for entry in os.scandir(base):
                if entry.name.startswith(prefix):
                    yield entry.path


def _walk(folder: str, prefix: str, depth: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(prefix):
                yield entry.path
            elif depth and entry.is_dir(follow_symlinks=False) and not entry.name.startswith(_OURS):
                yield from _walk(entry.path, prefix, depth - 1)


def _join_folders(folders: Iterable[str]) -> list[Cgroup]:
    found: dict[str, list[str]] = {}
    for folder in folders:
        found.setdefault(os.path.basename(folder), []).append(folder)
    return [Cgroup(name, tuple(dict.fromkeys(paths))) for name, paths in sorted(found.items())]
