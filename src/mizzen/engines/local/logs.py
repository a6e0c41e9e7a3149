"""The output of replicas, read and followed in their log files, and the retention of those files."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from mizzen.engines.local.process_specs import split_key
from mizzen.rotated_log import LogReader

KEEP = 20
"""Deleted workloads whose logs are kept: a failed deployment is deleted at once, and its log says why it failed."""

FIRST = "0-0"
"""The position before the first line of a log that was never rotated."""

_POLL_INTERVAL = 0.2


async def read(
    find: Callable[[], Mapping[int, Path]],
    *,
    tail: int | None,
    follow: Callable[[], bool],
    places: dict[int, str] | None = None,
) -> AsyncIterator[bytes]:
    """Whole lines, replica after replica; then, while `follow` returns true, new lines as they are written.

    `find` returns the log of each replica by index. Lines start with `[index] ` when there are several replicas.
    `places`: as in `Engine.logs`.
    """
    readers: dict[int, LogReader] = {}
    resumed = bool(places)
    while True:
        live = follow()  # checked before reading, so that the last output is read, too
        for index, path in find().items():
            if index not in readers:
                # The log of a replica that started while no reader was connected is read from its first line.
                at = (places or {}).get(index, FIRST if resumed else "")
                readers[index] = await asyncio.to_thread(LogReader, path, tail, at)
                if places is not None:
                    places[index] = readers[index].position() or at or FIRST
                    yield b""
        for index, reader in readers.items():
            prefix = b"[%d] " % index if len(readers) > 1 else b""
            while chunk := await asyncio.to_thread(reader.read_lines):
                if places is not None:
                    places[index] = reader.position() or places[index]
                yield _with_prefix(chunk, prefix)
            if not live and (rest := reader.read_rest()):
                yield _with_prefix(rest, prefix)
        if not live:
            return
        await asyncio.sleep(_POLL_INTERVAL)


def prune(folder: Path, lives: Callable[[str], bool], keep: int = KEEP) -> None:
    """Remove the logs of deleted workloads, except for the most recently written ones. `lives` takes a uid."""
    logs: dict[str, list[Path]] = defaultdict(list)
    for path in folder.glob("[!.]*.log*"):
        found = split_key(path.name.partition(".log")[0])
        if found is not None:
            logs[found[0]].append(path)
    newest = {uid: max(map(_write_time, paths)) for uid, paths in logs.items() if not lives(uid)}
    for uid in sorted(newest, key=newest.__getitem__, reverse=True)[keep:]:
        for path in logs[uid]:
            path.unlink(missing_ok=True)


def _with_prefix(chunk: bytes, prefix: bytes) -> bytes:
    if not prefix:
        return chunk
    return b"".join(prefix + line for line in chunk.splitlines(keepends=True))


def _write_time(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except FileNotFoundError:
        return 0.0
