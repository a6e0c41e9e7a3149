"""Files of Blobs as a tar archive that is built while it is sent, and never held in memory."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mizzen.errors import Unavailable
from mizzen.runs.records import File

BLOCK = tarfile.BLOCKSIZE
CHUNK = 1 << 20
END = bytes(2 * BLOCK)


@dataclass(frozen=True, slots=True)
class TarArchive:
    entries: tuple[tuple[bytes, File], ...]
    """The tar header and the record of each file."""
    content: Callable[[str], Path]
    """Returns the path of the content with a digest. Blocking."""

    @classmethod
    def of(cls, files: Iterable[File], content: Callable[[str], Path], written: float) -> Self:
        return cls(tuple((_header(file, written), file) for file in files), content)

    @property
    def size(self) -> int:
        return sum(len(header) + file.size + -file.size % BLOCK for header, file in self.entries) + len(END)

    async def chunks(self) -> AsyncIterator[bytes]:
        for header, file in self.entries:
            yield header
            path = await asyncio.to_thread(self.content, file.digest)
            with await asyncio.to_thread(path.open, "rb") as source:
                left = file.size
                while left:
                    chunk = await asyncio.to_thread(source.read, min(left, CHUNK))
                    if not chunk:  # Content-Length was sent: only closing the connection can report this
                        raise Unavailable(f"'{file.path}' is damaged: {left} bytes are missing")
                    left -= len(chunk)
                    yield chunk
            yield bytes(-file.size % BLOCK)
        yield END


def _header(file: File, written: float) -> bytes:
    info = tarfile.TarInfo(file.path)
    info.size, info.mode, info.mtime = file.size, 0o644, int(written)
    return info.tobuf(tarfile.PAX_FORMAT)
