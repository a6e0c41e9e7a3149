"""Who asked: what a model in Python and the log are told of the callers of a batch."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mizzen.protocol.frames import framing
from mizzen.runtime import batching, callers
from mizzen.runtime.caller_context import NAMED, Caller, Callers
from mizzen.runtime.frameworks import python
from mizzen.runtime.frameworks.model import LoadRequest

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MODEL = """
import numpy as np
from mizzen.runtime import callers

seen = []

def predict(inputs):
    seen.append(callers())
    rows = inputs["x"]
    if (rows == 666).any():
        raise RuntimeError("poisoned")
    return rows[:1] if (rows == 7).any() else rows

"""


def requests(*rows: int, value: float = 1.0) -> list[Any]:
    """One for each of `rows`, with so many of them."""
    return [[[["x", "FP64", [count], framing.JSON, json.dumps([value] * count).encode()]], None] for count in rows]


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> python.PythonModel:
    name = f"asking_{request.node.name.replace('[', '_').replace(']', '_').replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODEL)
    return python.load(LoadRequest("python", f"{name}:predict", trusted=True, batch=True), tmp_path)


def seen(model: python.PythonModel) -> list[list[Caller]]:
    found: list[list[Caller]] = model.predict.__globals__["seen"]
    return found


def test_a_model_sees_whose_rows_it_has(model: python.PythonModel) -> None:
    told = Callers([
        (2, {"ids": b"a\nb", "traces": [[1, PARENT, "v=1"]]}),
        (1, {}),
        (1, {"ids": b"d", "traces": [[0, PARENT, ""]]}),
    ])  # fmt: skip
    assert all(status == framing.OK for status, _ in batching.answer(model, requests(1, 2, 3, 1), told).results)
    assert seen(model) == [
        [Caller("a", 1, "", ""), Caller("b", 2, PARENT, "v=1"), Caller("", 3, "", ""), Caller("d", 1, PARENT, "")]
    ]
    assert callers() == [], "there are none between two calls"


def test_one_that_is_tried_alone_sees_itself_only(model: python.PythonModel, caplog: pytest.LogCaptureFixture) -> None:
    told = Callers([(2, {"ids": b"good\nbad"})])
    with caplog.at_level(logging.ERROR):
        good, bad = batching.answer(model, [*requests(1), *requests(1, value=666)], told).results
    assert (good[0], bad[0]) == (framing.OK, framing.MODEL_FAILED)
    assert [[caller.request_id for caller in call] for call in seen(model)] == [["good", "bad"], ["good"], ["bad"]]
    assert [record.getMessage() for record in caplog.records] == ["the model raised (request bad)"]
    assert callers() == []


def test_a_log_line_names_the_requests_of_a_batch_but_not_any_number(
    model: python.PythonModel, caplog: pytest.LogCaptureFixture
) -> None:
    count = NAMED + 5
    told = Callers([(count, {"ids": "\n".join(f"id-{n}" for n in range(count)).encode()})])
    with caplog.at_level(logging.ERROR):
        batching.answer(model, requests(*[1] * count, value=7), told)
    [said] = [record.getMessage() for record in caplog.records]
    assert "must return one row per input row" in said
    assert said.endswith(f"(requests {', '.join(f'id-{n}' for n in range(NAMED))} and 5 more)")


def test_ids_that_do_not_match_the_requests_name_nobody() -> None:
    assert Callers([(2, {"ids": b"only"})]).describe([0, 1]) == "requests unknown, unknown"


def test_a_model_that_is_not_batched_has_one_caller(tmp_path: Path) -> None:
    (tmp_path / "asking_apart.py").write_text(MODEL)
    model = python.load(LoadRequest("python", "asking_apart:predict", trusted=True, batch=False), tmp_path)
    batching.answer(model, requests(3, 2), Callers([(2, {"ids": b"a\nb"})]))
    assert seen(model) == [[Caller("a", 3, "", "")], [Caller("b", 2, "", "")]]
