"""A file that gateways read. A dedicated thread replaces it atomically, so no other work can delay it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mizzen.stores.records import private_files


class PublishedFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.name)

    async def holds(self, data: bytes) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _holds, self.path, data)

    async def replace(self, data: bytes) -> None:
        """Replaces the file. Raises OSError."""
        await asyncio.get_running_loop().run_in_executor(self._thread, private_files.replace, self.path, data)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
