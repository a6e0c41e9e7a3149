"""Requests that are read by hand are read as the parser of everybody else reads them."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen import protobuf_wire
from mizzen.gateway.grpc.wire import message_types, typed_contents
from mizzen.gateway.grpc.wire.infer_request import (
    MAX_CACHED,
    MAX_CACHED_BYTES,
    MAX_FIELDS,
    InferRequestMessage,
    InferRequestParser,
)
from mizzen.protobuf_wire import Malformed
from mizzen.protocol import v2

Message = message_types.class_of("inference.ModelInferRequest")
Contents = message_types.class_of("inference.InferTensorContents")

TEXTS = st.text(min_size=1, max_size=6)
PARAMETERS = st.dictionaries(
    TEXTS,
    st.one_of(
        st.booleans().map(lambda value: {"bool_param": value}),
        st.integers(-(2**63), 2**63 - 1).map(lambda value: {"int64_param": value}),
        st.integers(0, 2**64 - 1).map(lambda value: {"uint64_param": value}),
        st.floats(allow_nan=False).map(lambda value: {"double_param": value}),
        st.text(max_size=5).map(lambda value: {"string_param": value}),
    ),
    max_size=2,
)
INPUTS = st.lists(
    st.fixed_dictionaries({
        "name": TEXTS, "datatype": st.sampled_from(["FP64", "INT8", "BYTES"]),
        "shape": st.lists(st.integers(0, 300), max_size=3), "parameters": PARAMETERS,
    }),
    min_size=1, max_size=3, unique_by=lambda each: str(each["name"]),
)  # fmt: skip
OUTPUTS = st.lists(
    st.fixed_dictionaries({"name": TEXTS, "parameters": PARAMETERS}),
    max_size=2,
    unique_by=lambda each: str(each["name"]),
)
REQUESTS = st.builds(
    Message, model_name=TEXTS, model_version=st.text(max_size=3), id=st.text(max_size=5), parameters=PARAMETERS,
    inputs=INPUTS, outputs=OUTPUTS, raw_input_contents=st.lists(st.binary(max_size=200), max_size=3),
)  # fmt: skip


def values(parameters: Any) -> dict[str, Any] | None:
    return {name: getattr(each, each.WhichOneof("parameter_choice")) for name, each in parameters.items()} or None


@given(REQUESTS, st.binary(max_size=3).map(lambda junk: protobuf_wire.encode_field(1000 >> 6, junk)))
def test_they_say_what_the_message_says(message: Any, unknown: bytes) -> None:
    reader = InferRequestParser()
    for _ in range(2):  # read, and remembered
        given = reader.parse(message.SerializeToString() + unknown)
        described, request = given.described, given.described.request
        assert (described.model, described.version) == (message.model_name, message.model_version)
        assert given.id.decode() == message.id
        assert [bytes(raw) for raw in given.raw] == list(message.raw_input_contents)
        if request is None:
            assert described.fault.startswith(("parameters.", "outputs["))
            return
        assert [(each.name, each.datatype, each.shape, each.parameters) for each in request.inputs] == [
            (each.name, each.datatype, list(each.shape), values(each.parameters)) for each in message.inputs
        ]
        assert request.parameters == values(message.parameters)
        assert [(each.name, each.parameters) for each in request.outputs or ()] == [
            (each.name, values(each.parameters)) for each in message.outputs
        ]


@given(st.binary(max_size=60) | st.builds(lambda message, at, byte: _changed(message.SerializeToString(), at, byte),
                                          REQUESTS, st.integers(0, 200), st.integers(0, 255)))  # fmt: skip
def test_what_is_no_message_is_malformed_and_never_worse(data: bytes) -> None:
    try:
        given = InferRequestParser().parse(data)
    except Malformed:
        return
    assert isinstance(given, InferRequestMessage)
    for place, pieces in enumerate(given.described.contents or ()):
        with suppress(ValueError):
            typed_contents.run_to_end(typed_contents.convert_in_steps(pieces, "INT64", place))


def _changed(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes((byte,)) + data[at + 1 :]


def test_requests_that_differ_in_id_and_data_are_read_once() -> None:
    reader = InferRequestParser()
    message = Message(model_name="m", inputs=[{"name": "x", "datatype": "FP64", "shape": [1]}])
    first = reader.parse(message.SerializeToString())
    message.id = "another"
    message.raw_input_contents.append(b"12345678")
    second = reader.parse(message.SerializeToString())
    assert first.described is second.described
    assert (second.id, [bytes(raw) for raw in second.raw]) == (b"another", [b"12345678"])
    message.inputs[0].contents.fp64_contents.append(1.0)
    third = reader.parse(message.SerializeToString())
    assert reader.parse(message.SerializeToString()).described is not third.described


@pytest.mark.parametrize(
    "large", [Message(model_name="m", inputs=[{"name": "x" * 1000}] * 2), Message(inputs=[{}] * 20)]
)
def test_who_asks_is_settled_before_much_is_read(large: Any) -> None:
    def refuse() -> None:
        raise PermissionError

    reader = InferRequestParser()
    reader.parse(Message(model_name="m", inputs=[{"name": "x", "datatype": "FP64"}]).SerializeToString(), refuse)
    with pytest.raises(PermissionError):
        reader.parse(large.SerializeToString(), refuse)


def test_not_everything_is_remembered() -> None:
    reader = InferRequestParser()
    for count in range(3 * MAX_CACHED):
        reader.parse(Message(model_name=f"m{count}", inputs=[{"name": "x", "datatype": "FP64"}]).SerializeToString())
    known = len(reader._cache)
    inputs = [{"name": "x" * 500, "datatype": "FP64"}] * (MAX_CACHED_BYTES // 500 + 1)
    reader.parse(Message(model_name="long", inputs=inputs).SerializeToString())
    assert len(reader._cache) == known <= MAX_CACHED


@pytest.mark.parametrize("part", [b"\x2a\x00", b"\x32\x00", b"\x22\x00", b"\x3a\x00", b"\x52\x00", b"\x58\x01"])
def test_few_bytes_do_not_become_many_objects(part: bytes) -> None:
    with pytest.raises(Malformed, match="too many"):
        InferRequestParser().parse(part * (MAX_FIELDS + 2))


def test_nor_those_within_an_input() -> None:
    with pytest.raises(Malformed, match="too many"):
        InferRequestParser().parse(protobuf_wire.encode_field(5, b"\x22\x00" * MAX_FIELDS))
    with pytest.raises(Malformed, match="too many"):
        InferRequestParser().parse(protobuf_wire.encode_field(5, protobuf_wire.encode_field(3, b"\x01" * MAX_FIELDS)))


@pytest.mark.parametrize(
    ("inputs", "fault"),
    [
        ([], "inputs: expected a list of 1 to 1024 tensors"),
        ([{"datatype": "FP64"}], "inputs[0].name: expected a non-empty string"),
        ([{"name": "x", "datatype": "FP65"}], "inputs[0].datatype: expected one of BOOL"),
        ([{"name": "x", "datatype": "FP64", "shape": [-1]}], "inputs[0].shape[0]: expected an integer from 0"),
        (
            [{"name": "x", "datatype": "FP64", "shape": [1] * 33}],
            "inputs[0].shape: expected a list of at most 32 integers",
        ),
        ([{"name": "x", "datatype": "FP64", "shape": [2**20] * 2}], "inputs[0].shape: more than"),
        ([{"name": "x", "datatype": "FP64"}] * 2, "inputs[1].name: 'x' is used twice"),
        ([{"name": "x", "datatype": "FP64"}] * (v2.MAX_TENSORS + 1), "inputs: expected a list of 1 to 1024 tensors"),
        (
            [{"name": "x", "datatype": "FP64", "parameters": {"shared_memory_region": {"string_param": "r"}}}],
            "inputs[0].parameters.shared_memory_region: is not supported",
        ),
    ],
)
def test_faults_are_told_in_the_words_of_rest(inputs: list[dict[str, Any]], fault: str) -> None:
    given = InferRequestParser().parse(Message(model_name="m", inputs=inputs).SerializeToString())
    assert given.described.fault.startswith(fault)


INTEGERS = {
    "INT8": ("int_contents", 1), "INT16": ("int_contents", 2), "INT32": ("int_contents", 4),
    "INT64": ("int64_contents", 8), "UINT8": ("uint_contents", 1), "UINT16": ("uint_contents", 2),
    "UINT32": ("uint_contents", 4), "UINT64": ("uint64_contents", 8),
}  # fmt: skip


@given(st.data())
def test_values_that_come_one_by_one_are_the_bytes_they_stand_for(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*INTEGERS, "BOOL", "FP32", "FP64", "BYTES"]))
    given: list[Any]
    if kind in INTEGERS:
        field, size = INTEGERS[kind]
        signed = not kind.startswith("U")
        low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)
        given = data.draw(st.lists(st.integers(low, high) | st.integers(0, 100), max_size=200))
        wanted = b"".join(value.to_bytes(size, "little", signed=signed) for value in given)
    elif kind == "BOOL":
        field, given = "bool_contents", data.draw(st.lists(st.booleans()))
        wanted = bytes(given)
    elif kind == "BYTES":
        field, given = "bytes_contents", data.draw(st.lists(st.binary(max_size=200)))
        wanted = b"".join(len(value).to_bytes(4, "little") + value for value in given)
    else:
        field, width = ("fp32_contents", 32) if kind == "FP32" else ("fp64_contents", 64)
        given = data.draw(st.lists(st.floats(width=width, allow_nan=False)))  # type: ignore[arg-type]
        wanted = array("f" if width == 32 else "d", given).tobytes()
    cut = data.draw(st.integers(0, len(given)))
    pieces = [Contents(**{field: part}).SerializeToString() for part in (given[:cut], given[cut:])]
    assert (
        typed_contents.run_to_end(typed_contents.convert_in_steps(map(memoryview, pieces), kind, 0)).tobytes() == wanted
    )


def test_many_values_are_read_in_steps_and_no_more_than_may_be() -> None:
    packed = memoryview(Contents(int64_contents=range(200_000)).SerializeToString())
    assert sum(1 for _ in typed_contents.convert_in_steps([packed], "INT64", 0)) > 10
    assert len(typed_contents.run_to_end(typed_contents.convert_in_steps([packed], "INT64", 0))) == 8 * 200_000
    with pytest.raises(Exception, match="more than 1000 bytes"):
        typed_contents.run_to_end(typed_contents.convert_in_steps([packed], "INT64", 0, 1000))


@pytest.mark.parametrize(
    ("kind", "given", "fault"),
    [
        ("FP16", {}, "inputs[3].datatype: FP16 must be sent in raw_input_contents"),
        ("FP32", {"fp64_contents": [1.0]}, "inputs[3].contents.fp64_contents: FP32 must be in fp32_contents"),
        (
            "BYTES",
            {"bytes_contents": [b"x"], "int_contents": [1]},
            "inputs[3].contents.int_contents: BYTES must be in",
        ),
        ("INT8", {"int_contents": [1, 300]}, "inputs[3].contents.int_contents: out of range for INT8"),
    ],
)
def test_values_of_another_type_are_refused(kind: str, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match="^" + fault.replace("[", r"\[")):
        typed_contents.run_to_end(
            typed_contents.convert_in_steps([memoryview(Contents(**given).SerializeToString())], kind, 3)
        )


def test_numbers_that_come_in_thousands_of_pieces_are_not_taken() -> None:
    one = Contents(int64_contents=[1]).SerializeToString()
    assert typed_contents.run_to_end(typed_contents.convert_in_steps([memoryview(one * 3)], "INT64", 0)).nbytes == 24
    with pytest.raises(ValueError, match="its values must be packed"):
        typed_contents.run_to_end(typed_contents.convert_in_steps([memoryview(one * 5000)], "INT64", 0))


def test_among_texts_what_is_not_known_is_left_out_and_what_is_cut_off_is_said() -> None:
    text, unknown = protobuf_wire.encode_field(8, b"ab"), protobuf_wire.encode_field(9, b"?") + b"\x50\x07"
    given = memoryview(text + unknown + text)
    assert (
        typed_contents.run_to_end(typed_contents.convert_in_steps([given], "BYTES", 0)).tobytes() == b"\2\0\0\0ab" * 2
    )
    for cut in (1, 2, 3):
        with pytest.raises(Malformed):
            typed_contents.run_to_end(typed_contents.convert_in_steps([given[:cut]], "BYTES", 0))
