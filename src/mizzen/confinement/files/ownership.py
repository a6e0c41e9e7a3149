"""Files for another user: what a process that runs as one may write is given to it, and what it may read is opened."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from contextlib import suppress

from mizzen.confinement.spec import Confinement

_OPEN_FOLDER, _OPEN_FILE = 0o055, 0o044


def hand_over(confinement: Confinement) -> None:
    """Gives the user of this confinement the plane's files in it. The operator's own folders stay as they are.

    Needs root. Raises OSError, KeyError (no such user).
    """
    user = pwd.getpwnam(confinement.user)
    protected = [os.path.realpath(path) for path in confinement.protected]
    write = [path for path in confinement.write if _lies_in(protected, path)]
    for path in write:
        _give(path, user.pw_uid, user.pw_gid)
    for path in confinement.read:
        if _lies_in(protected, path):
            _open(path, write)


def _lies_in(folders: Iterable[str], path: str) -> bool:
    real = os.path.realpath(path)
    return any(real.startswith(f"{each.rstrip('/')}/") for each in folders)


def _give(path: str, uid: int, gid: int) -> None:
    """Follows no link: processes of that user may be changing the folder now."""
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if found.st_uid == uid:  # with all that was put there since
            return
        for _, folders, files, handle in os.fwalk(path) if stat.S_ISDIR(found.st_mode) else ():
            for name in (*folders, *files):
                with suppress(FileNotFoundError):
                    os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)
        os.chown(path, uid, gid, follow_symlinks=False)


def _open(path: str, without: Iterable[str]) -> None:
    """Lets all users read a tree, except the parts `without` and those that belong to others: they may be changing
    them now, and could lead a change of the mode elsewhere."""
    apart = {os.path.abspath(each) for each in without}
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return
        os.chmod(path, stat.S_IMODE(found.st_mode) | _OPEN_FOLDER)
        for place, folders, files, handle in os.fwalk(path):
            at = os.path.abspath(place)
            folders[:] = [name for name in folders if os.path.join(at, name) not in apart]
            for name in (*folders, *files):
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o004:
                    more = _OPEN_FOLDER if stat.S_ISDIR(found.st_mode) else _OPEN_FILE
                    os.chmod(name, stat.S_IMODE(found.st_mode) | more, dir_fd=handle)
            folders[:] = [
                name for name in folders if os.stat(name, dir_fd=handle, follow_symlinks=False).st_uid == os.getuid()
            ]
