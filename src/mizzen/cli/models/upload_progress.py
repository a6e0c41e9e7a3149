"""Progress of registering a version: a bar on a terminal, and a summary if it is interrupted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.cli import output

if TYPE_CHECKING:
    from rich.progress import Progress

    from mizzen.sdk.client import AsyncPlane

_PAUSE: Final = 0.5
"""Seconds after which the plane has noticed that its caller is gone."""


class UploadProgress:
    """Progress of one version. Some sources are not uploaded: the plane reads its own files and fetches URLs itself."""

    def __init__(self, model: str, source: Path | Mapping[str, Any]) -> None:
        self._model = model
        self._source = source
        self._done = 0
        self._total: int | None = None
        self._before: frozenset[str] | None = None
        self._bar: Progress | None = None

    def tell(self, sent: int, total: int | None) -> None:
        self._done, self._total = sent, total
        if self._bar is None:
            return
        description = f"uploading {self._model}" if total and sent < total else f"registering {self._model}"
        self._bar.columns = _bar_columns() if total and sent < total else _spinner_columns()
        self._bar.update(self._bar.task_ids[0], description=description, completed=sent, total=total)

    @contextmanager
    def show(self) -> Iterator[None]:
        if sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(*_spinner_columns(), console=Console(stderr=True), transient=True) as self._bar:
            self._bar.add_task(describe_source(self._source), total=None)
            yield

    async def remember_versions(self, plane: AsyncPlane) -> None:
        """Remember the existing versions, so that `left` can find a new one, if the caller may read them."""
        try:
            self._before = await self._versions(plane)
        except errors.MizzenError:
            self._before = None

    async def summary(self, plane: AsyncPlane) -> str:
        """The state of the version after an interrupt."""
        if self._total and self._done < self._total:
            return f"no version was registered; the same command continues from {100 * self._done // self._total}%"
        await asyncio.sleep(_PAUSE)
        try:
            new = sorted(await self._versions(plane) - self._before) if self._before is not None else None
        except errors.MizzenError:
            new = None
        if new is None:
            return f"the plane may still register it; see 'mizzen version list {self._model}'"
        named = " and ".join(f"version {version}" for version in new)
        return f"{named} of {self._model} is registered" if new else f"no version of {self._model} was registered"

    async def _versions(self, plane: AsyncPlane) -> frozenset[str]:
        return frozenset(str(item["version"]) for item in await plane.list_versions(self._model))


def describe_source(source: Path | Mapping[str, Any]) -> str:
    """The step before any upload: `reading /data/model (900.0 MB)`."""
    if isinstance(source, Path):
        return f"reading {source.absolute()}{_format_size_of(source)}"
    return f"fetching {source['git']['repo'] if 'git' in source else source['downloadURL']}"


def _format_size_of(path: Path) -> str:
    from mizzen.blobs.fs import folders

    try:
        total = sum(place.stat().st_size for _, place in folders.files_of(path))
    except (errors.MizzenError, OSError):  # the upload reports what is wrong
        return ""
    return f" ({output.format_size(total)})"


def _spinner_columns() -> tuple[Any, ...]:
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()


def _bar_columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    return TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn()
