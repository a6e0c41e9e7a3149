"""Loading models for tests, and asking them as a gateway does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mizzen.protocol import tensors
from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime import batching
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel


def load(framework: str, file: Path, *, trusted: bool = True, **declared: Any) -> LoadedModel:
    return registry.load(framework, file.name, file.parent, trusted=trusted, batch=False, **declared)


def request(inputs: dict[str, Array], outputs: list[str] | None = None) -> list[Any]:
    given = []
    for name, array in inputs.items():
        datatype, shape, text = tensors.encode_json(array)
        given.append([name, datatype, shape, framing.JSON, text])
    return [given, outputs]


def ask(model: LoadedModel, inputs: dict[str, Array], outputs: list[str] | None = None) -> dict[str, Array]:
    """The outputs, which must be as the model declares them."""
    [(status, payload)] = batching.answer(model, [request(inputs, outputs)]).results
    assert status == framing.OK, payload
    declared = {spec.name: spec for spec in model.outputs}
    answer = {}
    for output in json.loads(payload):
        if declared:
            assert output["datatype"] == declared[output["name"]].datatype
        dtype = tensors.DATATYPES[output["datatype"]].dtype
        answer[output["name"]] = np.array(output["data"], dtype).reshape(output["shape"])
    return answer


def refused(model: LoadedModel, inputs: dict[str, Array], outputs: list[str] | None = None) -> str:
    """What the caller is told of a request that is their fault."""
    [(status, payload)] = batching.answer(model, [request(inputs, outputs)]).results
    assert status == framing.BAD_INPUT, payload
    return payload.decode()
