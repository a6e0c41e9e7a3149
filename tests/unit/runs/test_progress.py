"""What code reports of itself: other people's JSON, of which only what makes sense is taken."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.runs import progress
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Progress
from tests.support.examples import examples


@pytest.fixture
def place(tmp_path: Path) -> ReplicaPlace:
    return ReplicaPlace(tmp_path)


def past(place: ReplicaPlace, lines: Sequence[tuple[int, float]]) -> None:
    place.past_progress.write_text("".join(json.dumps({"step": step, "time": time}) + "\n" for step, time in lines))


def test_a_report_is_read_with_the_time_it_was_written(place: ReplicaPlace) -> None:
    assert progress.read(place) is None
    place.progress.write_text('{"step": 3, "total": 10, "metrics": {"loss": 0.5}, "message": "warm"}')
    os.utime(place.progress, (5, 5))
    assert progress.read(place) == Progress(3, 10, {"loss": 0.5}, "warm", 5.0)
    place.progress.write_text('{"time": 7}')
    assert progress.read(place) == Progress(time=7.0)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"a": "' + b"x" * 300_000])
def test_what_is_no_report_is_none(place: ReplicaPlace, content: bytes) -> None:
    place.progress.write_bytes(content)
    assert progress.read(place) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("step", "total", "metrics", "message", "time"), ANYTHING)))
@settings(max_examples=examples(200), deadline=None)
def test_whatever_is_in_it_what_is_told_can_be_written_down(data: dict[str, Any]) -> None:
    told = progress.parse(data, 1.0)
    json.dumps([told.step, told.total, dict(told.metrics), told.message, told.fraction, told.time], allow_nan=False)


def test_metrics_are_few_and_their_names_are_short() -> None:
    told = progress.parse({"metrics": {"x" * 1000 + str(number): number for number in range(1000)}}, 0.0)
    assert all(len(name) == progress.LONGEST_NAME for name in told.metrics)
    told = progress.parse({"metrics": {str(number): number for number in range(1000)}}, 0.0)
    assert len(told.metrics) == progress.MOST_METRICS


def test_the_time_that_is_left_goes_by_the_pace_so_far(place: ReplicaPlace) -> None:
    now = Progress(step=50, total=100, time=110.0)
    assert progress.eta(place, now, started=10.0) == pytest.approx(100.0)
    past(place, [(40, 100.0), (50, 110.0)])
    assert progress.eta(place, now, started=10.0) == pytest.approx(50.0), "it went on from an earlier checkpoint"
    past(place, [(0, 10.0), (90, 50.0), (30, 100.0), (50, 110.0)])
    assert progress.eta(place, now, started=10.0) == pytest.approx(25.0), "it was started again"


@pytest.mark.parametrize(
    "now",
    [Progress(), Progress(step=3), Progress(step=3, total=3), Progress(step=0, total=3, time=9.0), Progress(3, 5)],
)
def test_where_nobody_can_know_nothing_is_said(place: ReplicaPlace, now: Progress) -> None:
    assert progress.eta(place, now, started=1.0) is None


def test_what_was_said_before_may_be_long_and_damaged(place: ReplicaPlace) -> None:
    now = Progress(step=50, total=100, time=110.0)
    place.past_progress.write_bytes(
        b'{"step": 0, "time": 1}\n' + b"\0" * progress.MOST_HISTORY + b'\n{"step": 40, "time": 100}\nnull\n'
    )
    assert progress.eta(place, now, started=None) == pytest.approx(50.0)
