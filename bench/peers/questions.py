"""What is asked of every server, in the dialect that it speaks, and how its answers are read.

A case is a model, rows and the right answer. Every server gets the same numbers; a dialect only wraps them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import members

Rows = list[list[float]]

JSON = "application/json"
BYTES = "application/octet-stream"
GRPC = "application/grpc"
GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"
HEADER_LENGTH = "Inference-Header-Content-Length"
OUTPUT = "predict"
MEMBERS = "members"
"""The folder of models that are asked together."""
LABELS = ("outputs", "predictions", "output", "data")
"""Under which of these keys an answer has its numbers; outer ones first."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    model: str
    """The file without its ending; empty: no model, what came goes back."""
    rows: Rows
    right: list[float]
    connections: tuple[int, ...]
    binary: bool = False
    """Numbers travel as bytes, where a server can take them so."""
    grpc: bool = False
    """Asked over gRPC, of those who speak it."""
    members: tuple[str, ...] = ()
    """Files of models, in place of `model`, the mean of whose answers is asked for."""
    longer: int = 1
    """So many times the usual window, where a request takes long: enough of them must be answered in it."""


@dataclass(frozen=True, slots=True)
class Question:
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON})


def v2(rows: Rows) -> Question:
    """The Open Inference Protocol."""
    return Question(_json({"inputs": [_tensor(rows) | {"data": _flat(rows)}]}))


def v2_binary(rows: Rows) -> Question:
    """Its binary extension, for the answer, too."""
    data = raw(rows).body
    tensor = _tensor(rows) | {"parameters": {"binary_data_size": len(data)}}
    head = _json({"inputs": [tensor], "outputs": [{"name": OUTPUT, "parameters": {"binary_data": True}}]})
    return Question(head + data, {"Content-Type": BYTES, HEADER_LENGTH: str(len(head))})


def v2_grpc(rows: Rows) -> Question:
    """The Open Inference Protocol over gRPC, with numbers as bytes: a message behind its prefix."""
    from mizzen.gateway.grpc.wire import message_types

    message = message_types.class_of("inference.ModelInferRequest")(model_name="m", raw_input_contents=[raw(rows).body])
    message.inputs.add(**_tensor(rows))
    data = message.SerializeToString()
    return Question(struct.pack(">BL", 0, len(data)) + data, {"Content-Type": GRPC, "TE": "trailers"})


def named(rows: Rows) -> Question:
    """JSON of one's own, where a server leaves that to the author."""
    return Question(_json({"x": rows}))


def single(rows: Rows) -> Question:
    """One row without a list around it, where the server itself stacks rows of several callers."""
    return Question(_json({"x": rows[0]}))


def inputs(rows: Rows) -> Question:
    """MLflow's."""
    return Question(_json({"inputs": rows}))


def raw(rows: Rows) -> Question:
    """Nothing but the numbers."""
    flat = _flat(rows)
    return Question(struct.pack(f"<{len(flat)}d", *flat), {"Content-Type": BYTES})


Dialect = Callable[[Rows], Question]


def answer(body: bytes, headers: Mapping[str, str]) -> list[float]:
    """The numbers in an answer of any dialect. ValueError, KeyError or TypeError when there are none to be read."""
    if headers.get("Content-Type") == GRPC:
        return _of_message(body)
    length = next((int(value) for name, value in headers.items() if name.lower() == HEADER_LENGTH.lower()), 0)
    if not length:
        return _numbers(json.loads(body))
    tensor = json.loads(body[:length])["outputs"][0]
    kind = {"INT64": "q", "FP64": "d", "INT32": "i"}[tensor["datatype"]]
    return list(struct.unpack(f"<{len(body[length:]) // struct.calcsize(kind)}{kind}", body[length:]))


def is_right(given: Sequence[float], wanted: Sequence[float]) -> bool:
    return len(given) == len(wanted) and all(abs(a - b) < 1e-6 for a, b in zip(given, wanted, strict=True))


def train(folder: Path) -> list[Case]:
    """Write the files of all models, and say what is to be asked of them."""
    import joblib
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    flowers, kinds = load_iris(return_X_y=True)
    cells, malign = load_breast_cancer(return_X_y=True)
    models = {
        "iris": LogisticRegression(max_iter=1000).fit(flowers, kinds),
        "wide": LogisticRegression(max_iter=5000).fit(cells / cells.max(axis=0), malign),
        "forest": RandomForestClassifier(n_estimators=200, random_state=0).fit(cells, malign),
    }
    for name, model in models.items():
        joblib.dump(model, folder / f"{name}.joblib")
    one, many, tree = flowers[:1], np.random.default_rng(0).random((1000, 30)), cells[:1]

    def rows(array: Any) -> Rows:
        return [[float(value) for value in row] for row in array]

    def labels(name: str, array: Any) -> list[float]:
        return [int(label) for label in models[name].predict(array)]

    wide = labels("wide", many)
    three = members.train(folder / MEMBERS)
    return [
        Case("iris", "one row of iris", "iris", rows(one), labels("iris", one), (1, 16, 64)),
        Case("grpc", "one row of iris over gRPC", "iris", rows(one), labels("iris", one), (1, 16, 64), grpc=True),
        Case("noop", "a model that does nothing", "", rows(one), rows(one)[0], (64,)),
        Case("json", "1000 x 30 numbers as JSON", "wide", rows(many), wide, (4,)),
        Case("binary", "1000 x 30 numbers as bytes", "wide", rows(many), wide, (4,), binary=True),
        Case("forest", "200 trees, one row", "forest", rows(tree), labels("forest", tree), (64,), longer=2),
        Case(
            "ensemble",
            "the mean of three models of iris",
            "ensemble",
            [members.ROW],
            [members.MEAN],
            (16,),
            members=tuple(three),
        ),
    ]


def _of_message(body: bytes) -> list[float]:
    """In whichever of the two ways a server answers."""
    from mizzen.gateway.grpc.wire import message_types

    answer = message_types.class_of("inference.ModelInferResponse").FromString(body)
    tensor = answer.outputs[0]
    if not answer.raw_output_contents:
        return [number for _, numbers in tensor.contents.ListFields() for number in numbers]
    data = answer.raw_output_contents[0]
    kind = {"INT64": "q", "FP64": "d", "INT32": "i"}[tensor.datatype]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


def _tensor(rows: Rows) -> dict[str, Any]:
    return {"name": "input", "shape": [len(rows), len(rows[0])], "datatype": "FP64"}


def _flat(rows: Rows) -> list[float]:
    return [value for row in rows for value in row]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        key = next((key for key in LABELS if key in value), None)
        if key is None:
            raise ValueError(f"no numbers in an answer with {sorted(value)}")
        return _numbers(value[key])
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return [value]
