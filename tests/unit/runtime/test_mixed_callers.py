"""Callers in JSON, in bytes and in V1, in one frame: each gets exactly its own rows, in its own words."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import tensors
from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime import batching
from mizzen.runtime.signature import TensorSpec

WIDTH = 3


@dataclass
class Sums:
    """The sum of each row and, as text, its first value; a call that holds a 666 is refused."""

    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", "FP64", (-1, WIDTH)),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("sum", "FP64", (-1,)), TensorSpec("first", "BYTES", (-1,)))
    batch: bool = True
    strict: bool = True
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset({"NaN"})
    framework: str = "sums"
    calls: list[int] = field(default_factory=list)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs["x"]
        self.calls.append(len(rows))
        assert not np.isnan(rows).any()
        if np.isinf(rows).any() or (rows == 666).any():
            raise ValueError("not with me")
        first = np.array([f"{value:g}" for value in rows[:, 0]], object)
        return {"sum": rows.sum(axis=1), "first": first}

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Caller:
    rows: list[list[int]]
    sends: str
    """json, FP32, FP64, INT8, rows or columns"""
    raw: Any
    """As in an entry; ignored in V1."""
    wrong: str = ""

    def entry(self) -> list[Any]:
        if self.sends in ("rows", "columns"):
            said = {"rows": {"instances": self.rows}, "columns": {"inputs": self.rows}}[self.sends]
            if self.wrong:
                said = {key: [*value[:-1], value[-1][:-1]] for key, value in said.items()}
            return [json.dumps(said).encode()]
        shape = [len(self.rows), WIDTH]
        if self.sends == "json":
            data = json.dumps([value for row in self.rows for value in row]).encode()
            data = data[:-1] + b",1]" if self.wrong else data
            inputs = [["x", "FP64", shape, framing.JSON, data]]
        else:
            array = np.array(self.rows, tensors.DATATYPES[self.sends].dtype).reshape(shape)
            if self.wrong == "NaN" and self.sends != "INT8":
                array[0, 0] = np.nan
            data = array.tobytes()
            if self.wrong == "short" or (self.wrong and self.sends == "INT8"):
                data = data[:-1]
            inputs = [["x", self.sends, shape, framing.RAW, data]]
        return [inputs, ["first", "sum"], *([self.raw] if self.raw else [])]

    def check(self, status: int, payload: bytes) -> None:
        if self.wrong:
            assert status == framing.BAD_INPUT, payload
            return
        if any(666 in row for row in self.rows):
            assert status == framing.MODEL_FAILED
            return
        assert status == framing.OK, payload
        sums = [float(sum(row)) for row in self.rows]
        firsts = [str(row[0]) for row in self.rows]
        if self.sends == "rows":
            expected = [{"sum": total, "first": first} for total, first in zip(sums, firsts, strict=True)]
            assert json.loads(payload) == {"predictions": expected}
        elif self.sends == "columns":
            assert json.loads(payload) == {"outputs": {"sum": sums, "first": firsts}}
        else:
            assert read(payload, bool(self.raw)) == {"first": firsts, "sum": sums}


def read(payload: bytes, raw: bool) -> dict[str, Any]:
    text, rest = payload, b""
    if raw:
        (length,) = struct.unpack_from("<I", payload)
        text, rest = payload[4 : 4 + length], payload[4 + length :]
    found = {}
    for output in json.loads(text):
        data = output.get("data")
        if data is None:
            size = output["parameters"]["binary_data_size"]
            data = tensors.decode_raw(output["datatype"], output["shape"], rest[:size]).tolist()
            data = [one.decode() if isinstance(one, bytes) else one for one in data]
            rest = rest[size:]
        found[output["name"]] = data
    assert rest == b""
    return found


callers = st.lists(
    st.builds(
        Caller,
        rows=st.lists(
            st.lists(st.integers(-100, 100) | st.just(99), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=4
        ),
        sends=st.sampled_from(["json", "json", "FP32", "FP64", "INT8", "rows", "columns"]),
        raw=st.sampled_from([None, True, ["sum"], ["first"], ["first", "sum"]]),
        wrong=st.sampled_from(["", "", "", "", "short", "NaN"]),
    ),
    max_size=20,
)


@given(callers, st.sampled_from([1, 5, 8192]))
def test_each_gets_its_own(asked: list[Caller], max_rows: int) -> None:
    model = Sums()
    answers = batching.answer(model, [caller.entry() for caller in asked], max_rows=max_rows)
    assert len(answers.results) == len(asked)
    for caller, (status, payload) in zip(asked, answers.results, strict=True):
        caller.check(status, payload)


@given(callers)
def test_a_poisonous_one_fails_alone(asked: list[Caller]) -> None:
    poison = Caller([[666, 0, 0]], "FP64", True)
    asked = [*asked, poison, *asked]
    for caller, (status, payload) in zip(
        asked, batching.answer(Sums(), [caller.entry() for caller in asked]).results, strict=True
    ):
        caller.check(status, payload)


def test_callers_of_one_form_share_a_call() -> None:
    model = Sums()
    asked = [Caller([[number, 0, 0]], "FP64", True) for number in range(5)]
    batching.answer(model, [caller.entry() for caller in asked])
    assert model.calls == [5]


def test_what_the_model_does_not_take_is_told_before_it_is_called() -> None:
    model = Sums()
    rows = np.array([[1.0, np.nan, np.inf]])
    [(status, payload)] = batching.answer(model, [[[["x", "FP64", [1, 3], framing.RAW, rows.tobytes()]], None]]).results
    assert (status, model.calls) == (framing.BAD_INPUT, [])
    assert payload.startswith(b"input 'x': data holds NaN, which this model does not accept; send numbers")


def test_what_it_only_says_when_it_is_called_is_still_the_callers_fault() -> None:
    model = Sums()
    rows = np.array([[1.0, 2.0, np.inf]])
    [(status, payload)] = batching.answer(model, [[[["x", "FP64", [1, 3], framing.RAW, rows.tobytes()]], None]]).results
    assert status == framing.BAD_INPUT
    assert b"holds NaN or Infinity, and the model raised ValueError: not with me" in payload
