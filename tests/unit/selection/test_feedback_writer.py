"""Feedback is told of when it is durable and seen by all, and never otherwise."""

from __future__ import annotations

import asyncio
import functools
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mizzen.errors import Unavailable
from mizzen.graph.bandits import BanditState
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.cached_state import StateCache
from mizzen.selection.feedback_writer import BUSY_TIMEOUT_SECONDS, MAX_BATCH, FeedbackWriter
from mizzen.selection.state_db import Credit, FeedbackEntry, FeedbackOutcome, Score

GREEDY = Policy(name="egreedy", epsilon=0.0)
ABC = ("a", "b", "c")


class Gateway:
    """A desk, and how often it spoke to the loop."""

    def __init__(self, folder: Path, *, limit: int = 4096) -> None:
        self.path, self.word = folder / state_db.FILE, folder / "run" / "selection"
        self.now, self.posts = 0.0, 0
        self._loop = asyncio.get_running_loop()
        self.desk = FeedbackWriter(
            self.path, self.word, random.Random(1), post=self._post, limit=limit, clock=lambda: self.now
        )

    def _post(self, work: Callable[..., object], *words: object) -> None:
        self.posts += 1
        self._loop.call_soon_threadsafe(work, *words)

    def give(self, given: FeedbackEntry) -> asyncio.Future[FeedbackOutcome | Exception]:
        told: asyncio.Future[FeedbackOutcome | Exception] = self._loop.create_future()
        self.desk.submit(given, told.set_result)
        return told

    def counts(self) -> dict[str, int]:
        return {name: arm.count for name, arm in self._state().arms.items()}

    def best(self) -> str:
        return self._state().best

    def _state(self) -> BanditState:
        connection = state_db.open_db(self.path)
        found = state_db.read_state(connection, "u1", "n", "")
        connection.close()
        assert found is not None
        return found


def feedback(id: str, arm: str = "a", reward: float = 1.0) -> FeedbackEntry:  # noqa: A002
    return FeedbackEntry("u1", id, f"{arm}{reward}".encode(), reward, 0.0, [Credit("n", GREEDY, ABC, arm, 1.0, "")], [])


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        async def main() -> None:
            await asyncio.wait_for(test(**fixtures), 60)

        asyncio.run(main())

    return run


@in_loop
async def test_each_is_told_what_became_of_it(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    told = [gateway.give(one) for one in (feedback("1"), feedback("2", "b"), feedback("1"), feedback("1", "c"))]
    assert await asyncio.gather(*told) == ["counted", "counted", "repeated", "different"]
    assert await gateway.give(feedback("2", "b")) == "repeated"
    gateway.desk.close()
    assert gateway.counts() == {"a": 1, "b": 1, "c": 0}


@in_loop
async def test_nobody_is_told_before_every_gateway_sees_it(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    views = [StateCache(gateway.path, gateway.word, random.Random(number)) for number in range(2)]
    selectors = [view.selector_for("u1", "n", GREEDY, ABC) for view in views]
    leaders = set()
    for number in range(30):
        arm, seen = ABC[number % 3], asyncio.get_running_loop().create_future()

        def told(_: FeedbackOutcome | Exception, seen: asyncio.Future[set[str]] = seen) -> None:
            seen.set_result({selector.choose("")[0] for selector in selectors})

        gateway.desk.submit(feedback(str(number), arm, number * 7 % 10 / 10), told)
        chosen = await seen
        assert chosen == {gateway.best()}
        leaders |= chosen
    assert len(leaders) > 1, "the best has changed, and was followed"
    gateway.desk.close()
    for view in views:
        view.close()


@in_loop
async def test_what_a_killed_gateway_wrote_and_could_not_tell_is_seen_when_it_is_given_again(tmp_path: Path) -> None:
    gateway, view = (
        Gateway(tmp_path),
        StateCache(tmp_path / state_db.FILE, tmp_path / "run" / "selection", random.Random(1)),
    )
    selector = view.selector_for("u1", "n", GREEDY, ABC)
    other = next(arm for arm in ABC if arm != selector.choose("")[0])
    connection = state_db.open_db(gateway.path)
    state_db.record_feedback(connection, [feedback("1", other)], random.Random(1))
    connection.close()
    assert selector.choose("")[0] != other, "nobody has changed the word"
    assert await gateway.give(feedback("1", other)) == "repeated"
    assert selector.choose("")[0] == other
    gateway.desk.close()
    view.close()


@in_loop
async def test_what_comes_while_a_commit_runs_is_written_together(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    writer = state_db.open_db(gateway.path)
    writer.execute("BEGIN IMMEDIATE")
    told = [gateway.give(feedback(str(number))) for number in range(2 * MAX_BATCH)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in told), "nothing is committed"
    writer.execute("ROLLBACK")
    writer.close()
    assert set(await asyncio.gather(*told)) == {"counted"}
    assert gateway.posts <= 4, "the first alone or with some, and the rest in batches"
    gateway.desk.close()
    assert gateway.counts()["a"] == 2 * MAX_BATCH


@in_loop
async def test_more_than_may_wait_is_refused_at_once(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, limit=3)
    writer = state_db.open_db(gateway.path)
    writer.execute("BEGIN IMMEDIATE")
    told = [gateway.give(feedback(str(number))) for number in range(5)]
    assert not any(one.done() for one in told), "not from within the call"
    refused = await asyncio.gather(*told[3:])
    assert [type(one) for one in refused] == [Unavailable, Unavailable]
    writer.execute("ROLLBACK")
    writer.close()
    assert await asyncio.gather(*told[:3]) == ["counted"] * 3
    assert await gateway.give(feedback("4")) == "counted", "there is room again"
    gateway.desk.close()


@in_loop
async def test_closing_finishes_what_was_given(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    told = [gateway.give(feedback(str(number))) for number in range(2 * MAX_BATCH + 7)]
    gateway.desk.close()
    assert gateway.counts()["a"] == 2 * MAX_BATCH + 7
    assert set(await asyncio.gather(*told)) == {"counted"}
    assert isinstance(await gateway.give(feedback("late")), Unavailable)
    gateway.desk.close()
    assert gateway.counts()["a"] == 2 * MAX_BATCH + 7


def test_a_desk_that_nobody_used_makes_nothing(tmp_path: Path) -> None:
    FeedbackWriter(tmp_path / state_db.FILE, tmp_path / "run" / "selection", random.Random(1), post=print).close()
    assert list(tmp_path.iterdir()) == []


def test_others_that_write_are_waited_for_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        gateway, loop = Gateway(tmp_path), asyncio.get_running_loop()
        writer = state_db.open_db(gateway.path)
        attempts: asyncio.Queue[None] = asyncio.Queue()

        def impatient(path: Path, opened: Callable[..., sqlite3.Connection] = state_db.open_db) -> sqlite3.Connection:
            loop.call_soon_threadsafe(attempts.put_nowait, None)
            return opened(path, seconds=0.0)

        monkeypatch.setattr(state_db, "open_db", impatient)
        writer.execute("BEGIN IMMEDIATE")
        told = gateway.give(feedback("1"))
        for _ in range(3):
            await attempts.get()
        assert not told.done(), "as long as virtual time stands still, it is tried again"
        gateway.now = 2 * BUSY_TIMEOUT_SECONDS
        failed = await told
        assert isinstance(failed, Unavailable)
        assert isinstance(failed.__cause__, sqlite3.OperationalError)
        writer.execute("ROLLBACK")
        writer.close()
        assert await gateway.give(feedback("1")) == "counted"
        gateway.desk.close()
        assert gateway.counts()["a"] == 1

    asyncio.run(asyncio.wait_for(main(), 60))


@in_loop
async def test_a_file_that_is_none_is_told_and_feedback_goes_on_when_it_is_mended(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.path.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    failed = await gateway.give(feedback("1"))
    assert isinstance(failed, Unavailable)
    assert "feedback cannot be written" in failed.message
    gateway.path.unlink()
    assert await gateway.give(feedback("1")) == "counted"
    gateway.desk.close()


@in_loop
async def test_what_the_other_gateways_cannot_be_told_is_not_written(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.word.mkdir(parents=True)
    assert isinstance(await gateway.give(feedback("1")), Unavailable)
    gateway.word.rmdir()
    assert await gateway.give(feedback("1")) == "counted"
    gateway.desk.close()


@in_loop
async def test_a_number_that_is_none_is_refused_before_it_can_harm_its_neighbours(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for wrong in (float("nan"), -0.1, 1.5):
        with pytest.raises(ValueError, match="from 0 to 1"):
            gateway.give(feedback("1", reward=wrong))
        with pytest.raises(ValueError, match="from 0 to 1"):
            gateway.give(feedback("1")._replace(scores=[Score("n", "1", None, wrong)]))
    assert await gateway.give(feedback("1")) == "counted"
    gateway.desk.close()


def test_a_loop_that_ended_before_the_desk_harms_nobody(tmp_path: Path) -> None:
    async def main() -> Gateway:
        gateway = Gateway(tmp_path)
        gateway.desk.submit(feedback("1"), lambda _: None)
        return gateway

    gateway = asyncio.run(main())
    gateway.desk.close()
    assert gateway.counts()["a"] == 1
