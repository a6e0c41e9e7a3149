"""Write scores.onnx to the current folder: a graph that weighs three numbers."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

rows = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", 3])
scores = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 1])
weights = helper.make_tensor("weights", TensorProto.FLOAT, [3, 1], [1.0, 10.0, 100.0])
graph = helper.make_graph(
    [helper.make_node("MatMul", ["features", "weights"], ["score"])], "scores", [rows], [scores], [weights]
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "scores.onnx")
print("scores.onnx")
