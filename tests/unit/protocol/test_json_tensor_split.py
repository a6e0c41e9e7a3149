"""Data that is cut out of a request before the rest of it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import json_precheck, json_tensor_split, v2
from mizzen.protocol.frames import framing

NUMBERS = st.lists(
    st.one_of(st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False)), max_size=6
)
DATA = st.one_of(NUMBERS, st.lists(NUMBERS, max_size=3), st.lists(st.text(max_size=5), max_size=3), st.just([[[1]]]))
ODD = st.sampled_from(['"data":[1]', '\\"data\\":[', "[", "]]", '{"data":[1,2]}', "data", '"data":'])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    inputs: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, 3))):
        data = draw(DATA)
        tensor: dict[str, Any] = {"name": f"x{place}", "shape": [len(data)], "datatype": "FP64", "data": data}
        if draw(st.booleans()):
            tensor["parameters"] = {draw(ODD): draw(ODD), "data": draw(NUMBERS)}
        inputs.append(dict(draw(st.permutations(list(tensor.items())))))
    body: dict[str, Any] = {"inputs": inputs}
    if draw(st.booleans()):
        body["id"] = draw(ODD)
    if draw(st.booleans()):
        body["parameters"] = {"data": draw(DATA)}
    return json.dumps(body, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))).encode()


@given(bodies())
def test_what_is_cut_is_what_is_read_whole(body: bytes) -> None:
    cut = json_tensor_split.split_data(body)
    if cut is None:
        return
    request, entries = cut
    whole = v2.decode(body)
    assert [(name, kind, shape, bytes(data)) for name, kind, shape, _, data in entries] == [
        (tensor.name, tensor.datatype, tensor.shape, bytes(tensor.data)) for tensor in whole.inputs
    ]
    assert (request.id, request.parameters) == (whole.id, whole.parameters)
    assert all(encoding == framing.JSON for _, _, _, encoding, _ in entries)


@pytest.mark.parametrize("data", ["[1,2.5,-3e4]", "[[1,2],[3,4]]", "[]", "[1 2]"])
@pytest.mark.parametrize("colon", [":", ": ", " :\n\t"])
def test_lists_of_numbers_are_cut(data: str, colon: str) -> None:
    tensor = f'{{"name":"data","shape":[2],"datatype":"FP64","data"{colon}{data}}}'
    cut = json_tensor_split.split_data(f'{{"inputs":[{tensor}]}}'.encode())
    assert cut is not None
    assert bytes(cut[1][0][4]) == data.encode()


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1],"data":[2]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1]}],"parameters":{"data":[2]}}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["a]"]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[[[1],[2]]]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[[1',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1]}]',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[{"a":1}]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1]}]'
        + b" " * json_precheck.MAX_METADATA_BYTES
        + b"}",
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP64",' + b'"a":"data",' * 3000 + b'"data":[1]}]}',
        b'{"inputs":[]}',
        b"",
    ],
)
def test_what_is_not_certain_is_left_to_be_read_whole(body: bytes) -> None:
    assert json_tensor_split.split_data(body) is None
