"""Large texts are measured before they are decoded: what is too much, or cannot fit, costs next to nothing."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import json_size, tensors

MANY = json_size.MAX_LISTS + 500


@pytest.mark.parametrize(
    ("datatype", "shape", "text", "says"),
    [
        ("FP32", [2, 2], b"[" + b"[]," * MANY + b"4]", f"{MANY} inner lists, more than {json_size.MAX_LISTS}"),
        ("FP64", [MANY, 1], b"[" + b"[]," * (MANY - 1) + b"[ ]]", "send its elements as one flat list"),
        ("BYTES", [MANY, 1], b'[["["],' + b"[]," * MANY + b'["a"]]', f"{MANY + 2} inner lists"),
        ("FP32", [4], b"[" + b"1," * MANY + b"1]", f"data does not fit shape [4]: {MANY + 1} elements, expected 4"),
        ("INT64", [0], b"[" + b"1," * MANY + b"1]", f"shape [0]: {MANY + 1} elements, expected 0"),
        ("FP64", [2, 2], b"[" + b"[1,1]," * 20_000 + b"1]", "40001 elements in 20001 lists, expected 4 in 3"),
    ],
)
def test_what_cannot_be_right_is_refused_without_making_it(
    datatype: str, shape: list[int], text: bytes, says: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="data ") as refused:
            tensors.decode_json(datatype, shape, text)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert says in str(refused.value)
    assert most < 10 * json_size._PIECE, f"{most} bytes for a text of {len(text)}"


@pytest.mark.parametrize(
    ("datatype", "shape", "nested"),
    [("FP32", (3, 20_000), True), ("FP64", (60_000, 2), True), ("INT64", (50_000,), False),
     ("FP64", (40_000, 2), False), ("UINT8", (30_000, 2, 2), True), ("INT64", (40_000, 0), True)],
)  # fmt: skip
def test_what_is_right_passes_however_it_is_nested(datatype: str, shape: tuple[int, ...], nested: bool) -> None:
    wanted = (np.arange(np.prod(shape)) % 200).reshape(shape).astype(tensors.DATATYPES[datatype].dtype)
    text = json.dumps(wanted.tolist() if nested else wanted.reshape(-1).tolist()).encode()
    assert len(text) > json_size.LARGE
    np.testing.assert_array_equal(tensors.decode_json(datatype, list(shape), text), wanted)


def test_brackets_within_strings_are_no_lists() -> None:
    words = ["[" * (json_size.MAX_LISTS // 2), '\\"]', "[" * json_size.MAX_LISTS]
    text = json.dumps(words).encode()
    np.testing.assert_array_equal(tensors.decode_json("BYTES", [3], text), np.array(words, object))


_LEAVES = st.none() | st.integers() | st.text('a"\\[]{},')
_DOCUMENTS = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text('a"\\['), inner))


@given(_DOCUMENTS, st.integers(1, 40))
def test_the_count_is_exact_also_over_the_joints_of_pieces(document: object, piece: int) -> None:
    text = json.dumps(document).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "MAX_LISTS", 0)
        patch.setattr(json_size, "_PIECE", piece)
        assert json_size.count_containers(text) == _containers(document)


def _containers(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_containers, value.values()))
    return 1 + sum(map(_containers, value)) if isinstance(value, list) else 0
