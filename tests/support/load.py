"""A steady load on the inference API that checks every answer and remembers every failure.

Open loop: requests start at their time whether or not earlier ones have been answered, as real callers do.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

COEFFICIENTS = (1.0, 10.0, 100.0, 1000.0)
"""The model under load answers row · COEFFICIENTS, so each answer tells whose row it was."""


@dataclass(frozen=True, slots=True)
class Failure:
    what: str
    started: float
    connected: float
    """When its connection was opened: a request can only be in flight in a process that had accepted it."""


@dataclass(slots=True)
class Report:
    sent: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Load:
    """`rate` requests a second to `url` until stopped."""

    def __init__(self, url: str, rate: int = 500) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path
        self._rate = rate
        self._idle: list[_Connection] = []
        self._stop = threading.Event()
        self.report = Report()

    async def run(self) -> None:
        begin = time.monotonic()
        tasks: set[asyncio.Task[None]] = set()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) * self._rate)
            while self.report.sent < due:
                self.report.sent += 1
                task = asyncio.create_task(self._one(self.report.sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(0.002)
        await asyncio.gather(*tasks)
        for connection in self._idle:
            await connection.close()

    def stop(self) -> None:
        self._stop.set()

    async def _one(self, number: int) -> None:
        started = time.monotonic()
        connection = None
        try:
            connection = await self._connection()
            row = [number % 10, number // 10 % 10, number // 100 % 10, number // 1000]
            status, body = await connection.post(self._path, row)
        except (OSError, EOFError) as error:
            opened = connection.opened if connection else started
            self.report.failures.append(Failure(repr(error), started, opened))
            if connection is not None:
                await connection.close()
            return
        if status != 200:
            self.report.failures.append(Failure(f"{status} {body[:200]!r}", started, connection.opened))
        else:
            got = json.loads(body)["outputs"][0]["data"]
            want = sum(value * weight for value, weight in zip(row, COEFFICIENTS, strict=True))
            if len(got) == 1 and abs(got[0] - want) < 1e-6:
                self.report.right += 1
            else:
                self.report.wrong.append(f"row {row}: {got} instead of {want}")
        self._idle.append(connection)

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.reader.at_eof() and not connection.writer.is_closing():
                return connection
            await connection.close()
        reader, writer = await asyncio.open_connection(self._host, self._port)
        return _Connection(reader, writer, time.monotonic())


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    opened: float

    async def post(self, path: str, row: list[int]) -> tuple[int, bytes]:
        tensor = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": row}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        header = await self.reader.readuntil(b"\r\n\r\n")
        lines = header.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        answer = await self.reader.readexactly(int(fields["content-length"]))
        if fields.get("connection") == "close":
            await self.close()
        return status, answer

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


@contextmanager
def steady_load(url: str, rate: int = 500) -> Iterator[Load]:
    """Runs the load in a thread while the body does its mischief; afterwards `report` is complete."""
    load = Load(url, rate)
    thread = threading.Thread(target=lambda: asyncio.run(load.run()))
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join()
