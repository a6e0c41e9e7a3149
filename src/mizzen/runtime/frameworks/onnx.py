"""ONNX models through onnxruntime: inputs and outputs are those of the graph.

Requests share a call if the first size of every input and output is open, and two rows together give the same as each
alone. An open size may also be the length of one sequence. Converters of scikit-learn return probabilities as a
sequence of maps from class to number (ZipMap): these become a tensor with one column per class.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.content import onnx_graphs
from mizzen.runtime.estimators import row_independence
from mizzen.runtime.estimators.features import decode_text
from mizzen.runtime.estimators.warmup import example_row, try_call
from mizzen.runtime.frameworks.model import LoadError, LoadRequest, PlainModel, artifact, first_line, read_harmless
from mizzen.runtime.limits import threads
from mizzen.runtime.signature import TensorSpec

_TYPES = {
    "tensor(bool)": "BOOL", "tensor(string)": "BYTES", "tensor(float16)": "FP16", "tensor(float)": "FP32",
    "tensor(double)": "FP64", "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32",
    "tensor(int64)": "INT64", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
}  # fmt: skip
_MAPS = {"seq(map(int64,tensor(float)))", "seq(map(string,tensor(float)))"}

log = logging.getLogger("mizzen.runtime")


def load(wanted: LoadRequest, folder: Path) -> OnnxModel:
    """Load a graph. Unless it is trusted, only standard operators of ONNX run, and no other file is read."""
    file = artifact(folder, wanted.entrypoint)
    session = _open_session(
        str(file) if wanted.trusted else read_harmless(wanted, file, onnx_graphs.inspect)[0], file.name
    )
    inputs = tuple(_read_input(one) for one in session.get_inputs())
    outputs = tuple(spec for one in session.get_outputs() if (spec := _read_output(one)) is not None)
    if not outputs:
        kinds = ", ".join(f"'{one.name}' is a {one.type}" for one in session.get_outputs())
        raise LoadError(f"no output of '{wanted.entrypoint}' is a tensor: {kinds}; export the model with tensors only")
    batch = bool(inputs) and all(spec.shape[:1] == (-1,) for spec in (*inputs, *outputs))
    model = OnnxModel(session, inputs, outputs, batch)
    outputs = _agree(outputs, try_call(model, example_row(inputs), outputs))
    return replace(model, outputs=outputs, batch=batch and row_independence.rows_are_independent(model))


@dataclass(frozen=True, slots=True)
class OnnxModel(PlainModel):
    session: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch: bool
    framework: str = "onnx"
    strict: bool = True

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        names = outputs or tuple(spec.name for spec in self.outputs)
        empty = self.batch and not len(next(iter(inputs.values())))
        # Few graphs accept empty input.
        taken = example_row(self.inputs) if empty else {name: _decode(name, array) for name, array in inputs.items()}
        given = zip(names, self.session.run(list(names), taken), strict=True)
        return {name: _to_array(value)[:0] if empty else _to_array(value) for name, value in given}


def _open_session(content: str | bytes, name: str) -> Any:
    """`content`: a path, or the graph itself."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    most = threads.thread_limit(os.environ)
    if most is not None:
        options.intra_op_num_threads = most
        options.inter_op_num_threads = 1
    # Threads that spin while they wait take the cores from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise LoadError(f"'{name}' could not be read by onnxruntime: {first_line(error)}") from error


def _read_input(one: Any) -> TensorSpec:
    kind = _TYPES.get(one.type)
    if kind is None:
        raise LoadError(f"input '{one.name}' is a {one.type}, which requests cannot carry; export the model without it")
    return TensorSpec(one.name, kind, _read_shape(one.shape))


def _read_output(one: Any) -> TensorSpec | None:
    """Return the output's spec; None if a response cannot carry it. The model may still be served with its other
    outputs."""
    if one.type in _MAPS:
        return TensorSpec(one.name, "FP32", (-1, -1))
    if one.type not in _TYPES:
        log.warning("output '%s' is left out: responses cannot carry a %s", one.name, one.type)
        return None
    return TensorSpec(one.name, _TYPES[one.type], _read_shape(one.shape))


def _read_shape(sizes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) and size >= 0 else -1 for size in sizes)


def _agree(declared: tuple[TensorSpec, ...], seen: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Prefer the graph's declaration; the call only reveals how many columns a ZipMap becomes, and missing shapes."""
    shapes = {spec.name: spec.shape for spec in seen}
    return tuple(
        replace(spec, shape=shapes[spec.name]) if not spec.shape or spec.shape == (-1, -1) else spec
        for spec in declared
    )


def _decode(name: str, array: Array) -> Array:
    return decode_text(name, array) if array.dtype == object else array


def _to_array(value: Any) -> Array:
    """Return an output as an array. All maps of one answer have the same classes, in the same order."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return np.array([list(one.values()) for one in value], tensors.DATATYPES["FP32"].dtype)
        return np.asarray(value)
    return np.asarray(value)
