"""V1 without a runtime: what is read of a body, and how answers are written. The rest is in tests of runtimes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from mizzen.protocol import json_codec, v1


class Spec(NamedTuple):
    name: str
    datatype: str
    shape: tuple[int, ...] | list[int]


MATRIX = [Spec("input", "FP64", (-1, 2))]
TABLE = [Spec("age", "FP32", [-1]), Spec("name", "BYTES", [-1])]


@pytest.fixture(params=["msgspec", "json"], autouse=True)
def _codec(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "json":
            patch.setattr(json_codec, "parse", json_codec.parse_with_stdlib)
            patch.setattr(json_codec, "write", json_codec.write_with_stdlib)
        yield


@pytest.mark.parametrize(
    ("declared", "body", "given", "style"),
    [
        (MATRIX, {"instances": [[1, 2], [3, 4.5]]}, [("input", "FP64", [2, 2], [1, 2, 3, 4.5])], v1.ROWS),
        (MATRIX, {"inputs": {"input": [[1, 2]]}}, [("input", "FP64", [1, 2], [1, 2])], v1.COLUMNS),
        (TABLE, {"instances": [[3, "a"], [4, "b"]]},
         [("age", "FP32", [2], [3, 4]), ("name", "BYTES", [2], ["a", "b"])], v1.ROWS),
        (TABLE, {"instances": [{"name": {"b64": "/wA="}, "age": 3}]},
         [("name", "BYTES", [1], [b"\xff\x00"]), ("age", "FP32", [1], [3])], v1.ROWS),
        ([Spec("x", "INT8", [-1, 1])], {"instances": [1, 2]}, [("x", "INT8", [2, 1], [1, 2])], v1.ROWS),
        ([Spec("x", "INT8", (-1, 1))], {"instances": [1, 2]}, [("x", "INT8", [2, 1], [1, 2])], v1.ROWS),
        ([], {"instances": [True]}, [("input", "BOOL", [1], [True])], v1.ROWS),
    ],
)  # fmt: skip
def test_reading(declared: list[Spec], body: Any, given: Any, style: str) -> None:
    assert v1.parse_request(json.dumps(body).encode(), declared) == (given, style)


@pytest.mark.parametrize(
    ("values", "shapes", "style", "text"),
    [
        ({"y": [1, 2]}, {"y": [2]}, v1.ROWS, b'{"predictions":[1,2]}'),
        ({"y": [1, 2]}, {"y": [2]}, v1.COLUMNS, b'{"outputs":[1,2]}'),
        ({"y": [1], "z": ["\u00e9"]}, {"y": [1], "z": [1]}, v1.ROWS, '{"predictions":[{"y":1,"z":"\u00e9"}]}'.encode()),
        ({"y": [1], "z": 2.5}, {"y": [1], "z": ()}, v1.COLUMNS, b'{"outputs":{"y":[1],"z":2.5}}'),
        ({}, {}, v1.ROWS, b'{"predictions":[]}'),
    ],
)
def test_writing(values: Any, shapes: Any, style: str, text: bytes) -> None:
    assert v1.render_answer(v1.output_values(values, shapes, style), style) == text


@pytest.mark.parametrize("shapes", [{"y": [2], "z": [3]}, {"y": [2], "z": []}, {"y": (), "z": ()}])
def test_rows_that_differ(shapes: Any) -> None:
    with pytest.raises(ValueError, match="outputs differ in rows"):
        v1.output_values({"y": [], "z": []}, shapes, v1.ROWS)
