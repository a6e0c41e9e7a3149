"""A process that asks a model so many times a second, and checks every answer. `load` starts it and reads what it says.

Open loop: requests start at their time whether or not earlier ones have been answered, as real callers do. One that
comes to its turn late is sent at once, so the schedule is kept as long as the machine can keep it at all; how many were
sent in how many seconds is said at the end. Connections are kept open. When there are many and none is idle, a request
goes out behind others.

    python -m tests.support.caller URL RATE

writes JSON lines until its input ends, then waits for what is unanswered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

COEFFICIENTS = (1.0, 10.0, 100.0, 1000.0)
"""The model under load answers row · COEFFICIENTS, so each answer tells whose row it was."""
MOST_CONNECTIONS = 256
TICK, TELL = 0.002, 0.05


class Caller:
    def __init__(self, url: str, rate: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.path = parts.path
        self.idle: list[Connection] = []
        self.open: set[Connection] = set()
        self.right = 0
        self.sent = 0
        self.latest = 0.0
        """Most seconds that a request was sent after its time."""
        self.news: dict[str, list[Any]] = {"wrong": [], "failures": []}
        self._rate = rate
        self._ended = 0
        self._stopping = asyncio.Event()
        self._over = asyncio.Event()

    async def run(self) -> float:
        """Until its input ends and all is answered. Returns the seconds in which requests were sent."""
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._stopping.set)
        begin, told = time.monotonic(), 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            due = int((now - begin) * self._rate)
            if self.sent < due:
                self.latest = max(self.latest, now - begin - (self.sent + 1) / self._rate)
            while self.sent < due:
                self.sent += 1
                self._send(self.sent)
            if now - told > TELL:
                told = now
                self.tell()
            await asyncio.sleep(TICK)
        seconds = time.monotonic() - begin
        self._look()
        await self._over.wait()
        for connection in tuple(self.open):
            connection.close()
        return seconds

    def tell(self, **more: float) -> None:
        sys.stdout.write(json.dumps({"sent": self.sent, "right": self.right, **self.news, **more}) + "\n")
        sys.stdout.flush()
        self.news = {"wrong": [], "failures": []}

    def answered(self, wrong: str = "") -> None:
        if wrong:
            self.news["wrong"].append(wrong)
        else:
            self.right += 1
        self._end()

    def failed(self, what: str, started: float, connected: float) -> None:
        self.news["failures"].append((what, started, connected))
        self._end()

    def _end(self) -> None:
        self._ended += 1
        self._look()

    def _look(self) -> None:
        if self._stopping.is_set() and self._ended == self.sent:
            self._over.set()

    def _send(self, number: int) -> None:
        if self.idle:
            connection = self.idle.pop()
        elif len(self.open) < MOST_CONNECTIONS:
            connection = Connection(self)
            self.open.add(connection)
        else:
            connection = min(self.open, key=lambda each: len(each.owed))
        connection.ask(number)


class Connection(asyncio.Protocol):
    def __init__(self, caller: Caller) -> None:
        self.opened = time.monotonic()
        self.owed: deque[tuple[int, float]] = deque()
        """Requests without an answer: their numbers, and when they started."""
        self._caller = caller
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._data = b""
        self._opening = asyncio.ensure_future(self._open())

    def ask(self, number: int) -> None:
        self.owed.append((number, time.monotonic()))
        tensor = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": row_of(number)}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST {self._caller.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        if self._transport is None:
            self._unsent.append(head.encode() + body)
        else:
            self._transport.write(head.encode() + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, self._caller.host, self._caller.port)
        except OSError as error:
            self.connection_lost(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.opened = time.monotonic()
        self._transport.writelines(self._unsent)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while True:
            head, found, rest = self._data.partition(b"\r\n\r\n")
            if not found:
                return
            lines = head.decode("latin-1").lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:])
            length = int(fields["content-length"])
            if len(rest) < length:
                return
            self._data = rest[length:]
            self._check(int(lines[0].split()[1]), rest[:length])
            if fields.get("connection") == "close":
                self._caller.open.discard(self)
                self.close()
                return
            if not self.owed:
                self._caller.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._caller.open.discard(self)
        if self in self._caller.idle:
            self._caller.idle.remove(self)
        for _, started in self.owed:
            self._caller.failed(repr(exc) if exc else "closed without an answer", started, self.opened)
        self.owed.clear()

    def _check(self, status: int, body: bytes) -> None:
        number, started = self.owed.popleft()
        if status != 200:
            self._caller.failed(f"{status} {body[:200].decode(errors='replace')}", started, self.opened)
            return
        row = row_of(number)
        got = json.loads(body)["outputs"][0]["data"]
        want = sum(value * weight for value, weight in zip(row, COEFFICIENTS, strict=True))
        if len(got) == 1 and abs(got[0] - want) < 1e-6:
            self._caller.answered()
        else:
            self._caller.answered(wrong=f"row {row}: {got} instead of {want}")


def row_of(number: int) -> list[int]:
    """No two numbers have the same answer."""
    return [number % 10, number // 10 % 10, number // 100 % 10, number // 1000]


async def main() -> None:
    caller = Caller(sys.argv[1], int(sys.argv[2]))
    seconds = await caller.run()
    caller.tell(seconds=seconds, latest=caller.latest)


if __name__ == "__main__":
    uvloop.run(main())
