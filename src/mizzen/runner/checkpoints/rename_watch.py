"""Observing renames into a folder through inotify, where available.

Elsewhere a renamed entry looks like one that is being written, and the caller must use other signs.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

_MOVED_TO = 0x80
_IGNORED = 0x8000
_ONLY_FOLDERS = 0x01000000
_EVENT = struct.Struct("iIII")


class RenameWatch:
    """Non-blocking. `handle` can be waited for; None: renames cannot be observed, and there are never names to take."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watch = -1
        self.handle: int | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self.handle = handle if handle >= 0 else None
        self.renew()

    @property
    def watches(self) -> bool:
        return self._watch >= 0

    def renew(self) -> None:
        """Watch the folder, if it exists and is not watched: the code may have removed and recreated it."""
        if self.handle is not None and not self.watches:
            self._watch = self._libc.inotify_add_watch(
                self.handle, os.fsencode(self._folder), ctypes.c_uint32(_MOVED_TO | _ONLY_FOLDERS)
            )

    def take_names(self) -> list[str]:
        """Return the new names since the last call, in order. Names that are not valid text are left out."""
        names: list[str] = []
        if self.handle is None:
            return names
        while True:
            try:
                data = os.read(self.handle, 1 << 16)
            except BlockingIOError:
                return names
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                if mask & _IGNORED and watch == self._watch:
                    self._watch = -1
                elif mask & _MOVED_TO:
                    try:
                        names.append(name.decode())
                    except UnicodeDecodeError:
                        continue
