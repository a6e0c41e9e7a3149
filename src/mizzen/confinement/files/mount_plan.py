"""The view of the file system that a confined process gets: which folders are hidden, and what of them is kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

_SHARED = ("/run", "/tmp", "/var/tmp")  # noqa: S108
"""Folders of all users and services, with their sockets."""
_PERSONAL = (".ssh", ".gnupg", ".docker", ".kube", ".aws", ".azure", ".config/gcloud")
"""Folders of keys, and of sockets of agents, in the home of the plane's user."""
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class MountPlan:
    hidden: tuple[str, ...] = ()
    """Folders that are empty except for what is kept; files that are empty."""
    keep: tuple[str, ...] = ()
    """Files and folders in hidden ones that stay, read-only."""
    links: tuple[tuple[str, str], ...] = ()
    """Links in hidden folders that paths to kept files lead through: where they are, and what they say."""
    write: tuple[str, ...] = ()
    """Folders and files that stay writable."""


NOTHING = MountPlan()


def plan(
    protected: Iterable[str],
    read: Collection[str],
    write: Collection[str],
    *,
    named: Iterable[str],
    home: str,
    other_user: bool,
) -> MountPlan:
    """`read` and `write`: what the process may reach. `protected`: what it must not, except where `read` or `write`
    name something inside. `named`: paths that must lead, through links, to what it may reach. `home`: that of the
    plane's user. `other_user`: it runs as a user for whom the folders on the way may be closed."""
    kept_paths = [os.path.abspath(path) for path in (*read, *write)]
    ways = [*kept_paths, *map(os.path.abspath, named)]
    real = {os.path.realpath(path) for path in kept_paths}
    candidates = [*_SHARED, *(os.path.join(home, each) for each in _PERSONAL)]
    candidates += [closed for path in (*ways, *real) for closed in _closed_above(path)] if other_user else []
    # A folder that is kept as a whole, or lies in one, stays visible.
    roots = {path for each in candidates if not _covers(real, path := os.path.realpath(each))}
    roots |= {os.path.realpath(path) for path in protected}
    hidden = [path for path in _topmost(roots) if path != "/" and os.path.exists(path)]
    kept = {path for path in real if _covers(hidden, path) and path not in hidden}
    links = {link: os.readlink(link) for path in ways for link in _links_of(path) if _covers(hidden, link)}
    writable = tuple(dict.fromkeys(os.path.realpath(path) for path in write))
    return MountPlan(
        tuple(hidden),
        tuple(path for path in _topmost(kept) if path not in writable),
        tuple(sorted((link, text) for link, text in links.items() if not _covers(kept, link))),
        writable,
    )


def _covers(folders: Iterable[str], path: str) -> bool:
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in folders)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Without those that lie in another one."""
    found: list[str] = []
    for path in sorted(paths, key=lambda each: each.rstrip("/").split("/")):
        if not _covers(found, path):
            found.append(path)
    return found


def _links_of(path: str) -> Iterator[str]:
    """The links that the way to this path leads through, each with all folders of its own path resolved."""
    waiting, at = path.split("/")[::-1], "/"
    left = _MOST_LINKS
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        place = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        try:
            text = os.readlink(place)
        except OSError:
            at = place
            continue
        left -= 1
        if left < 0:
            return
        yield place
        at = "/" if text.startswith("/") else at
        waiting += text.split("/")[::-1]


def _closed_above(path: str) -> Iterator[str]:
    """The topmost folder above this path that not every user may pass."""
    at = ""
    for name in path.split("/")[1:-1]:
        at = f"{at}/{name}"
        try:
            mode = os.stat(at).st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode) and not mode & 0o001:
            yield at
            return
