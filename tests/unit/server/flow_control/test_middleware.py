"""The middleware gives every slot and stream back: after responses, errors, disconnects, timeouts and a stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import wraps
from types import SimpleNamespace
from typing import Any, ParamSpec

import pytest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from mizzen.access.policy import Actor
from mizzen.errors import TooManyRequests, Unavailable
from mizzen.server.flow_control.limits import FlowControl, FlowLimits
from mizzen.server.flow_control.middleware import FlowControlMiddleware

ADMIN, ADA, BEN = Actor("admin", admin=True), Actor("ada"), Actor("ben")
LIMITS = FlowLimits(reading=2, mutating=2, queued=3, streams=2)
P = ParamSpec("P")
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Call:
    """One request, as a server would run it."""

    def __init__(
        self, control: FlowControl, app: App, actor: Actor = ADA, method: str = "GET", body: tuple[bytes, ...] = (b"",)
    ) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.reading = asyncio.Event()
        self.reading.set()
        for part in body:
            self.inbox.put_nowait({"type": "http.request", "body": part, "more_body": part is not body[-1]})
        state = {"caller": SimpleNamespace(actor=actor)}
        scope = {"type": "http", "method": method, "path": "/x", "headers": [], "state": state}
        self.task = asyncio.ensure_future(FlowControlMiddleware(app, control)(scope, self.inbox.get, self.send))

    async def send(self, message: Message) -> None:
        await self.reading.wait()
        self.sent.append(message)

    def disconnect(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0


class Gate:
    """An app whose requests execute until the gate is open."""

    def __init__(self, response: Response | None = None) -> None:
        self.open = asyncio.Event()
        self.executing = 0
        self._response = response or JSONResponse({})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.executing += 1
        try:
            await self.open.wait()
        finally:
            self.executing -= 1
        await self._response(scope, receive, send)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def assert_free(control: FlowControl) -> None:
    assert all(not queue.actors and not queue.executing for queue in control.queues.values())
    assert not control.streams
    assert not +control.open_streams


def control_of(limits: FlowLimits = LIMITS) -> FlowControl:
    return FlowControl(limits, exempt=ADMIN)


@in_loop
async def test_requests_beyond_the_slots_wait_and_those_beyond_the_queue_are_refused() -> None:
    control, gate = control_of(), Gate()
    calls = [Call(control, gate) for _ in range(6)]
    await settle()
    assert gate.executing == LIMITS.reading
    [refused] = [call for call in calls if call.task.done()]
    with pytest.raises(TooManyRequests):
        refused.task.result()
    gate.open.set()
    await asyncio.gather(*(call.task for call in calls if call is not refused))
    assert [call.status for call in calls if call is not refused] == [200] * 5
    assert control.rejections == {("user", "reading"): 1}
    assert control.waits == {("user", "reading"): 3}
    assert_free(control)


@in_loop
async def test_another_actor_and_the_writes_of_the_same_actor_do_not_wait() -> None:
    control, gate, free = control_of(), Gate(), Gate()
    free.open.set()
    burst = [Call(control, gate) for _ in range(5)]
    await settle()
    others = [Call(control, free, BEN), Call(control, free, ADMIN), Call(control, free, ADA, "POST")]
    await asyncio.gather(*(call.task for call in others))
    assert [call.status for call in others] == [200] * 3
    assert not any(call.task.done() for call in burst)
    gate.open.set()
    await asyncio.gather(*(call.task for call in burst))
    assert_free(control)


@in_loop
async def test_the_exempt_actor_is_never_refused() -> None:
    control, gate = control_of(), Gate()
    calls = [Call(control, gate, ADMIN) for _ in range(50)]
    await settle()
    assert gate.executing == LIMITS.reading
    gate.open.set()
    await asyncio.gather(*(call.task for call in calls))
    assert_free(control)


@in_loop
async def test_a_client_that_disconnects_leaves_the_queue() -> None:
    control, gate = control_of(), Gate()
    calls = [Call(control, gate) for _ in range(4)]
    await settle()
    calls[3].disconnect()
    await calls[3].task
    assert not calls[3].sent
    assert control.queues["reading"].waiting_of("ada") == 1
    gate.open.set()
    await asyncio.gather(*(call.task for call in calls))
    assert_free(control)


@in_loop
async def test_a_body_that_arrives_slowly_holds_no_slot() -> None:
    control = control_of()

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await JSONResponse({})(scope, receive, send)

    slow = [Call(control, read, method="POST", body=()) for _ in range(2)]
    for call in slow:
        call.inbox.put_nowait({"type": "http.request", "body": b"a", "more_body": True})
    await settle()
    assert control.queues["mutating"].executing == 0
    assert control.streams == {"ada": 2}
    quick = Call(control, read, method="POST")
    await quick.task
    for call in slow:
        call.inbox.put_nowait({"type": "http.request", "body": b"b", "more_body": False})
    await asyncio.gather(*(call.task for call in slow))
    assert [call.status for call in (*slow, quick)] == [200] * 3
    assert_free(control)


@in_loop
async def test_a_stream_holds_no_slot_and_one_too_many_is_refused() -> None:
    control, ended = control_of(), asyncio.Event()

    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        async def lines() -> AsyncIterator[bytes]:
            yield b"line\n"
            await ended.wait()

        await StreamingResponse(lines())(scope, receive, send)

    calls = [Call(control, watch) for _ in range(3)]
    await settle()
    assert [call.status for call in calls] == [200, 200, 429]
    headers = dict(calls[2].sent[0]["headers"])
    assert headers[b"retry-after"] == b"1"
    assert control.queues["reading"].executing == 0
    ended.set()
    await asyncio.gather(*(call.task for call in calls))
    assert_free(control)


@in_loop
async def test_a_stop_refuses_what_waits() -> None:
    control, gate = control_of(), Gate()
    calls = [Call(control, gate) for _ in range(4)]
    await settle()
    control.stop()
    await settle()
    for call in calls[2:]:
        with pytest.raises(Unavailable, match="stopping"):
            call.task.result()
    gate.open.set()
    await asyncio.gather(*(call.task for call in calls[:2]))
    assert_free(control)


@pytest.mark.parametrize("seed", range(20))
@in_loop
async def test_no_slot_is_lost_whatever_happens(seed: int) -> None:
    """Requests of three actors end in every way, at every moment."""
    rng, control = random.Random(seed), control_of()
    gates = [Gate(), Gate(StreamingResponse(_parts())), Gate()]

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.sleep(0)
        raise ValueError(scope["path"])

    apps: list[App] = [*gates, fail]
    calls: list[Call] = []
    for _ in range(200):
        match rng.randrange(6):
            case 0 | 1:
                bodies = ((b"",), (b"a", b"b"), ())
                method, body = rng.choice(["GET", "POST"]), rng.choice(bodies)
                calls.append(Call(control, rng.choice(apps), rng.choice([ADA, BEN, ADMIN]), method, body))
            case 2 if calls:
                rng.choice(calls).disconnect()
            case 3 if calls:
                rng.choice(calls).task.cancel()
            case 4:
                gate = rng.choice(gates)
                gate.open.set()
                await asyncio.sleep(0)
                gate.open.clear()
            case _:
                await asyncio.sleep(0)
    for gate in gates:
        gate.open.set()
    for call in calls:
        call.disconnect()
    await asyncio.gather(*(call.task for call in calls), return_exceptions=True)
    assert_free(control)


async def _parts() -> AsyncIterator[bytes]:
    for _ in range(3):
        await asyncio.sleep(0)
        yield b"part"
