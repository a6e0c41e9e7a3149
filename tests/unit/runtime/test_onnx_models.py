"""ONNX graphs, written by hand and run by the real onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mizzen.protocol.frames import framing
from mizzen.runtime import batching
from mizzen.runtime.frameworks.model import LoadError
from mizzen.runtime.signature import TensorSpec
from tests.support.runtime import asking

FLOAT, INT64, STRING, HALF = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT16


def value(name: str, kind: int, *shape: int | str | None) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def save(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any] | None = None
) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants or [])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def weights(kind: int = FLOAT) -> Any:
    return helper.make_tensor("w", kind, [3, 2], np.arange(6.0))


def test_inputs_and_outputs_are_those_of_the_graph(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["best"], axis=1, keepdims=0),
    ]
    file = save(tmp_path / "m.onnx", nodes, [value("x", FLOAT, "n", 3)],
                [value("y", FLOAT, "n", 2), value("best", INT64, "n")], [weights()])  # fmt: skip
    model = asking.load("onnx", file, trusted=False)
    assert model.inputs == (TensorSpec("x", "FP32", (-1, 3)),)
    assert model.outputs == (TensorSpec("y", "FP32", (-1, 2)), TensorSpec("best", "INT64", (-1,)))
    assert (model.batch, model.strict) == (True, True)
    rows = np.array([[1, 0, 0], [0, 0, 1]], np.float32)
    answer = asking.ask(model, {"x": rows})
    np.testing.assert_allclose(answer["y"], [[0, 1], [4, 5]])
    assert answer["best"].tolist() == [1, 1]
    assert list(asking.ask(model, {"x": rows}, ["best"])) == ["best"]
    assert asking.ask(model, {"x": rows[:0]})["y"].shape == (0, 2)


def test_requests_share_a_call(tmp_path: Path) -> None:
    file = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [value("x", FLOAT, None, 3)], [value("y", FLOAT, None, 2)], [weights()])  # fmt: skip
    model = asking.load("onnx", file)
    requests = [asking.request({"x": np.full((1, 3), at, np.float32)}) for at in range(5)]
    results = batching.answer(model, requests).results
    assert [payload for _, payload in results][2] == (
        b'[{"name":"y","datatype":"FP32","shape":[1,2],"data":[12.0,18.0]}]'
    )


def test_a_fixed_first_size_is_asked_one_by_one(tmp_path: Path) -> None:
    file = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [value("x", FLOAT, 1, 3)], [value("y", FLOAT, 1, 2)], [weights()])  # fmt: skip
    model = asking.load("onnx", file)
    assert (model.batch, model.inputs[0].shape, model.outputs[0].shape) == (False, (1, 3), (1, 2))
    assert "must have shape [1, 3], not [2, 3]" in asking.refused(model, {"x": np.zeros((2, 3), np.float32)})
    requests = [asking.request({"x": np.zeros((1, 3), np.float32)})] * 2
    assert [status for status, _ in batching.answer(model, requests).results] == [framing.OK] * 2


def test_an_open_size_that_is_no_number_of_rows(tmp_path: Path) -> None:
    file = save(tmp_path / "m.onnx", [helper.make_node("CumSum", ["x", "axis"], ["y"])],
                [value("x", FLOAT, "length")], [value("y", FLOAT, "length")],
                [helper.make_tensor("axis", INT64, [], [0])])  # fmt: skip
    model = asking.load("onnx", file)
    assert not model.batch, "each would get its sums on top of its neighbour's"
    requests = [asking.request({"x": np.ones(2, np.float32)})] * 2
    assert [b"[1.0,2.0]" in payload for _, payload in batching.answer(model, requests).results] == [True, True]


def test_half_floats_and_texts(tmp_path: Path) -> None:
    nodes = [helper.make_node("Abs", ["h"], ["g"]), helper.make_node("Identity", ["t"], ["u"])]
    file = save(tmp_path / "m.onnx", nodes, [value("h", HALF, "n"), value("t", STRING, "n")],
                [value("g", HALF, "n"), value("u", STRING, "n")])  # fmt: skip
    model = asking.load("onnx", file)
    assert [spec.datatype for spec in (*model.inputs, *model.outputs)] == ["FP16", "BYTES", "FP16", "BYTES"]
    texts = np.array(["für", ""], object)
    answer = asking.ask(model, {"h": np.array([-1.5, 2], np.float16), "t": texts})
    assert (answer["g"].tolist(), answer["u"].tolist()) == ([1.5, 2.0], texts.tolist())
    raw = b"".join(len(text).to_bytes(4, "little") + text for text in (b"one", b"two"))
    tensors = [["h", "FP16", [2], framing.JSON, b"[1,2]"], ["t", "BYTES", [2], framing.RAW, raw]]
    [(status, payload)] = batching.answer(model, [[tensors, ["u"]]]).results
    assert (status, b'["one","two"]' in payload) == (framing.OK, True)


def test_a_zip_map_becomes_a_tensor(tmp_path: Path) -> None:
    node = helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"])
    kind = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    output = helper.make_value_info("p", helper.make_sequence_type_proto(kind))
    model = asking.load("onnx", save(tmp_path / "m.onnx", [node], [value("x", FLOAT, "n", 3)], [output]))
    assert (model.batch, model.outputs) == (True, (TensorSpec("p", "FP32", (-1, 3)),))
    rows = np.array([[0.25, 0.5, 0.25], [1, 0, 0]], np.float32)
    np.testing.assert_allclose(asking.ask(model, {"x": rows})["p"], rows)


def test_a_sequence_is_refused_by_name(tmp_path: Path) -> None:
    node = helper.make_node("SequenceConstruct", ["x"], ["s"])
    output = helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None)))
    file = save(tmp_path / "m.onnx", [node], [value("x", FLOAT, "n", 3)], [output])
    with pytest.raises(LoadError, match=r"no output of 'm.onnx' is a tensor: 's' is a seq\(tensor\(float\)\)"):
        asking.load("onnx", file)


def test_threads_are_as_many_as_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIZZEN_THREADS", "1")
    file = save(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])], [value("x", FLOAT, "n")],
                [value("y", FLOAT, "n")])  # fmt: skip
    model: Any = asking.load("onnx", file)
    assert model.session.get_session_options().intra_op_num_threads == 1
