"""A version on its way to the plane: what is shown of it on a terminal, and what is told when it is interrupted."""

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
"""Seconds until a plane has noticed that its caller is gone."""


class Sending:
    """What is not sent from here is only waited for: the plane reads files of its own machine, and fetches, itself."""

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
        description = f"sending {self._model}" if total and sent < total else f"the plane registers {self._model}"
        self._bar.columns = _bar() if total and sent < total else _waiting()
        self._bar.update(self._bar.task_ids[0], description=description, completed=sent, total=total)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(*_waiting(), console=Console(stderr=True), transient=True) as self._bar:
            self._bar.add_task(described(self._source), total=None)
            yield

    async def begin(self, plane: AsyncPlane) -> None:
        """Which versions there are, so that `left` can tell a new one. Who may not see them is not hindered."""
        try:
            self._before = await self._versions(plane)
        except errors.MizzenError:
            self._before = None

    async def left(self, plane: AsyncPlane) -> str:
        """What has become of it, when nobody waits any more."""
        if self._total and self._done < self._total:
            return f"nothing is registered; the same command goes on from {100 * self._done // self._total}%"
        await asyncio.sleep(_PAUSE)
        try:
            new = sorted(await self._versions(plane) - self._before) if self._before is not None else None
        except errors.MizzenError:
            new = None
        if new is None:
            return f"the plane may go on and register it; see 'mizzen version list {self._model}'"
        named = " and ".join(f"version {version}" for version in new)
        return f"{named} of {self._model} is registered" if new else f"no version of {self._model} was registered"

    async def _versions(self, plane: AsyncPlane) -> frozenset[str]:
        return frozenset(str(item["version"]) for item in await plane.list_versions(self._model))


def described(source: Path | Mapping[str, Any]) -> str:
    """What is being done with a source before anything is sent, if it ever is: `reading /data/model (900.0 MB)`."""
    if isinstance(source, Path):
        return f"reading {source.absolute()}{_size(source)}"
    return f"the plane fetches {source['git']['repo'] if 'git' in source else source['downloadURL']}"


def _size(path: Path) -> str:
    from mizzen.blobs.fs import folders

    try:
        total = sum(place.stat().st_size for _, place in folders.files_of(path))
    except (errors.MizzenError, OSError):  # whoever reads it says what is wrong
        return ""
    return f" ({output.size(total)})"


def _waiting() -> tuple[Any, ...]:
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()


def _bar() -> tuple[Any, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    return TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn()
