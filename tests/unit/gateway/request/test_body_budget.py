"""Bodies on their way in are counted as long as they are kept, and no longer."""

from __future__ import annotations

import asyncio
import itertools
import time
import tracemalloc
from pathlib import Path
from typing import Any

import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from mizzen.access.policy import Target
from mizzen.gateway.access.authorizer import Authorizer
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.http.asgi_app import App
from mizzen.gateway.http.exchange import GatewayConnections
from mizzen.gateway.http.fast_protocol import FastProtocol
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.request.body_budget import MAX_SMALL_PIECES, SMALL_PIECE, BodyBudget, BodyReservation, append_piece
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.route_table import Routes
from mizzen.gateway.telemetry.access_log import AccessLog
from mizzen.gateway.telemetry.counters import Counters, Metrics
from mizzen.web.connection_limits import Timeouts
from tests.support.gateway.harness import body_of, request

LIMIT, LARGEST, CONNECTIONS = 1000, 900, 4
PATHS = ("/v2/models/m/infer", "/v2/models/m/infer?by=asgi")


def service() -> GatewayContext:
    """`m`, which leaves everything unanswered."""
    made = GatewayContext(
        max_body_bytes=LARGEST,
        intake=BodyBudget(LIMIT),
        metrics=Metrics(),
        clock=time.monotonic,
        wall=time.time,
        new_id=lambda: b"an-id",
        permits=Authorizer(None, anonymous=True, wall=time.time),
        refusals=RefusalLog(Path("nowhere"), "g", wall=time.time, call_later=lambda *_: None),
        cors=Cors(),
        access_log=AccessLog(Path("nowhere"), "g", "off", wall=time.time, call_later=lambda *_: None),
    )
    target = Target("default", "Model", "m", models=frozenset({"m"}))
    endpoint = Endpoint("default", "m", "1", None, target, (), lambda call: None, 10.0, b"", Counters(), bytes, V2)
    made.replace(routes=Routes(hot={PATHS[0].encode(): endpoint}))
    return made


class Wire(asyncio.Transport):
    """The other side of a connection, which takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.said += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def bodies() -> st.SearchStrategy[bytes]:
    """Requests, whole or not, good or not."""
    sizes = st.integers(0, 10) | st.integers(LARGEST - 200, LARGEST + 10)
    whole = st.builds(lambda path, size: request("POST", path, b" " * size), st.sampled_from(PATHS), sizes)
    good = st.builds(lambda size: request("POST", PATHS[0], body_of([1.0] * size)), st.integers(1, 50))
    chunked = sizes.map(
        lambda size: request("POST", PATHS[0], b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size), Content_Length="",
                             Transfer_Encoding="chunked")
    )  # fmt: skip
    return st.one_of(whole, good, chunked, st.just(b"not HTTP\r\n\r\n"))


CLOSE = -1
steps = st.lists(st.tuples(st.integers(0, CONNECTIONS - 1), st.sampled_from([CLOSE, 50, 400, 600, 700])), max_size=60)


@given(st.lists(bodies(), min_size=1, max_size=6), steps)
def test_whatever_comes_and_goes_in_whatever_order_nothing_stays_counted(
    sent: list[bytes], steps: list[tuple[int, int]]
) -> None:
    asyncio.run(_play(sent, steps))


async def _play(sent: list[bytes], steps: list[tuple[int, int]]) -> None:
    here = service()
    config = uvicorn.Config(App(here, list), interface="asgi3", lifespan="off", ws="none", log_config=None)
    config.load()
    front = GatewayConnections(here, loopback=True, patience=Timeouts(), most=100)
    state = ServerState()

    def connect() -> FastProtocol:
        protocol = FastProtocol(config, state, {}, front=front)
        protocol.connection_made(Wire())
        return protocol

    def kept() -> int:
        return sum(len(part) for protocol in state.connections for part in getattr(protocol, "_body"))  # noqa: B009

    connections = [connect() for _ in range(CONNECTIONS)]
    left = [b"".join(itertools.islice(itertools.cycle(sent), n, n + len(sent))) for n in range(CONNECTIONS)]
    for which, step in steps:
        if step == CLOSE:
            connections[which].connection_lost(None)
            connections[which] = connect()
        else:
            connections[which].data_received(left[which][:step])
            left[which] = left[which][step:]
        await asyncio.sleep(0)
        assert here.intake.bytes >= kept()
        assert here.intake.bytes <= LIMIT
    for protocol in connections:
        protocol.connection_lost(None)
    await asyncio.gather(*state.tasks)
    assert here.intake.bytes == 0


def test_one_body_alone_fits_whatever_its_size() -> None:
    intake = BodyBudget(10)
    first, second = BodyReservation(intake), BodyReservation(intake)
    assert first.grow(100)
    assert not second.grow(1)
    second.end()
    assert first.grow(200)
    first.end()
    assert second.grow(11)
    second.end()
    assert intake.bytes == 0


@given(st.lists(st.binary(max_size=3) | st.integers(SMALL_PIECE - 1, SMALL_PIECE + 1).map(bytes), max_size=60))
def test_pieces_are_kept_in_their_order(pieces: list[bytes]) -> None:
    kept: list[bytes | bytearray] = []
    for piece in pieces:
        append_piece(kept, piece)
    assert b"".join(kept) == b"".join(pieces)
    assert len(kept) <= MAX_SMALL_PIECES + 2 * sum(len(piece) >= SMALL_PIECE for piece in pieces) + 1


def test_small_pieces_of_a_hot_request_are_kept_as_one() -> None:
    asyncio.run(_drip())


async def _drip() -> None:
    here = service()
    config = uvicorn.Config(App(here, list), interface="asgi3", lifespan="off", ws="none", log_config=None)
    config.load()
    protocol = FastProtocol(
        config, ServerState(), {}, front=GatewayConnections(here, loopback=True, patience=Timeouts(), most=100)
    )
    protocol.connection_made(Wire())
    protocol.data_received(request("POST", PATHS[0], Content_Length=str(LARGEST)))
    for _ in range(LARGEST - 1):
        protocol.data_received(b" ")
    assert len(getattr(protocol, "_body")) <= MAX_SMALL_PIECES + 1  # noqa: B009
    protocol.connection_lost(None)


def test_small_pieces_of_any_other_request_take_little_memory() -> None:
    """Each by itself would take 40 bytes, at least."""
    pieces = 30_000
    left = iter(range(pieces))

    async def receive() -> Any:
        at = next(left)
        return {
            "type": "http.request",
            "body": bytes(bytearray(b"{}" if not at else b"  ")),
            "more_body": at < pieces - 1,
        }

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    here = service()
    here.intake.limit = 10 * pieces
    scope: Any = {"type": "http", "method": "POST", "raw_path": b"/v2/repository/index", "headers": []}
    tracemalloc.start()
    try:
        asyncio.run(App(here, list)(scope, receive, send))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said[0]["status"] == 200
    assert peak < 20 * pieces
