"""A gateway on a real socket, runtimes that answer real frames and can be told to misbehave, and a client that counts
bytes. Everything runs in threads of the test process, so a test can look at it and end it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import uvloop

from mizzen.gateway.process import AccessOptions, FeedbackOptions, GatewayLimits, ReportOptions, serve
from mizzen.gateway.telemetry.access_log import AccessLogMode
from mizzen.gateway.telemetry.tracing import TracingConfig
from mizzen.graph.table_types import Plan, Route, Server, Table, encode
from mizzen.protocol.frames import framing, msgpack
from mizzen.web.tls import CertificateFiles

LIMITS = GatewayLimits(
    max_body_bytes=1 << 20, queue_limit=256, queue_bytes=64 << 20, hold_seconds=60.0, stop_timeout=60.0, connections=500
)
DEADLINE = 60.0


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """The first true value of `condition`; a test that never sees one fails."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"never came true: {what or condition}")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE)
        self.loop.close()


class Runtime:
    """Answers with the sum of each row. `hold` keeps answers back, `poison` is an input name that kills it."""

    def __init__(self, path: str, hello: dict[str, Any] | None = None) -> None:
        self.path = path
        self.batches: list[list[Any]] = []
        self.told: list[dict[str, Any]] = []
        """Of who sent each of them."""
        self.held = False
        self.poison = "poison"
        self.hello = {"state": "ready", "pid": os.getpid(), "framework": "fake", "inputs": [], "outputs": [],
                       "strict": False, "batch": True} | (hello or {})  # fmt: skip
        self._owed: list[tuple[asyncio.StreamWriter, int, list[Any]]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._thread = LoopThread(asyncio.new_event_loop())
        self.up()

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    @property
    def connections(self) -> int:
        return len(self._writers)

    @property
    def items(self) -> int:
        return sum(map(len, self.batches))

    def up(self) -> None:
        self._thread.run(self._up())

    def down(self) -> None:
        """As if it were killed: no goodbye, nothing answered, nobody listening."""
        self._thread.run(self._down())

    def drain(self) -> None:
        self._thread.run(self._drain())

    def release(self) -> None:
        """Answer what is owed, and whatever comes."""
        self._thread.run(self._release())

    def say(self, data: bytes) -> None:
        self._thread.run(self._say(data))

    def close(self) -> None:
        self.down()
        self._thread.close()

    async def _up(self) -> None:
        # Not asyncio's server: closed while it accepts, that one forgets the connection and never closes it.
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.setblocking(False)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._thread.loop.add_reader(self._listener, self._accept)

    async def _down(self) -> None:
        await self._stop_listening()
        for writer in list(self._writers):
            writer.transport.abort()
        self._owed.clear()
        await asyncio.gather(*self._serving)

    async def _drain(self) -> None:
        await self._stop_listening()
        await self._say(framing.encode(framing.DRAIN, 0))

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._thread.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            os.unlink(self.path)
        await asyncio.gather(*self._opening)

    def _accept(self) -> None:
        assert self._listener is not None
        with suppress(BlockingIOError):
            peer, _ = self._listener.accept()
            self._keep(self._open(peer), self._opening)

    async def _open(self, peer: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=peer)
        self._writers.add(writer)
        writer.write(framing.encode(framing.HELLO, 0, msgpack.pack(self.hello)))
        self._keep(self._serve(reader, writer), self._serving)

    def _keep(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        task = self._thread.loop.create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _release(self) -> None:
        self.held = False
        owed, self._owed = self._owed, []
        for writer, id_, items in owed:
            self._answer(writer, id_, items)

    async def _say(self, data: bytes) -> None:
        for writer in self._writers:
            writer.write(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut = framing.FrameReader()
        try:
            while data := await reader.read(1 << 20):
                for frame in cut.feed(data):
                    self._take(writer, frame)
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _take(self, writer: asyncio.StreamWriter, frame: framing.ReceivedFrame) -> None:
        items = msgpack.unpack(frame.body)
        self.told.append(items.pop() if isinstance(items[-1], dict) else {})
        self.batches.append(items)
        if any(tensor[0] == self.poison for inputs, *more in items if more for tensor in inputs):
            for other in self._writers:
                other.transport.abort()
        elif self.held:
            self._owed.append((writer, frame.id, items))
        else:
            self._answer(writer, frame.id, items)

    def _answer(self, writer: asyncio.StreamWriter, id_: int, items: list[Any]) -> None:
        writer.write(framing.encode(framing.REPLY, id_, msgpack.pack([1, self.answers(items)])))

    def answers(self, items: list[Any]) -> list[tuple[int, bytes]]:
        return [_row_sums(item[0]) if len(item) > 1 else _predictions(item[0]) for item in items]


def _row_sums(inputs: list[Any]) -> tuple[int, bytes]:
    name, _, shape, _, data = inputs[0]
    values = json.loads(data)
    if name == "fail":
        return framing.MODEL_FAILED, b"the model raised"
    if len(values) != shape[0] * shape[1]:
        return framing.BAD_INPUT, b"data does not fit its shape"
    sums = [sum(values[row * shape[1] : (row + 1) * shape[1]]) for row in range(shape[0])]
    return framing.OK, json.dumps([{"name": "sum", "shape": [shape[0]], "datatype": "FP64", "data": sums}]).encode()


def _predictions(body: bytes) -> tuple[int, bytes]:
    return framing.OK, json.dumps({"predictions": [sum(row) for row in json.loads(body)["instances"]]}).encode()


@dataclass
class Gateway:
    """`serve` in a thread."""

    listener: socket.socket
    table: Path
    limits: GatewayLimits = LIMITS
    anonymous: bool = True
    loopback: bool = True
    control: str = ""
    wall: Callable[[], float] = time.time
    name: str = "gateway-0"
    logged: AccessLogMode = "errors"
    tls: CertificateFiles | None = None
    origins: tuple[str, ...] = ()
    sampled: float = 0.0
    traced: TracingConfig | None = None
    grpc: socket.socket | None = None
    """Where it answers gRPC, if it does."""
    _thread: LoopThread = field(init=False)
    _stopping: asyncio.Event = field(init=False)

    def __post_init__(self) -> None:
        self._thread = LoopThread(uvloop.new_event_loop())
        self._stopping = asyncio.Event()
        guard = AccessOptions(
            access=self.table.with_name("access.json"),
            refusals=self.table.with_name("refusals"),
            name=self.name,
            loopback=self.loopback,
            anonymous=self.anonymous,
            origins=self.origins,
            sampled=self.sampled,
            rates=self.table.with_name("rates"),
            quotas=self.table.with_name("quotas.db"),
        )
        records = ReportOptions(
            counts=self.table.with_name("counts"),
            tables=self.table.with_name("tables"),
            demand=self.table.with_name("demand"),
            access_log=self.access_log,
            logged=self.logged,
        )
        learning = FeedbackOptions(
            state=self.table.with_name("state.db"),
            word=self.table.with_name("selection"),
            records=self.table.with_name("records"),
        )
        self.done = asyncio.run_coroutine_threadsafe(
            serve(
                socket=self.listener.dup(), table=self.table, guard=guard, limits=self.limits, records=records,
                learning=learning,
                stopping=self._stopping, wall=self.wall, control=self.control, tls=self.tls, traced=self.traced,
                grpc_socket=None if self.grpc is None else self.grpc.dup(),
            ),
            self._thread.loop,
        )  # fmt: skip

    @property
    def access_log(self) -> Path:
        return self.table.with_name(f"access.{self.name}.log")

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def grpc_port(self) -> int:
        assert self.grpc is not None
        return int(self.grpc.getsockname()[1])

    def stop(self) -> None:
        self._thread.loop.call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        self.stop()
        try:
            self.done.result(DEADLINE)
        finally:
            self._thread.close()

    def client(self) -> Client:
        return Client(self.port)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        with self.client() as client:
            client.send(request(method, path, body, **headers))
            return client.answer()

    def infer(self, row: list[float], name: str = "m", **headers: str) -> Response:
        return self.ask("POST", f"/v2/models/{name}/infer", body_of(row), **headers)

    def figure(self, name: str) -> float:
        """The sum of all samples of this name."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))

    def wait_ready(self, name: str = "m") -> None:
        until(lambda: self.ask("GET", f"/v2/models/{name}/ready").status == 200, f"{name} is ready")


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert list(self.json) == ["error"]
        return str(self.json["error"])

    @property
    def sums(self) -> list[float]:
        assert self.status == 200, self
        data: list[float] = self.json["outputs"][0]["data"]
        return data


class Client:
    """One connection, and no more cleverness than needed to cut answers apart."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, *, head: bool = False) -> Response:
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        top, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = 0 if head else int(headers.get("content-length", 0))
        while len(self._buffer) < length:
            self._more()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Response(int(lines[0].split()[1]), headers, body)

    def closed(self) -> bool:
        """Waits for the end of the connection: True when nothing came before it."""
        try:
            return not self._buffer and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(f"closed after {self._buffer!r}")
        self._buffer += data


def request(method: str, path: str, body: bytes = b"", version: str = "1.1", **headers: str) -> bytes:
    given = {"Host": "127.0.0.1"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body or method == "POST":
        given.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in given.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def body_of(row: list[float], name: str = "x", **more: Any) -> bytes:
    tensor = {"name": name, "shape": [1, len(row)], "datatype": "FP64", "data": row}
    return json.dumps({"inputs": [tensor], **more}).encode()


def infer_request(row: list[float], model: str = "m", **headers: str) -> bytes:
    return request("POST", f"/v2/models/{model}/infer", body_of(row), **headers)


def table_of(*addresses: str, serial: int = 1, version: str = "1", **server: Any) -> Table:
    """The name `m`, served by one server."""
    id_ = server.pop("id", "default/m")
    plan = Plan(servers=(id_,))
    return Table(
        serial=serial,
        servers=(Server(id=id_, model="m", version=version, addresses=addresses, **server),),
        routes=(Route(namespace="default", name="m", version=version, plan=plan, versions={version: plan}),),
    )


def publish(path: Path, table: Table) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(encode(table))
    os.replace(fresh, path)


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        yield listener


@contextmanager
def short_folder() -> Iterator[Path]:
    """pytest's own folders can be too long for the path of a unix socket."""
    with tempfile.TemporaryDirectory(prefix="mz-") as folder:
        yield Path(folder)
