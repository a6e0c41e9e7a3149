"""Requests in V1: what the values are, the signature tells; what does not fit it is named."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mizzen.protocol import json_codec, json_size
from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime import batching
from mizzen.runtime.signature import TensorSpec

MATRIX = (TensorSpec("input", "FP64", (-1, 2)),)
COLUMNS = (TensorSpec("age", "FP64", (-1,)), TensorSpec("name", "BYTES", (-1,)))


@dataclass
class Given:
    """Gives back what it was given."""

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    batch: bool = True
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset()
    framework: str = "given"
    answer: dict[str, Array] | None = None
    seen: list[dict[str, Array]] = field(default_factory=list)

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        self.seen.append(inputs)
        return dict(inputs) if self.answer is None else self.answer

    def close(self) -> None:
        pass


@pytest.fixture(params=["msgspec", "json"], autouse=True)
def _codec(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "json":
            patch.setattr(json_codec, "parse", json_codec.parse_with_stdlib)
            patch.setattr(json_codec, "write", json_codec.write_with_stdlib)
        yield


def ask(model: Given, body: Any) -> tuple[int, Any]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    [(status, payload)] = batching.answer(model, [[text]]).results
    return status, json.loads(payload) if status == framing.OK else payload.decode()


@pytest.mark.parametrize(
    ("inputs", "body", "answer"),
    [
        (MATRIX, {"instances": [[1, 2], [3, 4.5]]}, {"predictions": [[1.0, 2.0], [3.0, 4.5]]}),
        (MATRIX, {"instances": [{"input": [1, 2]}]}, {"predictions": [[1.0, 2.0]]}),
        (MATRIX, {"inputs": [[1, 2]]}, {"outputs": [[1.0, 2.0]]}),
        (MATRIX, {"inputs": {"input": [[1, 2]]}}, {"outputs": [[1.0, 2.0]]}),
        (MATRIX, {"instances": [[1, 2]], "signature_name": "serving_default"}, {"predictions": [[1.0, 2.0]]}),
        (COLUMNS, {"instances": [{"age": 3, "name": "é"}]}, {"predictions": [{"age": 3.0, "name": "é"}]}),
        (COLUMNS, {"instances": [[3, "é"], [4, "b"]]},
         {"predictions": [{"age": 3.0, "name": "é"}, {"age": 4.0, "name": "b"}]}),
        (COLUMNS, {"inputs": {"age": [3, 4], "name": ["a", "b"]}},
         {"outputs": {"age": [3.0, 4.0], "name": ["a", "b"]}}),
        ((TensorSpec("input", "FP64", (-1, 1)),), {"instances": [1, 2]}, {"predictions": [[1.0], [2.0]]}),
        ((), {"instances": [[1, 2]]}, {"predictions": [[1, 2]]}),
        ((), {"instances": [True, False]}, {"predictions": [True, False]}),
        ((), {"instances": [{"a": 1.5, "b": "x"}]}, {"predictions": [{"a": 1.5, "b": "x"}]}),
    ],
)  # fmt: skip
def test_rows_and_columns(inputs: tuple[TensorSpec, ...], body: Any, answer: Any) -> None:
    assert ask(Given(inputs), body) == (framing.OK, answer)


def test_bytes_in_base64_reach_the_model_as_they_are() -> None:
    model = Given((TensorSpec("input", "BYTES", (-1,)),), answer={"n": np.array([1.0])})
    coded = base64.b64encode(b"\xff\x00").decode()
    assert ask(model, {"instances": [{"b64": coded}]}) == (framing.OK, {"predictions": [1.0]})
    assert ask(model, {"instances": [{"input": {"b64": coded}}]}) == (framing.OK, {"predictions": [1.0]})
    assert ask(model, {"inputs": {"input": [{"b64": coded}]}}) == (framing.OK, {"outputs": [1.0]})
    assert [inputs["input"].tolist() for inputs in model.seen] == [[b"\xff\x00"]] * 3


def test_the_word_for_base64_may_be_spelled_with_escapes() -> None:
    model = Given((TensorSpec("input", "BYTES", (-1,)),), answer={"n": np.array([1.0])})
    assert ask(model, b'{"instances": [{"\\u00624": "AA=="}]}')[0] == framing.BAD_INPUT
    assert ask(model, b'{"instances": [{"\\u006264": "AA=="}]}') == (framing.OK, {"predictions": [1.0]})


@pytest.mark.parametrize("row", [b"{}", b"[]", b'{"a":[]}'])
def test_more_rows_than_are_made_objects_of_are_refused_unread(row: bytes) -> None:
    body = b'{"instances":[' + (row + b",") * (json_size.MAX_LISTS // (1 + row.count(b":"))) + row + b"]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(json_codec, "parse")  # nothing is decoded
        status, text = ask(Given(MATRIX), body)
    assert status == framing.BAD_INPUT
    assert f"lists and objects, more than {json_size.MAX_LISTS}: send its rows in several requests" in text


@pytest.mark.parametrize("start", [b'{"instances":[', b'{"inputs":[', b'{"inputs":{"input":['])
def test_more_values_than_rows_could_hold_are_refused_unread(start: bytes) -> None:
    body = start + b"1," * 200_000 + b"1]}" + b"}" * start.count(b'input"')
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(json_codec, "parse")
        status, text = ask(Given(MATRIX), body)
    assert (status, "input 'input' must have shape [-1, 2], not 200001 values in" in text) == (framing.BAD_INPUT, True)


@pytest.mark.parametrize("rows", [[[1.5, 2.0]] * 100_000, [{"input": [1.5, 2.0]}] * 100_000])
def test_as_many_rows_as_one_likes_are_read(rows: list[Any]) -> None:
    status, answer = ask(Given(MATRIX), {"instances": rows})
    assert (status, len(answer["predictions"])) == (framing.OK, 100_000)


@pytest.mark.parametrize(
    ("inputs", "body", "error"),
    [
        (MATRIX, b"", "the body is empty"),
        (MATRIX, b"{", "the body is not JSON"),
        (MATRIX, b"\xff", "the body is not JSON"),
        (MATRIX, b"[1]", "the body: expected an object"),
        (MATRIX, b'{"instances": [[1, NaN]]}', "the body is not JSON"),
        (MATRIX, b'{"instances": [[1, 1e999]]}', "out of range"),
        (MATRIX, b'{"instances": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (MATRIX, {"instances": [[[[[[[[[[[[1]]]]]]]]]]]]}, "must have shape [-1, 2]"),
        (MATRIX, {"instance": []}, "unknown field 'instance'"),
        (MATRIX, {"instances": [[1, 2]], "inputs": [[1, 2]]}, "either instances"),
        (MATRIX, {}, "either instances"),
        (MATRIX, {"instances": []}, "instances: expected a non-empty list"),
        (MATRIX, {"instances": {"input": [1, 2]}}, "instances: expected a non-empty list"),
        (MATRIX, {"instances": [[1, 2]], "signature_name": "other"}, "the only one is 'serving_default'"),
        (MATRIX, {"instances": [[1, 2], [3]]}, "same length and depth"),
        (MATRIX, {"instances": [[1, 2], 3]}, "same length and depth"),
        (MATRIX, {"instances": [[1, 2], [3, [4]]]}, "same length and depth"),
        (MATRIX, {"instances": [[1, 2], {"a": 1, "b": 2}]}, "same length and depth"),
        (MATRIX, {"instances": [[1, "2"]]}, "input 'input': expected only numbers"),
        (MATRIX, {"instances": [[1, True]]}, "expected only numbers"),
        (MATRIX, {"instances": [[1, None]]}, "expected only numbers"),
        (MATRIX, {"instances": [[1, 2, 3]]}, "must have shape [-1, 2], not [1, 3]"),
        (MATRIX, {"instances": [{"inputs": [1, 2]}]}, "no input 'inputs'"),
        (MATRIX, {"instances": [{}]}, "instances[0]: expected an object with the inputs by name"),
        (COLUMNS, {"instances": [{"age": 1}]}, "input 'name' is missing"),
        (COLUMNS, {"instances": [{"age": 1, "name": "a"}, {"age": 1}]}, "instances[1]: expected an object with"),
        (COLUMNS, {"instances": [[1, "a"], [1]]}, "instances[1]: expected 2 values"),
        (COLUMNS, {"inputs": [[1, "a"]]}, "inputs: expected an object with 'age', 'name'"),
        (COLUMNS, {"inputs": {"age": [1, 2], "name": ["a"]}}, "same number of rows"),
        (COLUMNS, {"inputs": {"age": 1, "name": "a"}}, "first dimension"),
        ((TensorSpec("x", "INT8", (-1,)),), {"instances": [300]}, "outside the range of INT8"),
        ((TensorSpec("x", "INT8", (-1,)),), {"instances": [1.5]}, "expected only integers"),
        ((TensorSpec("x", "BYTES", (-1, 2)),), {"instances": [["a", "b"], "cd"]}, "same length and depth"),
        ((TensorSpec("x", "BYTES", (-1,)),), {"instances": [{"b64": "?"}]}, "the value of b64 is not base64 text"),
        ((TensorSpec("x", "BYTES", (-1,)),), b'{"instances": ["\\ud800"]}', "the body is not JSON"),
        ((), {"instances": [1, "a"]}, "only numbers, only booleans or only strings"),
    ],
)  # fmt: skip
def test_what_does_not_fit_never_reaches_the_model(inputs: tuple[TensorSpec, ...], body: Any, error: str) -> None:
    model = Given(inputs)
    status, text = ask(model, body)
    assert status == framing.BAD_INPUT
    assert error in text
    assert model.seen == []


def test_outputs_without_rows_can_be_asked_for_by_columns() -> None:
    given = {"a": np.array([1.0, 2.0]), "b": np.array(3.0)}
    model = Given((), batch=False, answer=given)
    assert ask(model, {"inputs": [1]}) == (framing.OK, {"outputs": {"a": [1.0, 2.0], "b": 3.0}})
    status, text = ask(model, {"instances": [1]})
    assert status == framing.MODEL_FAILED
    assert "outputs differ in rows: 'a' [2], 'b' []" in text


def test_what_json_cannot_carry_fails_by_name() -> None:
    for array, word in ((np.array([np.nan]), "NaN"), (np.array([b"\xff"]), "UTF-8")):
        status, text = ask(Given((), answer={"a": array}), {"instances": [1]})
        assert status == framing.MODEL_FAILED
        assert "'a'" in text
        assert word in text
