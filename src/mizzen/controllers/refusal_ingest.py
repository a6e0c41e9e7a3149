"""What gateways refused, put into the audit: each line of their files exactly once, whoever is killed when.

How far a file was read is kept in the store, in one transaction with what was read. A file goes when nobody writes to
it any more, which its lock tells, and all of it was read. `access/refusal_lines.py` says what the files hold.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from mizzen.access import refusal_lines
from mizzen.access.refusal_lines import Refusal
from mizzen.stores.records.protocol import AuditEntry, AuditIntake

CHUNK = 256 << 10
"""Bytes of a file that are taken at once: some hundred lines, and many times the longest."""
LONGEST_DELAY = 5.0

log = logging.getLogger(__name__)


class RefusalsIntake:
    def __init__(self, audit: AuditIntake, folder: Path, *, every: float = 0.2) -> None:
        self._audit = audit
        self._folder = folder
        self._every = every
        self._positions: dict[str, int] | None = None

    async def run(self) -> NoReturn:
        """Until cancelled."""
        delay = self._every
        while True:
            try:
                await self.take()
                delay = self._every
            except Exception:
                self._positions = None  # a write that failed may have been made
                delay = min(delay * 2, LONGEST_DELAY)
                log.exception("the gateways' refusals cannot be audited; again in %.1f s", delay)
            await asyncio.sleep(delay)

    async def take(self) -> None:
        """What the files hold now is in the audit when this returns."""
        files = await asyncio.to_thread(_files, self._folder)
        if self._positions is None:
            self._positions = await self._audit.taken()
            for name in self._positions.keys() - {file.name for file in files}:
                await self._forget(name)
        for file in files:
            while await self._take_some(file):
                pass
            if await asyncio.to_thread(_removed, file, self._positions.get(file.name, 0)):
                await self._forget(file.name)

    async def _take_some(self, file: Path) -> bool:
        assert self._positions is not None
        position = self._positions.get(file.name, 0)
        data = await asyncio.to_thread(_whole_lines, file, position)
        if not data:
            return False
        gateway = refusal_lines.gateway_of(file.name)
        found = [entry for line in data.splitlines() if (entry := _entry(line, gateway)) is not None]
        await self._audit.take(file.name, position + len(data), found)
        self._positions[file.name] = position + len(data)
        return True

    async def _forget(self, name: str) -> None:
        assert self._positions is not None
        if self._positions.pop(name, None) is not None:
            await self._audit.forget(name)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == refusal_lines.SUFFIX)
    except FileNotFoundError:
        return []


def _whole_lines(file: Path, position: int) -> bytes:
    """What follows there, up to the end of a line. A line too long to be one of ours is passed over, in pieces."""
    with file.open("rb") as opened:
        opened.seek(position)
        data = opened.read(CHUNK)
    end = data.rfind(b"\n") + 1
    return data[:end] if end or len(data) < CHUNK else data


def _removed(file: Path, position: int) -> bool:
    """Remove it if it is finished. A line that was cut off by a killed gateway, or a full disk, goes with it."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # Asked for with the lock held: nothing is added from here on.
        if os.fstat(opened.fileno()).st_size > position and _whole_lines(file, position):
            return False
        file.unlink()
        return True


def _entry(line: bytes, gateway: str) -> AuditEntry | None:
    try:
        refusal = refusal_lines.parse(line)
        return _audited(refusal, gateway)
    except (ValueError, OverflowError, OSError):  # the last two: a time that is none
        log.warning("a line in the refusals of %s makes no sense and is left out", gateway)
        return None


def _audited(refusal: Refusal, gateway: str) -> AuditEntry:
    return AuditEntry(
        time=datetime.fromtimestamp(refusal.time, UTC),
        actor=refusal.actor,
        verb=refusal.verb,
        kind=refusal.kind,
        namespace=refusal.namespace,
        name=refusal.name,
        allowed=refusal.allowed,
        reason=refusal.reason,
        method=refusal.method,
        path=refusal.path,
        code=refusal.code,
        source=gateway,
        count=refusal.count,
    )
