"""Many requests in one call: each good one gets exactly its own rows, each bad one fails alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import DATATYPES, Array
from mizzen.runtime import batching
from mizzen.runtime.limits.watchdog import Running
from mizzen.runtime.signature import TensorSpec

POISON = 666


@dataclass
class Echo:
    """Gives back each row and its sum, and raises when any value is POISON."""

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    batch: bool = True
    in_place: bool = False
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset()
    framework: str = "echo"
    calls: list[int] = field(default_factory=list)
    raises: BaseException = field(default_factory=lambda: RuntimeError("poisoned"))

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs["x"]
        self.calls.append(len(rows))
        poisoned = bool((rows == POISON).any())
        if self.in_place:
            rows += 1
        if poisoned:
            raise self.raises
        return {"rows": rows, "sum": rows.sum(axis=tuple(range(1, rows.ndim)))}

    def close(self) -> None:
        pass


STRICT = (TensorSpec("x", "FP64", (-1, 4)),)


def request(shape: list[int], text: str | bytes, datatype: str = "FP64", name: str = "x", **more: Any) -> list[Any]:
    data = text.encode() if isinstance(text, str) else text
    return [[[name, datatype, shape, more.get("encoding", framing.JSON), data]], more.get("outputs")]


def sums(answers: batching.Answers) -> list[Any]:
    """The sums each request got, or the status it failed with."""
    return [
        next(output["data"] for output in json.loads(payload) if output["name"] == "sum")
        if status == framing.OK
        else status
        for status, payload in answers.results
    ]


def message(answers: batching.Answers, place: int = 0) -> str:
    return answers.results[place][1].decode()


@dataclass(frozen=True)
class Case:
    request: Any
    rows: list[Any] | None
    """What must come back; None when it must fail with `status`."""
    status: int = framing.OK


@st.composite
def good_cases(draw: st.DrawFn, poisoned: bool = False) -> Case:
    datatype = draw(st.sampled_from(["FP64", "FP32", "INT64", "INT32"]))
    tail = draw(st.sampled_from([[], [1], [3], [2, 2]]))
    shape = [draw(st.integers(1 if poisoned else 0, 3)), *tail]
    values = draw(st.lists(st.integers(-99, 99), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    if poisoned:
        values[draw(st.integers(0, len(values) - 1))] = POISON
    array = np.array(values, DATATYPES[datatype].dtype).reshape(shape)
    form = draw(st.sampled_from(["flat", "nested", "spaced", "raw"]))
    if form == "raw":
        asked = request(shape, array.tobytes(), datatype, encoding=framing.RAW)
    else:
        data = array.tolist() if form == "nested" else array.reshape(-1).tolist()
        asked = request(shape, json.dumps(data, separators=(" , ", ":") if form == "spaced" else (",", ":")), datatype)
    return Case(asked, None if poisoned else array.tolist(), framing.MODEL_FAILED if poisoned else framing.OK)


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (asyncio.CancelledError("stop"), "CancelledError: stop"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (GeneratorExit(), "GeneratorExit: "),
        (SystemExit(3), "SystemExit: 3"),
        (Wordless(), "Wordless"),
    ],
)
@pytest.mark.parametrize("batch", [True, False])
def test_whatever_a_model_raises_fails_its_own_request_only(raised: BaseException, told: str, batch: bool) -> None:
    answers = batching.answer(Echo(batch=batch, raises=raised), [request([1], "[1]"), request([1], f"[{POISON}]")])
    assert sums(answers) == [[1.0], framing.MODEL_FAILED]
    assert message(answers, 1) == told


def test_an_output_asked_for_twice_is_refused_before_the_model_is_called() -> None:
    model = Echo()
    asked = [request([1], "[1]", outputs=names) for names in (["sum"] * 9, ["sum", "rows", "sum"], ["rows", "sum"])]
    answers = batching.answer(model, asked)
    assert sums(answers) == [framing.BAD_INPUT, framing.BAD_INPUT, [1.0]]
    assert message(answers) == "an output is requested twice"
    assert model.calls == [1]


def test_the_present_call_is_known_while_it_runs() -> None:
    running, seen = Running(), list[float | None]()

    class Looking(Echo):
        def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
            seen.append(running.since)
            return super().call(inputs, outputs)

    ticks = iter(range(100))
    asked = [request([1], "[1]"), request([1], f"[{POISON}]")]
    batching.answer(Looking(batch=False), asked, clock=lambda: float(next(ticks)), running=running)
    assert seen == [1.0, 3.0]
    assert running.since is None


BAD_TEXTS = (
    "", "[", "[]", "[1,2,3", "[1,2,3]]", "[1],[2,3]", "[1,,2]", "[1,2]", "[1,2,3,4]", "[[1,2],3]", "[null,1,2]", "{}",
    '["a,b",1]', "[true,1,2]", "[1,2,NaN]", "[ , , ]", "1,2,3", "[1 2,3,4]", "[1],2,3]", "[1,2,3],",
)  # fmt: skip
BAD_INPUTS: tuple[list[Any], ...] = (
    [],
    [["x"]],
    [["x", "FP64", [1], 0, "text"]],
    [["x", "FP64", 3, 0, b"[1]"]],
    [["x", "FP64", [[1]], 0, b"[1]"]],
    [["x", "FP64", ["a"], 0, b"[1]"]],
    [["x", "FP64", [], 0, b"[1]"]],
    [["x", "FP64", [-1, 3], 0, b"[1,2,3]"]],
    [["x", "FP64", [1, -3], 0, b"[1]"]],
    [["x", "FP9", [1, 3], 0, b"[1,2,3]"]],
    [["x", ["FP64"], [1], 0, b"[1]"]],
    [["x", "FP64", [1, 3], 7, b"[1,2,3]"]],
    [["x", "FP64", [1], 0, b"[1]"], ["x", "FP64", [1], 0, b"[1]"]],
    [["x", "FP64", [1], 0, b"[1]"], ["y", "FP64", [2], 0, b"[1,2]"]],
)
BAD_REQUESTS: tuple[Any, ...] = (None, 7, [], [[]], *([inputs, None] for inputs in BAD_INPUTS))
bad_cases = st.builds(
    lambda text: Case(request([1, 3], text), None, framing.BAD_INPUT), st.sampled_from(BAD_TEXTS)
) | st.builds(lambda asked: Case(asked, None, framing.BAD_INPUT), st.sampled_from(BAD_REQUESTS))


@given(
    cases=st.lists(good_cases() | good_cases(poisoned=True) | bad_cases, max_size=12),
    batch=st.booleans(),
    in_place=st.booleans(),
    max_rows=st.sampled_from([1, 3, batching.MAX_ROWS]),
)
def test_each_good_request_gets_its_own_rows_and_each_bad_one_fails_alone(
    cases: list[Case], batch: bool, in_place: bool, max_rows: int
) -> None:
    if not batch:  # such a model needs no rows: some of the bad requests are fine with it
        cases = [case for case in cases if case.request not in BAD_REQUESTS]
    model = Echo(batch=batch, in_place=in_place)
    answers = batching.answer(model, [case.request for case in cases], max_rows=max_rows)
    assert len(answers.results) == len(cases)
    for case, (status, payload) in zip(cases, answers.results, strict=True):
        assert status == case.status, payload
        if case.rows is None:
            assert payload
            continue
        rows, total = json.loads(payload)
        want = np.array(case.rows).reshape(rows["shape"]) + in_place
        assert rows["shape"] == case.request[0][0][2]
        assert rows["datatype"] == case.request[0][0][1]
        assert rows["data"] == want.reshape(-1).tolist()
        assert total["data"] == want.sum(axis=tuple(range(1, want.ndim))).tolist()


def test_requests_of_one_form_share_a_call() -> None:
    model = Echo(inputs=STRICT)
    asked = [request([1, 4], "[1,1,1,1]"), request([2, 4], "[1,2,3,4,5,6,7,8]"), request([1, 4], "[[2,2,2,2]]")]
    assert sums(batching.answer(model, asked)) == [[4.0], [10.0, 26.0], [8.0]]
    assert model.calls == [4]


def test_too_long_beside_too_short_garbles_nobody() -> None:
    model = Echo()
    asked = [request([1, 4], "[1,2,3,4,5]"), request([1, 4], "[6,7,8]"), request([1, 4], "[1,1,1,1]")]
    assert sums(batching.answer(model, asked)) == [framing.BAD_INPUT, framing.BAD_INPUT, [4.0]]


def test_different_trailing_shapes_are_kept_apart() -> None:
    model = Echo()
    assert sums(batching.answer(model, [request([1, 4], "[1,1,1,1]"), request([2, 2], "[1,2,3,4]")])) == [
        [4.0],
        [3.0, 7.0],
    ]
    assert model.calls == [1, 2]


def test_a_batch_of_only_bad_requests() -> None:
    model = Echo()
    assert sums(batching.answer(model, [request([1, 4], "x")] * 3)) == [framing.BAD_INPUT] * 3
    assert model.calls == []


def test_nothing_asked() -> None:
    assert batching.answer(Echo(), []).results == []


def test_the_text_of_an_answer_is_exact() -> None:
    class Labels(Echo):
        def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
            return {"predict": np.zeros(len(inputs["x"]), np.int64)}

    for count in (1, 2):
        answers = batching.answer(Labels(), [request([1, 4], "[1,1,1,1]")] * count)
        wanted = (framing.OK, b'[{"name":"predict","datatype":"INT64","shape":[1],"data":[0]}]')
        assert answers.results == [wanted] * count


def test_rows_are_capped_per_call_but_a_big_request_is_not_cut() -> None:
    model = Echo()
    answers = batching.answer(model, [request([rows], str([1] * rows)) for rows in (2, 2, 2, 7, 1)], max_rows=4)
    assert [len(got) for got in sums(answers)] == [2, 2, 2, 7, 1]
    assert model.calls == [4, 2, 7, 1]


def test_zero_rows() -> None:
    assert sums(batching.answer(Echo(), [request([0, 4], "[]"), request([1, 4], "[1,1,1,1]")])) == [[], [4.0]]
    assert sums(batching.answer(Echo(), [request([0, 4], "[]")])) == [[]]


def test_requested_outputs_come_in_the_order_asked() -> None:
    answers = batching.answer(
        Echo(), [request([1], "[1]", outputs=["sum", "rows"]), request([1], "[2]", outputs=["sum"])]
    )
    assert [[output["name"] for output in json.loads(payload)] for _, payload in answers.results] == [
        ["sum", "rows"],
        ["sum"],
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_misaligned_rows_are_given_to_nobody(count: int) -> None:
    class Mean(Echo):
        def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
            return {"mean": inputs["x"].mean(axis=0)}

    answers = batching.answer(Mean(), [request([2, 3], "[1,2,3,4,5,6]")] * count)
    assert [status for status, _ in answers.results] == [framing.MODEL_FAILED] * count
    assert message(answers) == (
        f"the model must return one row per input row: output 'mean' has shape [3] for {2 * count} rows"
    )


def test_nan_fails_only_the_request_it_belongs_to() -> None:
    class Root(Echo):
        def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
            with np.errstate(invalid="ignore"):
                return {"sum": np.sqrt(inputs["x"])}

    answers = batching.answer(Root(), [request([1], "[4]"), request([1], "[-1]"), request([1], "[9]")])
    assert sums(answers) == [[2.0], framing.MODEL_FAILED, [3.0]]
    assert message(answers, 1) == "output 'sum' holds NaN or Infinity, which JSON cannot carry"


def test_a_model_that_exits_fails_the_request_and_not_the_process() -> None:
    class Exits(Echo):
        def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
            raise SystemExit(3)

    assert batching.answer(Exits(), [request([1], "[4]")]).results == [(framing.MODEL_FAILED, b"SystemExit: 3")]


def test_the_time_in_the_model_is_measured() -> None:
    ticks = iter([0.0, 1.0, 1.5, 3.5])
    answers = batching.answer(Echo(), [request([1], "[1]")] * 2, clock=lambda: next(ticks))
    assert (answers.before_us, answers.service_us, answers.after_us) == (1_000_000, 500_000, 2_000_000)


def test_without_a_call_all_time_is_spent_before_it() -> None:
    ticks = iter([0.0, 0.25])
    answers = batching.answer(Echo(), [None], clock=lambda: next(ticks))
    assert (answers.before_us, answers.service_us, answers.after_us) == (250_000, 0, 0)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (request([1, 3], "[1,2,3]"), "input 'x' must have shape [-1, 4], not [1, 3]"),
        (request([4], "[1,2,3,4]"), "input 'x' must have shape [-1, 4], not [4]"),
        (request([1, 4], "[1,2,3,4]", name="y"), "no input 'y'; the model takes 'x'"),
        (request([1, 4], '["a","b","c","d"]', "BYTES"), "input 'x' must be FP64, not BYTES"),
        (request([1, 4], "[1,2,3,4]", outputs=["proba"]), "no output 'proba'; the model gives 'rows', 'sum'"),
        (request([1, 4], "[1,2,3]"), "input 'x': data does not fit shape [1, 4]: 3 elements, expected 4"),
    ],
)
def test_a_strict_model_says_what_it_expects(asked: Any, wanted: str) -> None:
    outputs = (TensorSpec("rows", "FP64", (-1, 4)), TensorSpec("sum", "FP64", (-1,)))
    answers = batching.answer(Echo(inputs=STRICT, outputs=outputs), [asked, request([1, 4], "[1,1,1,1]")])
    assert answers.results[0] == (framing.BAD_INPUT, wanted.encode())
    assert sums(answers)[1] == [4.0]


def test_a_missing_input_is_named() -> None:
    model = Echo(inputs=(*STRICT, TensorSpec("y", "FP64", (-1,))))
    answers = batching.answer(model, [request([1, 4], "[1,2,3,4]")])
    assert answers.results == [(framing.BAD_INPUT, b"input 'y' is missing")]


def test_an_output_that_an_undeclared_model_does_not_give() -> None:
    answers = batching.answer(Echo(), [request([1], "[1]", outputs=["other"])] * 2)
    assert answers.results == [(framing.BAD_INPUT, b"no output 'other'; the model gives 'rows', 'sum'")] * 2


@pytest.mark.parametrize("datatype", ["INT64", "FP32", "UINT8"])
def test_narrower_numbers_are_widened(datatype: str) -> None:
    answers = batching.answer(Echo(inputs=STRICT), [request([1, 4], "[1,2,3,4]", datatype)] * 2)
    assert json.loads(message(answers))[0]["datatype"] == "FP64"
    assert sums(answers) == [[10.0]] * 2


def test_wider_numbers_are_not_narrowed() -> None:
    model = Echo(inputs=(TensorSpec("x", "INT64", (-1,)),))
    answers = batching.answer(model, [request([1], "[1]")])
    assert answers.results == [(framing.BAD_INPUT, b"input 'x' must be INT64, not FP64")]
