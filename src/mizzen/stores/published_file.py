"""A file that gateways read. A dedicated thread replaces it atomically, so no other work can delay it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mizzen.stores.records import private_files


class PublishedFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: tuple[int, ...] | None = None
        """Of the file, when it was last written or compared."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.name)

    async def holds(self, data: bytes) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._holds, data)

    async def replace(self, data: bytes) -> None:
        """Replaces the file. Raises OSError."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._replace, data)

    async def is_untouched(self) -> bool:
        """Whether the file is still the one that was last written or compared. Reads no content."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._is_untouched)

    def _holds(self, data: bytes) -> bool:
        state = _state_of(self.path)
        try:
            same = self.path.read_bytes() == data
        except OSError:
            return False
        self._state = state
        return same

    def _replace(self, data: bytes) -> None:
        private_files.replace(self.path, data)
        self._state = _state_of(self.path)

    def _is_untouched(self) -> bool:
        return self._state is not None and self._state == _state_of(self.path)


def _state_of(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
