"""Who asks a server that has no replicas is held, within bounds, until one is there; and the plane is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from mizzen.gateway.cache.cached_queue import CachedQueue
from mizzen.gateway.queueing.call import OK, UNAVAILABLE
from mizzen.gateway.queueing.scale_from_zero import FIRST_START_SECONDS, MAX_RETRY_SECONDS, HoldLimits
from mizzen.gateway.telemetry.demand_report import (
    IDLE_SECONDS,
    SAMPLE_SECONDS,
    SAMPLES,
    USED_SECONDS,
    WRITE_EVERY,
    DemandReport,
)
from mizzen.graph.table_types import Server
from mizzen.protocol.gateway_files import demand
from mizzen.protocol.gateway_files.demand import ServerDemand
from tests.support.gateway.virtual import Recorded, World

ASLEEP: dict[str, Any] = {"addresses": (), "scaled": True, "wakes": True, "phase": "scaled to zero"}


def changed(server: Server, **fields: object) -> Server:
    return msgspec.structs.replace(server, **fields)


def test_a_call_waits_for_the_replica_that_is_started_for_it() -> None:
    world = World(**ASLEEP)
    first, second = world.ask("a"), world.ask("b")
    assert (world.woken, first.code, second.code) == (1, 0, 0)
    world.wait(20.0)  # much longer than a lost replica is waited for
    world.queue.update(changed(world.queue.server, addresses=("unix:a",), phase="one is starting"))
    hand = world.hand()
    hand.answer(world.queue)
    assert (first.code, second.code) == (OK, OK)


def test_who_is_too_many_is_sent_away_and_told_when_to_come_again() -> None:
    world = World(held=HoldLimits(2, 1000), **ASLEEP)
    held = [world.ask("a"), world.ask("b")]
    away = world.ask("c")
    assert (away.code, away.retry) == (UNAVAILABLE, FIRST_START_SECONDS)
    assert b"scaled to zero, and too many requests already wait for one" in away.ends[0][1]
    world.wait(2.5)
    assert world.ask("d").retry == 3
    world.hand().answer(world.queue)
    assert [call.code for call in held] == [OK, OK]
    assert world.queue.shed == 2


def test_bytes_count_too_and_one_call_always_fits() -> None:
    world = World(held=HoldLimits(5, 1000), **ASLEEP)
    assert world.ask("a", size=5000).code == 0
    assert world.ask("b", size=1).code == UNAVAILABLE


def test_callers_that_have_gone_leave_their_place_to_others() -> None:
    world = World(held=HoldLimits(1, 1000), **ASLEEP)
    gone = world.ask("a")
    gone.cancel(world.now)
    assert world.ask("b").code == 0


def test_a_deadline_that_passes_before_anybody_was_there_is_told_as_that() -> None:
    world = World(**ASLEEP)
    call = world.ask("a", seconds=2.0)
    world.wait(2.1)
    assert call.code == UNAVAILABLE
    assert b"none became ready within the deadline" in call.ends[0][1]
    assert call.retry == FIRST_START_SECONDS - 2
    assert world.queue.is_awaited(world.now), "they may come again"
    assert world.queue.is_awaited(world.now + MAX_RETRY_SECONDS + 1.0), "when they come as late as they may be told to"
    assert not world.queue.is_awaited(world.now + 2 * MAX_RETRY_SECONDS)


def test_it_learns_how_long_a_start_takes() -> None:
    world = World(held=HoldLimits(1, 1000), **ASLEEP)
    world.ask("a")
    world.wait(12.0)
    hand = world.hand()
    hand.answer(world.queue)
    world.queue.on_disconnect(hand)
    world.ask("b")
    assert world.ask("c").retry == 12


def test_what_waits_when_the_last_replica_goes_is_not_refused() -> None:
    world = World(batch_size=1, scaled=True, wakes=True)
    hand = world.hand()
    first, second = world.ask("a"), world.ask("b")
    world.turn()
    world.queue.update(changed(world.queue.server, addresses=()))
    world.queue.on_drain(hand)
    hand.answer(world.queue)
    assert (first.code, second.code, world.woken) == (OK, 0, 1)
    world.hand().answer(world.queue)
    assert second.code == OK


def test_what_cannot_be_started_refuses_those_who_wait() -> None:
    world = World(**ASLEEP)
    call = world.ask("a")
    world.queue.update(changed(world.queue.server, wakes=False))
    assert call.code == UNAVAILABLE
    assert world.ask("b").code == UNAVAILABLE


def test_who_still_knows_the_queue_of_a_version_that_is_served_no_more_is_answered_by_the_next() -> None:
    for wakes in (True, False):
        world = World(scaled=wakes, wakes=wakes)
        world.hand()
        old = world.switch()
        hand = world.hand()
        call = Recorded("late", world.now + 5.0)
        old.submit(call)
        assert (old.waiting, call.code) == (0, 0)
        world.turn()
        hand.answer(world.queue)
        assert call.code == OK


def test_what_gets_replicas_again_by_another_way_is_waited_for() -> None:
    world = World(addresses=())
    world.wait(20.0)
    assert world.ask("a").code == UNAVAILABLE
    world.queue.update(changed(world.queue.server, addresses=("unix:a",)))
    call = world.ask("b")
    world.hand().answer(world.queue)
    assert call.code == OK


class Reporting:
    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.world = world
        self.report = DemandReport(folder, "gateway-0", clock=lambda: world.now, call_later=world.later)
        self.report.follow([world.queue])

    def said(self) -> dict[str, ServerDemand]:
        (told,) = demand.read(self.folder) or [demand.Demand("", os.getpid(), {})]
        return told.servers


def test_the_plane_is_told_the_mean_of_the_last_second(tmp_path: Path) -> None:
    world = World(limit=100, scaled=True)
    told = Reporting(tmp_path / "demand", world)
    hand = world.hand()
    for number in range(8):
        world.ask(number)
    world.turn()
    world.wait(IDLE_SECONDS + SAMPLE_SECONDS * WRITE_EVERY)
    assert 0 < told.said()["default/m"].in_flight < 8
    world.wait(SAMPLE_SECONDS * SAMPLES)
    assert told.said() == {"default/m": ServerDemand(8.0)}
    hand.answer(world.queue)
    world.turn()
    hand.answer(world.queue)
    world.wait(SAMPLE_SECONDS * (SAMPLES + WRITE_EVERY))
    assert told.said() == {}


def test_calls_that_end_between_two_looks_count_as_asked(tmp_path: Path) -> None:
    world = World(scaled=True)
    told = Reporting(tmp_path / "demand", world)
    hand = world.hand()
    said = []
    for _ in range(60):
        world.ask("a")
        world.turn()
        world.wait(0.001)
        hand.answer(world.queue, 0.001)
        world.wait(0.75)
        said.append(told.said().get("default/m", ServerDemand()))
    assert all(each.used for each in said[1:])
    assert max(each.in_flight for each in said) < 1.0, "but nobody is in flight for it"
    world.wait(IDLE_SECONDS + USED_SECONDS + SAMPLE_SECONDS * WRITE_EVERY)
    assert told.said() == {}


def test_one_call_alone_is_told_whenever_it_comes(tmp_path: Path) -> None:
    for late in range(6):
        world = World(scaled=True)
        told = Reporting(tmp_path / f"{late}", world)
        hand = world.hand()
        world.wait(late * IDLE_SECONDS + IDLE_SECONDS / 2)
        world.ask("a")
        world.turn()
        hand.answer(world.queue, 0.001)
        world.wait(IDLE_SECONDS + SAMPLE_SECONDS * WRITE_EVERY)
        assert told.said() == {"default/m": ServerDemand(used=True)}


def test_what_a_cache_answers_counts_as_asked(tmp_path: Path) -> None:
    world = World(scaled=True, cache_bytes=1 << 20)
    told = Reporting(tmp_path / "demand", world)
    world.hand()
    world.wait(5.0)
    assert told.said() == {}
    world.queue.cache = CachedQueue(world.queue, 1 << 20, lambda: world.now)
    world.queue.cache.hits += 1
    world.wait(IDLE_SECONDS + SAMPLE_SECONDS * WRITE_EVERY)
    assert told.said() == {"default/m": ServerDemand(used=True)}


def test_a_wish_that_could_not_be_written_is_told_later(tmp_path: Path) -> None:
    world = World(**ASLEEP)
    folder = tmp_path / "demand"
    folder.write_text("in the way")
    told = Reporting(folder, world)
    world.queue._activator._wake = told.report.wake
    world.ask("a", seconds=0.01)
    world.wait(1.0)
    folder.unlink()
    world.wait(1.0)
    assert told.said()["default/m"].awaited


def test_who_asks_for_the_first_replica_is_told_at_once(tmp_path: Path) -> None:
    world = World(**ASLEEP)
    told = Reporting(tmp_path / "demand", world)
    world.queue._activator._wake = told.report.wake
    world.ask("a")
    world.wait(0.0)
    assert told.said()["default/m"].awaited


def test_what_is_not_scaled_is_not_told_and_costs_no_timer(tmp_path: Path) -> None:
    world = World()
    told = Reporting(tmp_path / "demand", world)
    world.wait(5.0)
    assert not told.folder.exists()
    assert not told.report._ticking


def test_what_is_scaled_no_more_is_taken_back(tmp_path: Path) -> None:
    world = World(**ASLEEP)
    told = Reporting(tmp_path / "demand", world)
    world.ask("a")
    world.wait(1.0)
    assert told.said()
    told.report.follow([])
    world.wait(1.0)
    assert told.said() == {}
