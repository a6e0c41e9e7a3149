"""Calls on their way: connections, addresses, deadlines, and callers who leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.services import endpoints
from mizzen.gateway.services.endpoint import MAX_BACKOFF, MIN_BACKOFF, ServiceEndpoint
from mizzen.gateway.services.pool import ServicePool
from mizzen.graph.table_types import Service
from tests.component.gateway.services.world import Asked, Reply, World, asked, entry, free_port, good, http, played

HELD = Reply(good().data, holds=True)
NOBODY, LATE = b"no ready model", b"no answer within the deadline"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it is not this loop alone that makes it true
        await asyncio.sleep(0)


# Connections


@played
async def test_a_connection_is_kept_for_the_next_call(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    for _ in range(5):
        assert (await world.ask(pool)).code == 200
    assert (server.connections, pool.counts.connections, pool.counts.sent) == (1, 1, 5)
    assert pool.counts.ends == {200: 5}


@played
async def test_calls_at_once_have_connections_of_their_own(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address())
    calls = [asked() for _ in range(5)]
    for call in calls:
        pool.submit(call)
    await server.until(lambda server: server.held == 5)
    assert (pool.busy, pool.in_flight, pool.waiting) == (5, 5, 0)
    server.released.set()
    for call in calls:
        await call.done.wait()
    assert {call.code for call in calls} == {200}
    assert (server.connections, pool.busy) == (5, 0)


@played
async def test_more_than_it_may_have_at_once_wait_in_order(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=2, limit=4)
    calls = [asked() for _ in range(7)]
    for at, call in enumerate(calls):
        call.id = b"%d" % at
        pool.submit(call)
        if at < 2:
            await server.until(lambda server, at=at: server.held == at + 1)  # type: ignore[misc]
    assert (pool.in_flight, pool.waiting) == (2, 4)
    assert (calls[6].code, calls[6].text, calls[6].lacking) == (
        503,
        "too many calls to 'scorer' are waiting already",
        b"",
    )
    server.released.set()
    for call in calls[:6]:
        await call.done.wait()
    assert [request.headers["mizzen-request-id"] for request in server.requests] == [f"{at}" for at in range(6)]
    assert (server.connections, pool.counts.shed) == (2, 1)


@played
async def test_what_waits_is_bounded_in_bytes_too(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=1, byte_limit=25)
    calls = [asked() for _ in range(4)]
    pool.submit(calls[0])
    await server.until(lambda server: server.held == 1)
    for call in calls[1:]:
        pool.submit(call)
    assert [call.code for call in calls] == [0, 0, 0, 503]
    calls[1].pending = False  # whoever waited for it has gone, and nobody said so
    last = asked()
    pool.submit(last)
    assert last.code == 0
    server.released.set()
    await last.done.wait()
    assert len(server.requests) == 3


@played
async def test_a_connection_that_is_closed_as_it_is_used_again_is_made_anew_once(world: World) -> None:
    server = await world.server(good(), Reply(closes=True), good(3.5))
    pool = world.pool(server.address())
    assert (await world.ask(pool)).code == 200
    assert (await world.ask(pool)).outputs["y"][2] == [3.5]
    assert [request.connection for request in server.requests] == [1, 1, 2]
    assert server.requests[1].body == server.requests[2].body
    assert pool.counts.retried == 1


@played
async def test_it_is_not_sent_a_third_time(world: World) -> None:
    server = await world.server(good(), Reply(closes=True))
    pool = world.pool(server.address())
    await world.ask(pool)
    call = await world.ask(pool)
    assert (call.code, call.text) == (502, "the connection to 'scorer' was lost")
    assert (len(server.requests), pool.busy) == (3, 0)


@played
async def test_what_was_answered_in_part_is_not_sent_again(world: World) -> None:
    server = await world.server(good(), Reply(b"HTTP/1.1 200 OK\r\n", closes=True))
    pool = world.pool(server.address())
    await world.ask(pool)
    assert (await world.ask(pool)).code == 502
    assert len(server.requests) == 2


@played
async def test_nobody_is_there_for_the_second_time(world: World) -> None:
    server = await world.server(good(), HELD)
    pool = world.pool(server.address())
    await world.ask(pool)
    call = asked()
    pool.submit(call)
    await server.until(lambda server: server.held == 1)
    await server.down()
    await call.done.wait()
    assert (call.code, call.text) == (503, "'scorer' cannot be reached: connection refused")


@played
async def test_another_is_there_for_the_second_time(world: World) -> None:
    first, second = await world.server(good(), HELD), await world.server(good(3.5))
    pool = world.pool(first.address())
    await world.ask(pool)
    call = asked()
    pool.submit(call)
    await first.until(lambda server: server.held == 1)
    pool.update(msgspec.structs.replace(pool.service, addresses=(first.address(), second.address())))
    await first.down()
    await call.done.wait()
    assert (call.code, call.outputs["y"][2]) == (200, [3.5])
    assert (pool.counts.retried, pool.busy, pool._waiting_bytes) == (1, 0, 0)


@played
async def test_a_connection_that_the_service_closes_is_forgotten(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    await world.ask(pool)
    server.drop_all()
    await server.until(lambda server: not server._writers)
    await until(lambda: not any(endpoint.idle for endpoint in pool._endpoints))
    assert (await world.ask(pool)).code == 200
    assert (server.connections, pool.counts.retried) == (2, 0)


@played
async def test_bytes_that_nobody_asked_for_end_a_connection(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    await world.ask(pool)
    for writer in server._writers:
        writer.write(good(9.0).data)
    await server.until(lambda server: server.left == 1)
    assert (await world.ask(pool)).outputs["y"][2] == [2.5]
    assert server.connections == 2


@played
async def test_connections_that_nobody_needs_are_closed(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    await world.ask(pool)
    pool._endpoints._reap()
    assert server.left == 0
    world.now += endpoints.IDLE_SECONDS + 1
    pool._endpoints._reap()
    await server.until(lambda server: server.left == 1)
    assert pool._endpoints._reaper is None, "there is nothing left to look at"


# Addresses


@played
async def test_nobody_listens(world: World) -> None:
    pool = world.pool(f"http://127.0.0.1:{free_port()}")
    before = pool.ready
    calls = [asked() for _ in range(3)]
    for call in calls:
        pool.submit(call)
    for call in calls:
        await call.done.wait()
        assert (call.code, call.lacking) == (503, NOBODY)
        assert call.text == "'scorer' cannot be reached: connection refused"
    assert (before, pool.ready, pool.busy) == (True, False, 0)


@pytest.mark.parametrize(("missing", "why"), [("", "it has no address"), ("0 replicas are wanted", None)])
@played
async def test_nowhere_to_go(world: World, missing: str, why: str | None) -> None:
    pool = world.pool()
    pool.update(Service(id="default/g/scorer", addresses=(), path="/", missing=missing))
    call = await world.ask(pool)
    assert (call.code, call.lacking) == (503, NOBODY)
    assert call.text == f"'scorer' cannot be called: {why or missing}"
    assert not pool.ready


@played
async def test_an_address_that_is_none_is_passed_over(world: World) -> None:
    server = await world.server()
    pool = world.pool("ftp://nowhere", server.address())
    assert (await world.ask(pool)).code == 200


@played
async def test_the_least_busy_is_asked(world: World) -> None:
    servers = [await world.server(HELD) for _ in range(3)]
    pool = world.pool(*(server.address() for server in servers))
    calls = [asked() for _ in range(6)]
    for call in calls:
        pool.submit(call)
    for server in servers:
        await server.until(lambda server: server.held == 2)
        server.released.set()
    for call in calls:
        await call.done.wait()
    for _ in range(3):
        assert (await world.ask(pool)).code == 200
    assert [len(server.requests) for server in servers] == [3, 3, 3], "they take turns when all are idle"


@played
async def test_one_that_cannot_be_reached_is_passed_over_and_nobody_notices(world: World) -> None:
    server = await world.server()
    pool = world.pool(f"http://127.0.0.1:{free_port()}", server.address())
    tried = []
    for wait in (0.0, 0.0, MIN_BACKOFF, MIN_BACKOFF, MIN_BACKOFF):
        world.now += wait
        calls = [asked(), asked()]  # at once: a single one goes where there is a connection
        for call in calls:
            pool.submit(call)
        for call in calls:
            await call.done.wait()
            assert call.code == 200
        await asyncio.gather(*pool._endpoints._tasks)  # which no call waits for any more
        tried.append(pool.counts.unreachable)
    assert tried[:2] == [tried[0]] * 2, "not again so soon"
    assert tried[2] > tried[1]
    assert tried[3] == tried[2], "it rests twice as long by now"
    assert pool.ready


@played
async def test_all_are_tried_before_a_call_is_refused(world: World) -> None:
    first, second = await world.server(), await world.server()
    pool = world.pool(first.address(), second.address())
    await first.down()
    await second.down()
    assert (await world.ask(pool)).code == 503
    assert pool.counts.unreachable == 2
    await second.up()
    assert (await world.ask(pool)).code == 200, "although it rests"
    assert pool.ready


@pytest.mark.parametrize("reply", [Reply(closes=True), Reply(b"garbage"), http(b"", "503 Service Unavailable")])
@played
async def test_one_that_answers_badly_is_passed_over(world: World, reply: Reply) -> None:
    bad, fine = await world.server(reply), await world.server()
    pool = world.pool(bad.address(), fine.address())
    codes = [(await world.ask(pool)).code for _ in range(6)]
    assert sorted(codes)[:5] == [200] * 5
    assert len(bad.requests) == 1


@played
async def test_one_that_hangs_is_passed_over(world: World) -> None:
    hung, fine = await world.server(HELD), await world.server()
    pool = world.pool(hung.address(), fine.address())
    call = asked()
    pool.submit(call)
    await hung.until(lambda server: server.held == 1)
    assert (await world.ask(pool)).code == 200
    world.now = call.deadline
    pool.sweep(world.now)
    assert call.code == 504
    for _ in range(3):
        following = asked()
        following.deadline = world.now + 1
        assert (await world.ask(pool, following)).code == 200
    assert len(hung.requests) == 1


@played
async def test_one_that_answers_others_is_only_slow(world: World) -> None:
    server = await world.server(HELD, good())
    pool = world.pool(server.address())
    slow = asked()
    pool.submit(slow)
    await server.until(lambda server: server.held == 1)
    world.now += 1
    assert (await world.ask(pool)).code == 200
    world.now = slow.deadline
    pool.sweep(world.now)
    assert slow.code == 504
    assert pool.ready


def test_rests_grow_and_end_with_an_answer() -> None:
    endpoint = ServiceEndpoint("", None)  # type: ignore[arg-type]
    rests = []
    for _ in range(30):
        endpoint.mark_failed(100.0, "")
        rests.append(endpoint.backoff_until - 100.0)
    assert rests[:3] == pytest.approx([MIN_BACKOFF, 2 * MIN_BACKOFF, 4 * MIN_BACKOFF])
    assert rests[-1] == MAX_BACKOFF
    endpoint.mark_alive(100.0)
    assert endpoint.backoff_until == 0.0
    assert endpoint.mark_failed(100.0, ""), "which is news again"


@played
async def test_addresses_come_and_go(world: World) -> None:
    old, new = await world.server(good(), HELD), await world.server(good(5.0))
    pool = world.pool(old.address())
    await world.ask(pool)
    call = asked()
    pool.submit(call)
    await old.until(lambda server: server.held == 1)
    service = Service(id="default/g/scorer", addresses=(new.address(),), path="/other")
    pool.update(service)
    assert (await world.ask(pool)).outputs["y"][2] == [5.0]
    assert new.requests[0].line == "POST /other HTTP/1.1"
    old.released.set()
    await call.done.wait()
    assert call.outputs["y"][2] == [2.5], "what is out is finished"
    await old.until(lambda server: server.left == 1)


@played
async def test_what_waits_for_addresses_that_went_is_refused(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=1)
    out, waits = asked(), asked()
    pool.submit(out)
    await server.until(lambda server: server.held == 1)
    pool.submit(waits)
    pool.update(Service(id="default/g/scorer", addresses=(), path="/", missing="it was scaled to 0"))
    server.released.set()
    await waits.done.wait()
    assert (waits.code, waits.text) == (503, "'scorer' cannot be called: it was scaled to 0")
    assert out.code == 200


# Deadlines, and callers who leave


@played
async def test_at_its_deadline_a_call_ends_and_so_does_its_connection(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=1)
    out, waits, longer = asked(), asked(), asked()
    longer.deadline += 10
    pool.submit(out)
    await server.until(lambda server: server.held == 1)
    pool.submit(waits)
    pool.submit(longer)
    world.now = out.deadline - 0.001
    pool.sweep(world.now)
    assert (out.code, waits.code, pool.busy) == (0, 0, 3)
    world.now = out.deadline
    pool.sweep(world.now)
    for call in (out, waits):
        assert (call.code, call.lacking) == (504, LATE)
        assert call.text == "'scorer' gave no answer within the deadline"
    await server.until(lambda server: server.left == 1)
    await server.until(lambda server: server.held == 2)
    assert len(server.requests) == 2, "what waited too long was never sent"
    server.released.set()
    await longer.done.wait()
    assert longer.code == 200


@played
async def test_while_a_connection_is_made_time_passes_too(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    call = asked()
    pool.submit(call)
    world.now = call.deadline
    pool.sweep(world.now)
    assert call.code == 504
    assert (await world.ask(pool, _later(world))).code == 200
    assert len(server.requests) == 1


def _later(world: World) -> Asked:
    call = asked()
    call.deadline = world.now + 30
    return call


@played
async def test_somebody_who_leaves_ends_the_work(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=1)
    out, waits, last = asked(), asked(), asked()
    pool.submit(out)
    await server.until(lambda server: server.held == 1)
    pool.submit(waits)
    pool.submit(last)
    waits.pending = False
    pool.on_cancel(waits)
    assert pool.waiting == 1
    out.pending = False
    pool.on_cancel(out)
    await server.until(lambda server: server.left == 1)
    await server.until(lambda server: server.held == 2)
    server.released.set()
    await last.done.wait()
    assert len(server.requests) == 2
    assert (pool.counts.cancelled, pool.busy) == (2, 0)
    assert pool.ready, "it did nothing wrong"
    pool.on_cancel(out)  # of which nothing is known any more
    assert pool.counts.cancelled == 2


@played
async def test_somebody_who_leaves_without_a_word_is_noticed(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address())
    call = asked()
    pool.submit(call)
    await server.until(lambda server: server.held == 1)
    call.pending = False
    pool.sweep(world.now)
    await server.until(lambda server: server.left == 1)
    assert (pool.busy, call.ends) == (0, [])


@played
async def test_somebody_leaves_while_it_is_sent_once_more(world: World) -> None:
    server = await world.server(good(), Reply(closes=True), good())
    pool = world.pool(server.address())
    await world.ask(pool)
    call = asked()
    pool.submit(call)
    await until(lambda: pool.counts.retried == 1)
    call.pending = False
    pool.on_cancel(call)
    assert pool.busy == 0
    assert (await world.ask(pool)).code == 200
    assert len(server.requests) == 3


class Patient(Asked):
    """Others wait for it, with more time."""

    __slots__ = ()

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if lacking == LATE and self.deadline < 1100.0:
            self.deadline = 1100.0
            return
        super().finish(code, payload, now, retry, lacking=lacking)


@played
async def test_a_call_may_go_on_after_its_deadline(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), connections=1)
    calls = [Patient([entry("x", "FP64", [1], [1.0])]) for _ in range(2)]
    for call in calls:
        pool.submit(call)
    await server.until(lambda server: server.held == 1)
    world.now = 1031.0
    pool.sweep(world.now)
    assert [call.pending for call in calls] == [True, True]
    server.released.set()
    for call in calls:
        await call.done.wait()
        assert call.code == 200


class Chain(Asked):
    """Its end brings the next call, at once."""

    __slots__ = ("left", "pool")

    left: int
    pool: ServicePool

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        super().finish(code, payload, now, retry, lacking=lacking)
        if self.left:
            self.done.clear()
            self.left -= 1
            self.pending = True
            self.item = ([entry("x", "FP64", [1], [1.0])], None, True)
            self.pool.submit(self)


@pytest.mark.parametrize("up", [True, False])
@played
async def test_the_end_of_a_call_may_bring_the_next(world: World, up: bool) -> None:
    server = await world.server()
    pool = world.pool(server.address() if up else f"http://127.0.0.1:{free_port()}")
    call = Chain([entry("x", "FP64", [1], [1.0])])
    call.pool, call.left = pool, 5
    pool.submit(call)
    await until(lambda: len(call.ends) == 6)
    assert [code for code, _ in call.ends] == [200 if up else 503] * 6
    assert pool.busy == 0


@played
async def test_the_sweeper_sees_to_deadlines(world: World) -> None:
    server = await world.server(HELD)
    loop = asyncio.get_running_loop()
    sweeper = DeadlineTimer(time.monotonic, loop.call_later)
    pool = world.pool(server.address(), clock=time.monotonic, sweeper=sweeper)
    call = asked()
    call.deadline = time.monotonic() + 0.02
    assert (await world.ask(pool, call)).code == 504
    await server.until(lambda server: server.left == 1)


# The end of a pool


@played
async def test_one_that_is_retired_finishes_and_closes(world: World) -> None:
    server = await world.server(HELD, good())
    pool = world.pool(server.address())
    assert pool in world.sweeper.queues
    call = asked()
    pool.submit(call)
    await server.until(lambda server: server.held == 1)
    pool.retire()
    assert pool in world.sweeper.queues
    server.released.set()
    await call.done.wait()
    assert call.code == 200
    await server.until(lambda server: server.left == 1)
    assert pool not in world.sweeper.queues
    # A request that is on its way through the graph of before may still call it.
    assert (await world.ask(pool)).code == 200
    await server.until(lambda server: server.left == 2)
    assert pool not in world.sweeper.queues


@played
async def test_an_idle_one_that_is_retired_closes_at_once(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    await world.ask(pool)
    pool.retire()
    await server.until(lambda server: server.left == 1)


@played
async def test_all_ends_when_it_is_aborted(world: World) -> None:
    server = await world.server(HELD)
    pool = world.pool(server.address(), f"http://127.0.0.1:{free_port()}", connections=1)
    calls: list[Any] = [asked() for _ in range(4)]
    for call in calls:
        pool.submit(call)
    await server.until(lambda server: server.held == 1)
    await pool.abort()
    assert {call.code for call in calls} <= {502, 503}
    assert pool.busy == 0
    await server.until(lambda server: server.left == 1)
    late = await world.ask(pool)
    assert late.code == 503
