"""Ingest of the requests that gateways rejected into the audit log: each line of their files exactly once.

This holds whichever process is killed at any time: the store keeps the read position of a file and writes it in one
transaction with the entries. A file is removed when all of it was read and its lock shows that no gateway writes to it
any more. `access/refusal_lines.py` defines the format of the files.
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
"""Bytes of a file that are read at once: some hundred lines, and many times the longest line."""
LONGEST_DELAY = 5.0

log = logging.getLogger(__name__)


class RefusalIngest:
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
                await self.ingest()
                delay = self._every
            except Exception:
                self._positions = None  # a failed write may have been committed
                delay = min(delay * 2, LONGEST_DELAY)
                log.exception("rejected requests cannot be written to the audit log; retrying in %.1f s", delay)
            await asyncio.sleep(delay)

    async def ingest(self) -> None:
        """Write all that the files hold now to the audit log."""
        files = await asyncio.to_thread(_list_files, self._folder)
        if self._positions is None:
            self._positions = await self._audit.read_positions()
            for name in self._positions.keys() - {file.name for file in files}:
                await self._forget(name)
        for file in files:
            while await self._ingest_chunk(file):
                pass
            if await asyncio.to_thread(_remove_if_finished, file, self._positions.get(file.name, 0)):
                await self._forget(file.name)

    async def _ingest_chunk(self, file: Path) -> bool:
        assert self._positions is not None
        position = self._positions.get(file.name, 0)
        data = await asyncio.to_thread(_read_lines, file, position)
        if not data:
            return False
        gateway = refusal_lines.gateway_of(file.name)
        found = [entry for line in data.splitlines() if (entry := _parse_entry(line, gateway)) is not None]
        await self._audit.take(file.name, position + len(data), found)
        self._positions[file.name] = position + len(data)
        return True

    async def _forget(self, name: str) -> None:
        assert self._positions is not None
        if self._positions.pop(name, None) is not None:
            await self._audit.forget(name)


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == refusal_lines.SUFFIX)
    except FileNotFoundError:
        return []


def _read_lines(file: Path, position: int) -> bytes:
    """The bytes from there up to the end of a line. A line too long to be one of ours is skipped in chunks."""
    with file.open("rb") as opened:
        opened.seek(position)
        data = opened.read(CHUNK)
    end = data.rfind(b"\n") + 1
    return data[:end] if end or len(data) < CHUNK else data


def _remove_if_finished(file: Path, position: int) -> bool:
    """Remove a finished file. A last line that a killed gateway or a full disk cut off is lost with it."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # Checked with the lock held: no gateway appends from here on.
        if os.fstat(opened.fileno()).st_size > position and _read_lines(file, position):
            return False
        file.unlink()
        return True


def _parse_entry(line: bytes, gateway: str) -> AuditEntry | None:
    try:
        refusal = refusal_lines.parse_line(line)
        return _to_audit_entry(refusal, gateway)
    except (ValueError, OverflowError, OSError):  # the last two: an invalid time
        log.warning("skipping an invalid line in the refusals of %s", gateway)
        return None


def _to_audit_entry(refusal: Refusal, gateway: str) -> AuditEntry:
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
