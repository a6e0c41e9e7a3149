from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from mizzen.errors import BadRequest
from mizzen.sdk.packaging import tensors
from mizzen.sdk.packaging.tensors import ModelTensor

IRIS = (ModelTensor("input", "FP64", (-1, 4)),)
SHAPES = nps.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
NUMBERS = (
    nps.boolean_dtypes() | nps.integer_dtypes(endianness="=") | nps.unsigned_integer_dtypes(endianness="=")
    | nps.floating_dtypes(endianness="=", sizes=(16, 32, 64))
)  # fmt: skip


class Frame:
    """What we ask of a DataFrame, and no more."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = list(columns)
        self._values = {name: np.asarray(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> Frame:
        return Frame({name: self._values[name]})

    def to_numpy(self) -> Any:
        if len(self.columns) == 1:
            return self._values[self.columns[0]]
        return np.stack([self._values[name] for name in self.columns], axis=1)


def through_the_wire(inputs: Any) -> dict[str, Any]:
    sent = json.loads(json.dumps(tensors.encode(inputs), allow_nan=False))
    return dict(tensors.decode({"outputs": sent}).outputs)


@given(NUMBERS.flatmap(lambda dtype: nps.arrays(dtype, SHAPES, elements=_elements(dtype))))
def test_arrays_come_back_as_they_went(array: Any) -> None:
    back = through_the_wire({"x": array})["x"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def _elements(dtype: Any) -> Any:
    return nps.from_dtype(dtype, allow_nan=False, allow_infinity=False) if dtype.kind == "f" else None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=5))
def test_texts_come_back_as_they_went(texts: list[str]) -> None:
    back = through_the_wire({"x": texts})["x"]
    assert back.tolist() == texts


@given(nps.arrays(np.float64, nps.array_shapes(min_dims=2, max_dims=2, min_side=1), elements=st.floats(-1e6, 1e6)))
def test_lists_are_sent_as_their_arrays(array: Any) -> None:
    assert tensors.encode(array.tolist()) == tensors.encode(array)


@pytest.mark.parametrize(
    ("inputs", "datatype", "shape"),
    [
        ([1, 2, 3], "INT64", [3]),
        ([1, 2.5], "FP64", [2]),
        ([[True], [False]], "BOOL", [2, 1]),
        (["a", "b"], "BYTES", [2]),
        ([b"a"], "BYTES", [1]),
        (7, "INT64", [1]),
        ("text", "BYTES", [1]),
        (np.array([1], np.float32), "FP32", [1]),
        ([], "FP64", [0]),
    ],
)
def test_datatypes_are_inferred(inputs: Any, datatype: str, shape: list[int]) -> None:
    (tensor,) = tensors.encode(inputs)
    assert (tensor["name"], tensor["datatype"], tensor["shape"]) == ("input", datatype, shape)


def test_the_signature_gives_name_datatype_and_the_row_of_a_flat_list() -> None:
    wanted = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [5.0, 3.0, 1.0, 0.0]}
    assert tensors.encode([[5, 3, 1, 0]], IRIS) == [wanted]
    assert tensors.encode([5, 3, 1, 0], IRIS) == [wanted]
    assert tensors.encode({"input": [[5, 3, 1, 0]]}, IRIS) == [wanted]
    assert tensors.encode(np.array([[5, 3, 1, 0]], object), IRIS) == [wanted]


def test_columns_of_a_table_become_named_inputs() -> None:
    signature = (ModelTensor("age", "INT64", (-1, 1)), ModelTensor("city", "BYTES", (-1,)))
    frame = Frame({"age": [30, 40], "city": ["a", "b"]})
    age, city = tensors.encode(frame, signature)
    assert age == {"name": "age", "datatype": "INT64", "shape": [2, 1], "data": [30, 40]}
    assert city == {"name": "city", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}
    rows = np.array([[30, "a"], [40, "b"]], object)
    assert tensors.encode(rows, signature) == [age, city]
    assert [tensor["name"] for tensor in tensors.encode(frame)] == ["age", "city"]


def test_a_table_for_a_model_of_one_input_is_one_tensor() -> None:
    frame = Frame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    (tensor,) = tensors.encode(frame, (ModelTensor("input", "FP64", (-1, 2)),))
    assert (tensor["name"], tensor["shape"], tensor["data"]) == ("input", [2, 2], [1.0, 3.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("inputs", "signature", "says"),
    [
        ([[1, 2], [3]], (), "the same length"),
        ([float("nan")], (), "NaN"),
        ([1, "a"], (), "int, str"),
        ([None], (), "NoneType"),
        (np.array(["2020-01-01"], "datetime64[D]"), (), "datetime64"),
        (1 + 2j, (), "complex128"),
        ({"imput": [[1]]}, IRIS, "no input 'imput'"),
        ([["a"] * 4], IRIS, "must be FP64: 'a' is not a number"),
        ([[1, 2, 3.5, "b"]], IRIS, "must be FP64: 'b' is not a number"),
        ([[1, 2, None, 4]], IRIS, "must be FP64: null is not a number"),
        ([1.5], (ModelTensor("n", "INT64", (-1,)),), "must be INT64, not FP64"),
        ([300], (ModelTensor("n", "UINT8", (-1,)),), "must be UINT8, not INT64"),
        ([1], (ModelTensor("t", "BYTES", (-1,)),), "must be BYTES, not INT64"),
        ([[1]], (ModelTensor("a", "FP64", (-1,)), ModelTensor("b", "FP64", (-1,))), "takes 2 inputs: 'a', 'b'"),
    ],
)
def test_what_cannot_be_sent_is_explained(inputs: Any, signature: tuple[ModelTensor, ...], says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        tensors.encode(inputs, signature)
    assert says in caught.value.message


def test_prediction_with_one_output_is_an_array() -> None:
    one = {"name": "predict", "datatype": "INT64", "shape": [2], "data": [0, 1]}
    prediction = tensors.decode({"model_name": "iris", "model_version": "3", "id": "x", "outputs": [one]})
    assert (prediction.model, prediction.model_version, prediction.id) == ("iris", "3", "x")
    assert prediction.array.tolist() == [0, 1]
    two = tensors.decode({"model_name": "iris", "outputs": [one, one | {"name": "other"}]})
    with pytest.raises(BadRequest, match="2 outputs: predict, other"):
        _ = two.array


def test_v2_bodies_are_told_from_inputs_named_inputs() -> None:
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}
    assert tensors.is_v2({"inputs": [tensor]})
    assert not tensors.is_v2({"inputs": [1, 2]})
    assert not tensors.is_v2([[1, 2]])


def test_rows_may_be_objects_of_columns() -> None:
    columns = (tensors.ModelTensor("city", "BYTES", (-1,)), tensors.ModelTensor("age", "FP64", (-1,)))
    sent = tensors.encode([{"age": 3, "city": "Oslo"}, {"city": "Rome", "age": 4.5}], columns)
    assert {tensor["name"]: (tensor["datatype"], tensor["data"]) for tensor in sent} == {
        "age": ("FP64", [3.0, 4.5]),
        "city": ("BYTES", ["Oslo", "Rome"]),
    }
    with pytest.raises(BadRequest, match="all rows must have the same columns; one has city"):
        tensors.encode([{"age": 3, "city": "Oslo"}, {"city": "Rome"}], columns)
