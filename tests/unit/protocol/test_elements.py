"""Elements without numpy: the same as `tensors` makes of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mizzen.protocol import plain_elements, tensors

NUMBERS = [name for name in tensors.DATATYPES if name != "BYTES"]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[str, tensors.Array]:
    name = draw(st.sampled_from(NUMBERS))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    return name, draw(npst.arrays(tensors.DATATYPES[name].dtype, shape))


def test_the_tables_agree() -> None:
    assert {name: kind.leaf for name, kind in tensors.DATATYPES.items()} == plain_elements.LEAVES
    for name, code in plain_elements.CODES.items():
        assert np.dtype(code).newbyteorder("<") == tensors.DATATYPES[name].dtype


@given(arrays())
def test_numbers_both_ways(given_: tuple[str, tensors.Array]) -> None:
    name, array = given_
    data = array.tobytes()
    values = plain_elements.unpack(name, list(array.shape), memoryview(data))
    np.testing.assert_array_equal(np.array(values, array.dtype).reshape(array.shape), array)
    # A signalling NaN may come out quiet: all else is the same bytes.
    assert array.dtype.kind == "f" or plain_elements.pack(name, values) == data
    np.testing.assert_array_equal(np.frombuffer(plain_elements.pack(name, values), array.dtype), array.reshape(-1))
    assert np.array(plain_elements.nest(values, array.shape), array.dtype).shape == array.shape or not array.size


@given(st.lists(st.binary(max_size=9) | st.text(max_size=9), max_size=9))
def test_bytes_both_ways(values: list[str | bytes]) -> None:
    wanted = [value.encode() if isinstance(value, str) else value for value in values]
    data = plain_elements.pack("BYTES", values)
    assert list(plain_elements.unpack("BYTES", [len(values)], data)) == wanted
    assert tensors.decode_raw("BYTES", [len(values)], data).tolist() == wanted


@given(arrays())
def test_nested_lists(given_: tuple[str, tensors.Array]) -> None:
    name, array = given_
    datatype, shape, values = plain_elements.flatten(name, array.tolist())
    assert datatype == name
    if array.size:
        assert shape == list(array.shape)
        np.testing.assert_array_equal(np.array(values, array.dtype), array.reshape(-1))
    else:
        assert (shape, values) == (list(array.shape)[: array.shape.index(0) + 1], [])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ([[1, 2]], ("INT64", [1, 2], [1, 2])),
        ([1, 2.5], ("FP64", [2], [1, 2.5])),
        ([True], ("BOOL", [1], [True])),
        ("a", ("BYTES", [], ["a"])),
    ],
)
def test_what_is_not_declared_is_what_it_looks_like(value: Any, wanted: Any) -> None:
    assert plain_elements.flatten(None, value) == wanted


@pytest.mark.parametrize("size", [0, 7, 9, 16])
@pytest.mark.parametrize("count", [1, 100])
def test_data_of_another_size(size: int, count: int) -> None:
    if size == count * 8:
        return
    with pytest.raises(ValueError, match=rf"data must be {count * 8} bytes for INT64 of shape \[{count}\], not {size}"):
        plain_elements.unpack("INT64", [count], bytes(size))


@pytest.mark.parametrize(
    ("datatype", "values"),
    [("INT8", [300]), ("UINT64", [-1]), ("INT64", [2**63]), ("FP32", [1e39]), ("FP16", [1e6]), ("FP64", [10**400])],
)
def test_numbers_beyond_their_range(datatype: str, values: list[Any]) -> None:
    with pytest.raises(ValueError, match=f"outside the range of {datatype}"):
        plain_elements.pack(datatype, values)


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "error"),
    [
        ("BOOL", [3], b"\0\2\1", "bytes 0 and 1 for BOOL"),
        ("BYTES", [1], b"\1\0\0\0", "1 elements, each a 4-byte length"),
        ("BYTES", [0], b"\0", "0 elements, each a 4-byte length"),
        ("INT64", [-1], b"", "cannot have -1 elements"),
        ("INT64", [2**62, 2], b"", "cannot have"),
        ("INT63", [1], b"", "'INT63' is not a valid datatype"),
    ],
)
def test_what_cannot_be_read(datatype: str, shape: list[int], data: bytes, error: str) -> None:
    for _ in range(2):  # also when it is remembered how
        with pytest.raises(ValueError, match=error):
            plain_elements.unpack(datatype, shape, data)


def test_too_many_dimensions() -> None:
    value: Any = 1
    for _ in range(plain_elements.MAX_RANK + 1):
        value = [value]
    with pytest.raises(ValueError, match=f"at most {plain_elements.MAX_RANK} dimensions"):
        plain_elements.flatten(None, value)


def test_a_gateway_has_no_numpy_until_something_is_large() -> None:
    program = (
        "import sys\n"
        "from mizzen.gateway.queueing import signature\n"
        "from mizzen.graph import merging, messages\n"
        "from mizzen.protocol import v1\n"
        "declared = [signature.HelloTensor('x', 'FP32', [-1, 2])]\n"
        "entries, style = messages.parse_v1(b'{\"instances\": [[1, 2]]}', declared)\n"
        "members = [merging.EnsembleMember('a', 1.0, entries), merging.EnsembleMember('b', 1.0, entries)]\n"
        "messages.to_payload(merging.mean(members))\n"
        "messages.render_v1([('a', merging.vote(members)[0])], style)\n"
        "merging.pairwise_disagreement(members)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
