"""The inspection of ONNX graphs: standard operators and inner tensors only, at any depth."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, defs, helper

from mizzen import protobuf_wire
from mizzen.runtime.content import onnx_graphs
from mizzen.runtime.content.findings import DamagedFile, Unproven
from mizzen.runtime.content.onnx_operators import MESSAGES, OPERATORS
from tests.support.examples import examples
from tests.support.runtime.untrusted import graph, outside_tensor

FLOAT = TensorProto.FLOAT
OUTSIDE = outside_tensor("../../admin-token")
CUSTOM = helper.make_node("Run", ["x", "w"], ["y"], domain="com.microsoft")


def inspect(model: Any) -> None:
    onnx_graphs.inspect(model.SerializeToString())


def branch(node: Any) -> Any:
    return helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("y", FLOAT, ["n", 2])])


def conditional(inner: Any) -> Any:
    plain = helper.make_node("MatMul", ["x", "w"], ["y"])
    return helper.make_node("If", ["c"], ["y"], then_branch=branch(plain), else_branch=branch(inner))


def test_standard_graphs_are_harmless() -> None:
    inspect(graph())
    inspect(graph(domains=("", "ai.onnx.ml")))
    inspect(graph([conditional(helper.make_node("Abs", ["x"], ["y"]))]))
    described = graph()
    described.doc_string, described.producer_name = "text", "test"
    described.metadata_props.append(onnx.StringStringEntryProto(key="author", value="ann"))
    inspect(described)


def test_our_lists_are_of_names_that_exist() -> None:
    known = {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}
    assert {("", name) for name in OPERATORS[""]} | {("ai.onnx.ml", name) for name in OPERATORS["ai.onnx.ml"]} <= known
    protos: dict[str, Any] = {
        "Model": onnx.ModelProto, "Graph": onnx.GraphProto, "Node": onnx.NodeProto, "Attribute": onnx.AttributeProto,
        "Tensor": onnx.TensorProto, "Sparse": onnx.SparseTensorProto, "Opset": onnx.OperatorSetIdProto,
        "Metadata": onnx.StringStringEntryProto, "Value": onnx.ValueInfoProto, "Annotation": onnx.TensorAnnotation,
    }  # fmt: skip
    for name, proto in protos.items():
        fields = {field.number: field for field in proto.DESCRIPTOR.fields}
        assert set(MESSAGES[name]) <= set(fields), name
        nested = {
            number
            for number, field in fields.items()
            if field.message_type is not None and field.message_type.name in ("TensorProto", "GraphProto", "NodeProto",
                                                                             "AttributeProto", "SparseTensorProto")
        }  # fmt: skip
        assert all(MESSAGES[name].get(number, "unknown") is not None for number in nested), name


def add_function(model: Any) -> None:
    model.functions.append(helper.make_function("com.example", "F", ["a"], ["b"], [], [helper.make_opsetid("", 17)]))


def add_metadata(model: Any) -> None:
    model.metadata_props.append(onnx.StringStringEntryProto(key="ort_config", value="{}"))


def constant(tensor: Any) -> Any:
    return helper.make_node("Constant", [], ["y"], value=tensor)


def sparse(values: Any) -> Any:
    made = TensorProto(name="i", data_type=TensorProto.INT64, dims=[1])
    return helper.make_node("Constant", [], ["y"], sparse_value=onnx.SparseTensorProto(values=values, indices=made))


@pytest.mark.parametrize(
    ("model", "finding"),
    [
        (lambda: graph(weights=OUTSIDE), "stored in another file"),
        (lambda: graph([constant(OUTSIDE)]), "stored in another file"),
        (lambda: graph([sparse(OUTSIDE)]), "stored in another file"),
        (lambda: graph([conditional(constant(OUTSIDE))]), "stored in another file"),
        (lambda: graph([conditional(conditional(constant(OUTSIDE)))]), "stored in another file"),
        (lambda: graph([CUSTOM]), "domain 'com.microsoft'"),
        (lambda: graph([conditional(CUSTOM)]), "domain 'com.microsoft'"),
        (lambda: graph(domains=("", "com.example")), "domain 'com.example'"),
        (lambda: graph([helper.make_node("ImageDecoder", ["x"], ["y"])]), "operator 'ImageDecoder'"),
        (lambda: graph([helper.make_node("Abs", ["x"], ["y"], domain="ai.onnx.ml")]), "operator 'Abs'"),
    ],
)
def test_what_leads_out_of_the_file_needs_trust(model: Callable[[], Any], finding: str) -> None:
    with pytest.raises(Unproven, match=finding):
        inspect(model())


@pytest.mark.parametrize(
    ("change", "finding"), [(add_function, "its Model has the field 25"), (add_metadata, "options for onnxruntime")]
)
def test_what_else_a_model_can_hold(change: Callable[[Any], None], finding: str) -> None:
    model = graph()
    change(model)
    with pytest.raises(Unproven, match=finding):
        inspect(model)


def test_each_field_of_a_name_counts() -> None:
    """Of two, parsers take the last one; a message in two parts is merged."""
    node = helper.make_node("Abs", ["x"], ["y"]).SerializeToString()
    twice = node + protobuf_wire.encode_field(4, b"Run")
    model = protobuf_wire.encode_field(7, protobuf_wire.encode_field(1, twice))
    with pytest.raises(Unproven, match="two fields 'type'"):
        onnx_graphs.inspect(model)
    hidden = protobuf_wire.encode_field(7, protobuf_wire.encode_field(1, CUSTOM.SerializeToString()))
    with pytest.raises(Unproven, match=r"'com\.microsoft'"):
        onnx_graphs.inspect(graph().SerializeToString() + hidden)


def test_unusual_depths_and_formats() -> None:
    inner = b""
    for _ in range(60):
        inner = protobuf_wire.encode_field(1, protobuf_wire.encode_field(5, protobuf_wire.encode_field(6, inner)))
    with pytest.raises(Unproven, match="nested too deeply"):
        onnx_graphs.inspect(protobuf_wire.encode_field(7, inner))
    with pytest.raises(Unproven, match="onnxruntime's own format"):
        onnx_graphs.inspect(b"\0\0\0\0ORTM" + bytes(50))
    with pytest.raises(DamagedFile, match="not an ONNX file"):
        onnx_graphs.inspect(graph().SerializeToString()[:-1])
    large = helper.make_tensor("w", FLOAT, [4, 250_000], np.zeros(1_000_000, np.float32))
    inspect(graph(weights=large))


WHOLE = graph([conditional(helper.make_node("Abs", ["x"], ["y"]))]).SerializeToString()


@settings(max_examples=examples(500), deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=4), st.integers(0, 3))
def test_damage_is_never_a_surprise(at: int, put: bytes, removed: int) -> None:
    place = at % len(WHOLE)
    with contextlib.suppress(Unproven, DamagedFile):
        onnx_graphs.inspect(WHOLE[:place] + put + WHOLE[place + removed :])
