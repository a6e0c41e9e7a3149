"""Extracting a tar from a plane into a local folder. Only files and folders: nothing that leads out of it."""

from __future__ import annotations

import asyncio
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from mizzen import errors

_IN_MEMORY: Final = 8 << 20


async def extract(pieces: AsyncIterator[bytes], folder: Path) -> Path:
    """Create the folder with the files in it, and return it. Raises AlreadyExists if a file exists, and then writes
    nothing."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)
        file.seek(0)
        await asyncio.to_thread(_unpack, file, folder)
    return folder


def _unpack(file: IO[bytes], folder: Path) -> None:
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            members = [(member, _within(folder, member.name)) for member in archive if member.isreg()]
            for _, target in members:
                if target.exists():
                    raise errors.AlreadyExists(f"{target} already exists", hint="choose another folder")
            folder.mkdir(parents=True, exist_ok=True)
            for member, target in members:
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                assert content is not None
                with content, target.open("xb") as made:
                    shutil.copyfileobj(content, made)
    except tarfile.TarError as error:
        raise errors.Unavailable(f"the download is truncated or damaged: {error}", hint="try again") from error


def _within(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise errors.Invalid(f"the plane sent a file named {name!r}, which is outside the folder")
    return folder.joinpath(*parts)
