"""Gateways' refusals get into the audit exactly once, whoever is killed when."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

from mizzen.access import refusal_lines
from mizzen.access.refusal_lines import Refusal
from mizzen.controllers.refusal_ingest import RefusalIngest
from mizzen.errors import Unavailable
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.stores.records.protocol import AuditEntry, AuditQuery
from mizzen.stores.sqlite.store import SqliteStore

READER = """
import asyncio, itertools, sys
from datetime import UTC, datetime
from pathlib import Path
from mizzen.controllers.refusal_ingest import RefusalIngest
from mizzen.stores.sqlite.store import SqliteStore

async def main(folder):
    store = await SqliteStore.open(folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: "id")
    print("reading", flush=True)
    await RefusalIngest(store.audit, folder / "refusals", every=0.001).run()

asyncio.run(main(Path(sys.argv[1])))
"""
WRITER = """
import sys, time
from pathlib import Path
from mizzen.gateway.access.refusal_log import RefusalLog

folder, name, number = Path(sys.argv[1]) / "refusals", sys.argv[2], int(sys.argv[3])
book = RefusalLog(folder, name, wall=time.time, call_later=lambda *_: None, file_bytes=4096)
for _ in sys.stdin:
    book.flush()
    book.note(403, "no", actor="ann", verb="predict", kind="Model", name=f"{name}/{number}")
    print(number, flush=True)
    number += 1
"""


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStore]:
    ids = itertools.count()
    store = await SqliteStore.open(
        folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: f"id-{next(ids)}"
    )
    try:
        yield store
    finally:
        await store.close()


def book_of(folder: Path, gateway: str = "gateway-0", **more: Any) -> RefusalLog:
    return RefusalLog(folder / "refusals", gateway, wall=lambda: 1000.5, call_later=lambda *_: None, **more)


async def audited(store: SqliteStore) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    while page := await store.audit.entries(AuditQuery(), limit=1000, before=found[-1].number if found else None):
        found += page
    return found


def in_a_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


@in_a_loop
async def test_an_entry_says_all_that_the_gateway_said(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        intake = RefusalIngest(store.audit, tmp_path / "refusals")
        await intake.ingest()
        assert await audited(store) == [], "no folder yet"
        book = book_of(tmp_path, "gateway-7")
        book.note(
            403, "why", actor="ann", verb="predict", kind="Model", namespace="lab", name="iris", method="POST",
            path="/v2/models/iris/infer",
        )  # fmt: skip
        await intake.ingest()
        await intake.ingest()
        assert await audited(store) == [
            AuditEntry(
                datetime.fromtimestamp(1000.5, UTC), "ann", "predict", "Model", "lab", "iris", False, "why", "POST",
                "/v2/models/iris/infer", 403, "gateway-7", 1, 1,
            )
        ]  # fmt: skip
        assert len(list((tmp_path / "refusals").iterdir())) == 1, "it is still written to"
        book.close()
        await intake.ingest()
        assert list((tmp_path / "refusals").iterdir()) == []
        assert await store.audit.read_positions() == {}


@in_a_loop
async def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "refusals"
    folder.mkdir()
    good = refusal_lines.encode_line(Refusal(time=1.0, actor="ann", verb="read", kind="Model", reason="no", code=403))
    odd = refusal_lines.encode_line(Refusal(time=1e300, actor="ann", verb="read", kind="Model", reason="no", code=403))
    (folder / "gateway-0.1.jsonl").write_bytes(good + b"{\n" + odd + b"x" * 600_000 + b"\n" + good + b'{"time": 3')
    (folder / "notes.txt").write_text("not ours")
    async with opened(tmp_path) as store:
        await RefusalIngest(store.audit, folder).ingest()
        assert len(await audited(store)) == 2
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]


async def all_taken(folder: Path) -> None:
    async with asyncio.timeout(60):
        while list((folder / "refusals").iterdir()):  # noqa: ASYNC110 - a folder tells nobody that it changed
            await asyncio.sleep(0.005)


async def cancelled(work: asyncio.Task[None]) -> None:
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


class Failing:
    """An audit that says it failed, before or after it did what it was told."""

    def __init__(self, store: SqliteStore, rng: random.Random) -> None:
        self._audit = store.audit
        self._rng = rng
        self.failed = 0

    async def read_positions(self) -> dict[str, int]:
        return await self._audit.read_positions()

    async def take(self, file: str, position: int, entries: Any) -> None:
        entries = list(entries)
        whether = self._rng.random()
        if whether < 0.4:
            self.failed += 1
            raise Unavailable("before")
        await self._audit.take(file, position, entries)
        if whether < 0.8:
            self.failed += 1
            raise Unavailable("after")

    async def forget(self, file: str) -> None:
        if self._rng.random() < 0.5:
            raise Unavailable("forgetting")
        await self._audit.forget(file)


@in_a_loop
async def test_a_failing_store_doubles_and_loses_nothing(tmp_path: Path) -> None:
    book = book_of(tmp_path, file_bytes=1024)
    async with opened(tmp_path) as store:
        failing = Failing(store, random.Random(3))
        work = asyncio.create_task(RefusalIngest(failing, tmp_path / "refusals", every=0.0).run())
        for number in range(100):
            book.flush()
            book.note(403, "no", actor="ann", verb="predict", kind="Model", name=str(number))
            await asyncio.sleep(0)
        book.close()
        await all_taken(tmp_path)
        await cancelled(work)
        assert failing.failed
        assert Counter(entry.name for entry in await audited(store)) == Counter(map(str, range(100)))


def test_killed_readers_and_writers_double_and_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    promised: set[str] = set()
    with contextlib.ExitStack() as stack:

        def start(program: str, *words: str) -> subprocess.Popen[bytes]:
            child = subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            stack.callback(end, child)
            return child

        next_number = {"gateway-0": 0, "gateway-1": 0}
        for _ in range(4):
            reader = start(READER)
            writers = {name: start(WRITER, name, str(number)) for name, number in next_number.items()}
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"reading\n"
            for name, writer in writers.items():
                assert writer.stdin is not None
                assert writer.stdout is not None
                writer.stdin.write(b"\n" * 100)
                writer.stdin.flush()
                lines = [int(writer.stdout.readline()) for _ in range(rng.randrange(20, 80))]
                if rng.random() < 0.5:
                    end(reader)
                lines += map(int, end(writer).split())
                promised |= {f"{name}/{number}" for number in lines}
                next_number[name] = lines[-1] + 2  # one more may have been written, and not told
            end(reader)

    async def finish() -> Counter[str]:
        async with opened(tmp_path) as store:
            await RefusalIngest(store.audit, tmp_path / "refusals").ingest()
            return Counter(entry.name for entry in await audited(store) if entry.name)

    found = asyncio.run(finish())
    assert set(found) >= promised
    assert max(found.values()) == 1
    assert list((tmp_path / "refusals").iterdir()) == []


def end(child: subprocess.Popen[bytes]) -> bytes:
    """What it still said."""
    if child.returncode is not None:
        return b""
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    with child.stdout:
        return child.stdout.read()  # with what was read ahead, which `communicate` would leave out


@in_a_loop
async def test_a_file_that_was_just_begun_is_not_taken_for_a_finished_one(tmp_path: Path) -> None:
    """The reader may find it before the writer has locked it; whatever comes of that, nothing is lost."""
    async with opened(tmp_path) as store:
        intake = RefusalIngest(store.audit, tmp_path / "refusals", every=0.0)
        work = asyncio.create_task(intake.run())

        def write() -> None:
            for number in range(100):
                while len(list((tmp_path / "refusals").glob("*"))) > 8:
                    time.sleep(0.001)
                book = book_of(tmp_path)
                book.note(403, "no", actor="ann", verb="predict", kind="Model", name=str(number))
                book.close()

        await asyncio.to_thread(write)
        await all_taken(tmp_path)
        await cancelled(work)
        names = Counter(entry.name for entry in await audited(store))
        assert names == Counter(map(str, range(100)))


@in_a_loop
async def test_what_the_store_knows_of_files_that_are_gone_is_forgotten(tmp_path: Path) -> None:
    name = "gateway-0.1.jsonl"
    async with opened(tmp_path) as store:
        await store.audit.take(name, 17, ())
        assert await store.audit.read_positions() == {name: 17}
        await RefusalIngest(store.audit, tmp_path / "refusals").ingest()
        assert await store.audit.read_positions() == {}
