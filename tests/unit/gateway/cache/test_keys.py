"""Equal requests have equal keys, others do not; whatever the model is sent is in them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.cache import keys
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import V1, V2
from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.protocol import json_tensor_split

ROW = {"name": "x", "datatype": "FP64", "shape": [1, 2], "data": [1.5, 2.0]}


def key(body: bytes | dict[str, Any], dialect: Any = V2, **options: Any) -> bytes | None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    call = Inference()
    call.endpoint = cast(Any, SimpleNamespace(queues=(), bound=None, new_id=lambda: b"new"))
    call.seconds = 1.0
    dialect.read(call, text, EMPTY_HEAD._replace(**options))
    return keys.key_of(call.item, len(text))


def test_what_does_not_decide_the_answer_is_not_in_it() -> None:
    wanted = key({"inputs": [ROW]})
    same: list[bytes | dict[str, Any]] = [
        {"inputs": [ROW], "id": "mine"},
        {"id": "other", "inputs": [dict(reversed(ROW.items()))]},
        {"inputs": [ROW], "parameters": {"timeout": 1000}},
        json.dumps({"inputs": [ROW]}, separators=(",", ":")).encode(),
        json.dumps({"inputs": [ROW]}, indent=4).encode(),
    ]
    assert [key(body) for body in same] == [wanted] * len(same)
    assert key({"inputs": [ROW]}, timeout_ms=b"10", id=b"called", actor="somebody") == wanted


def test_what_does_is() -> None:
    text = {"name": "x", "datatype": "BYTES", "shape": [1], "data": ["a b"]}
    raw = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, 2],
                                  "parameters": {"binary_data_size": 2}}]}).encode()  # fmt: skip
    bodies: list[dict[str, Any]] = [
        {"inputs": [ROW]},
        {"inputs": [ROW | {"data": [1.5, 2.5]}]},
        {"inputs": [ROW | {"data": [1.52, 0]}]},
        {"inputs": [ROW | {"shape": [2, 1]}]},
        {"inputs": [ROW | {"datatype": "FP32"}]},
        {"inputs": [ROW | {"name": "y"}]},
        {"inputs": [ROW, ROW | {"name": "y"}]},
        {"inputs": [ROW | {"name": "y"}, ROW]},
        {"inputs": [ROW], "outputs": [{"name": "a"}]},
        {"inputs": [ROW], "outputs": [{"name": "a"}, {"name": "b"}]},
        {"inputs": [ROW], "outputs": [{"name": "b"}, {"name": "a"}]},
        {"inputs": [ROW], "parameters": {"binary_data_output": True}},
        {"inputs": [ROW], "outputs": [{"name": "a", "parameters": {"binary_data": True}}]},
        {"inputs": [text]},
        {"inputs": [text | {"data": ["ab"]}]},
    ]
    found = [key(body) for body in bodies]
    found += [key(raw + data, header_length=b"%d" % len(raw)) for data in (b"ab", b"a ", b"ba")]
    found += [key(body, V1) for body in (b'{"instances": [[1]]}', b'{"inputs": [[1]]}', b'{"instances": [[1 ]]}')]
    assert len(set(found)) == len(found)
    assert None not in found


@pytest.mark.parametrize("size", [keys.MAX_PLAIN_KEY // 4, keys.MAX_PLAIN_KEY * 2, json_tensor_split.LARGE * 2])
def test_long_ones_are_digested(size: int) -> None:
    bodies = [{"inputs": [ROW | {"shape": [1, size], "data": [digit] * size}]} for digit in (1, 2, 1)]
    found = [key(body) for body in bodies]
    assert found[0] == found[2] != found[1]
    assert all(each is not None and (len(each) == 33) == (size > keys.MAX_PLAIN_KEY) for each in found)


def test_very_large_ones_are_not_looked_for() -> None:
    assert keys.key_of((b"{}",), keys.MAX_REQUEST_BYTES) is not None
    assert keys.key_of((b"{}",), keys.MAX_REQUEST_BYTES + 1) is None


def test_a_fault_of_large_data_does_not_read_like_a_number() -> None:
    """Which nobody has looked at here: `[1 2]` is `[12]` without its space."""
    numbers = ",".join(["1"] * json_tensor_split.LARGE)
    bodies = [
        b'{"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 9], "data": [%b]}]}' % data
        for data in (f"12,{numbers}".encode(), f"1 2,{numbers}".encode())
    ]
    assert key(bodies[0]) != key(bodies[1])


numbers = st.lists(st.integers(-9, 9) | st.sampled_from([0.5, 1.0, 1e20]), max_size=4)


@given(numbers, numbers, st.sampled_from([None, 0, 1]))
def test_other_numbers_are_other_keys(one: list[float], other: list[float], indent: int | None) -> None:
    bodies = [{"inputs": [ROW | {"shape": [1, len(data)], "data": data}]} for data in (one, other)]
    first, second = (
        key(json.dumps(body, indent=each).encode()) for body, each in zip(bodies, (None, indent), strict=True)
    )
    assert (first == second) == (repr(one) == repr(other))
