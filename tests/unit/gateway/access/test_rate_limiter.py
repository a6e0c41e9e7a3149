"""Rates and quotas in virtual time: what several gateways allow together, and what is left when one is killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.access import quota_usage
from mizzen.access.limits import Limit
from mizzen.access.policy import Actor
from mizzen.gateway.access.quotas import IDLE_SECONDS, RECHECK_SECONDS, Quotas
from mizzen.gateway.access.rate_limiter import RateBucket, RateLimiter
from mizzen.gateway.access.rate_limits import RateLimit, RateLimits

ANN = Actor("ann")
NOON = 1_794_830_400.0
"""2026-11-16T12:00:00Z."""
DAY = 86_400.0


class Timer:
    """`call_later` of one gateway, which a test turns on."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def __call__(self, _delay: float, work: Callable[[], None]) -> None:
        self._due.append(work)

    def tick(self) -> None:
        due, self._due = self._due, []
        for work in due:
            work()


class Machine:
    """What the gateways of one plane share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def gateway(self, timer: Timer | None = None) -> tuple[RateLimits, Quotas]:
        quotas = Quotas(self.folder / "quotas.db", call_later=timer or Timer())
        return RateLimits(RateLimiter(self.folder / "rates"), quotas), quotas

    def used(self, wall: float = NOON) -> dict[str, int]:
        return quota_usage.current_usage(self.folder / "quotas.db", "ann", wall)


def allowance(of: RateLimits, **limit: float) -> RateLimit:
    made = of.limit_of(ANN, {"ann": Limit(subject="ann", **limit)})  # type: ignore[arg-type]
    assert made is not None
    return made


def test_gateways_together_allow_the_burst_and_then_the_rate(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    both = [allowance(machine.gateway()[0], per_second=10.0, burst=5) for _ in range(2)]
    asked = [both[number % 2].spend(100.0, NOON) is None for number in range(20)]
    assert asked == [True] * 5 + [False] * 15
    assert [both[0].spend(100.35, NOON) is None for _ in range(5)] == [True] * 3 + [False] * 2


@given(st.floats(0.1, 1000.0), st.integers(1, 50), st.integers(0, 2**32))
def test_never_more_than_a_burst_and_the_rate(
    tmp_path_factory: pytest.TempPathFactory, rate: float, burst: int, seed: int
) -> None:
    pace, rng, now, let_in = _pace(rate, burst), random.Random(seed), 1e6, 0
    for _ in range(300):
        now += rng.random() * rng.choice((0.0, 0.1, 3.0)) / rate
        wait = pace.take(now)
        let_in += not wait
        left, reset = pace.remaining(now)
        assert 0 <= left <= burst
        assert 0 <= reset <= burst / rate + 1e-3
        if wait:
            assert left == 0
            assert not pace.take(now + wait + 1e-6), "told when, and then it is so"
            let_in += 1
            now += wait + 1e-6
        assert let_in <= burst + (now - 1e6) * rate + 1e-3


def test_a_time_from_before_the_machine_was_started_holds_nobody_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert allowance(machine.gateway()[0], per_second=1.0).spend(1e6, NOON) is None
    assert allowance(machine.gateway()[0], per_second=1.0).spend(5.0, NOON) is None


def test_names_do_not_share_a_count(tmp_path: Path) -> None:
    rates = RateLimiter(tmp_path / "rates")
    paces = [rates.bucket_of(f"user-{number}", Limit(subject="x", per_second=1.0)) for number in range(2000)]
    assert all(not pace.take(10.0) for pace in paces)
    assert all(pace.take(10.0) for pace in paces)


def test_a_quota_is_never_exceeded_and_all_of_it_can_be_used(tmp_path: Path) -> None:
    machine, rng = Machine(tmp_path), random.Random(7)
    timers = [Timer() for _ in range(3)]
    gateways = [allowance(machine.gateway(timer)[0], per_day=1000) for timer in timers]
    let_in = 0
    for step in range(4000):
        let_in += rng.choice(gateways).spend(0.0, NOON) is None
        if step % 50 == 0:
            rng.choice(timers).tick()
    assert let_in <= 1000
    for timer in timers * 3:
        timer.tick()  # who asks nothing gives back what they have
    let_in += sum(gateways[0].spend(0.0, NOON + RECHECK_SECONDS) is None for _ in range(200))
    assert let_in == 1000
    assert machine.used() == {"day": 1000}


def test_a_killed_gateway_forgets_nothing_that_was_asked(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first = allowance(machine.gateway()[0], per_day=500)
    let_in = sum(first.spend(0.0, NOON) is None for _ in range(100))
    del first  # and nothing was given back
    after = allowance(machine.gateway()[0], per_day=500)
    rest = sum(after.spend(0.0, NOON) is None for _ in range(600))
    assert 500 - 500 // 64 <= let_in + rest <= 500


def test_one_that_stops_gives_back_what_it_did_not_use(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    allowances, quotas = machine.gateway()
    one = allowance(allowances, per_day=100_000, per_month=200_000)
    assert [one.spend(0.0, NOON) for _ in range(3)] == [None] * 3
    assert machine.used()["day"] == 1000, "so many are taken at once"
    quotas.close()
    assert machine.used() == {"day": 3, "month": 3}


def test_who_has_used_all_waits_for_no_other_who_writes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert allowance(machine.gateway()[0], per_day=1).spend(0.0, NOON) is None
    writer = quota_usage.connect(tmp_path / "quotas.db")
    writer.execute("BEGIN IMMEDIATE")
    excess = allowance(machine.gateway()[0], per_day=1).spend(0.0, NOON)
    writer.close()
    assert excess is not None
    assert excess.code == 429


def test_who_was_refused_is_so_again_for_a_second_without_a_look(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    allowances, quotas = machine.gateway()
    one, other = allowance(allowances, per_day=64), allowance(machine.gateway()[0], per_day=64)
    assert sum(other.spend(0.0, NOON) is None for _ in range(65)) == 64
    assert one.spend(0.0, NOON) is not None
    writer = quota_usage.connect(tmp_path / "quotas.db")
    quota_usage.write_count(writer, "ann", "2026-11-16", 60)
    writer.close()
    assert one.spend(0.0, NOON + 0.9) is not None
    assert one.spend(0.0, NOON - 5.0) is None, "a clock that is set back locks nobody out"
    assert other.spend(0.0, NOON + RECHECK_SECONDS) is None
    quotas.close()


def test_a_new_day_begins_anew_and_a_month_goes_on(tmp_path: Path) -> None:
    allowances, quotas = Machine(tmp_path).gateway()
    one = allowance(allowances, per_day=2, per_month=3)
    assert [one.spend(0.0, NOON) is None for _ in range(3)] == [True, True, False]
    tomorrow = NOON + DAY
    assert [one.spend(0.0, tomorrow) is None for _ in range(2)] == [True, False]
    excess = one.spend(0.0, tomorrow)
    assert excess is not None
    assert "all 3 predictions of this month" in excess.reason
    assert excess.retry_after == 13 * DAY + DAY / 2, "until December"
    quotas.close()
    assert Machine(tmp_path).used(tomorrow) == {"day": 1, "month": 3}, "and the day is not charged for it"


def test_what_cannot_be_counted_is_not_let_in(tmp_path: Path) -> None:
    (tmp_path / "quotas.db").write_bytes(b"this is no database, and long enough to be seen for none" * 10)
    excess = allowance(Machine(tmp_path).gateway()[0], per_day=5).spend(0.0, NOON)
    assert excess is not None
    assert (excess.code, "quotas.db" in excess.reason) == (503, True)


def test_who_has_no_limit_has_nothing_to_spend(tmp_path: Path) -> None:
    allowances, _ = Machine(tmp_path).gateway()
    assert allowances.limit_of(ANN, {"bob": Limit(subject="bob", per_second=1.0)}) is None
    assert IDLE_SECONDS > 0


def _pace(rate: float, burst: int) -> RateBucket:
    return RateBucket(Limit(subject="x", per_second=rate, burst=burst), memoryview(bytearray(8)).cast("d"))
