"""Where the programs of this folder ask, and with whose token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

ROWS = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.1, 5.6, 2.4]])
PREDICTED = [0, 2]
GRAPHS = {"iris-split": "INT64", "iris-bandit": "INT64", "iris-mean": "FP64", "iris-chain": "INT64"}
"""All of them answer as `iris` does; the datatype of `predict`. A mean is a fraction."""


def told() -> dict[str, str]:
    """`url` without a scheme, `grpc` where that is answered, `admin` and `ann`: tokens."""
    found: dict[str, str] = json.loads((Path.home() / "inference.json").read_text())
    return found


def client() -> triton.InferenceServerClient:
    return triton.InferenceServerClient(told()["url"])


def headers(who: str = "admin") -> dict[str, str]:
    return {"Authorization": f"Bearer {told()[who]}"}


def tensor(name: str, values: Any, datatype: str, *, binary: bool = True, module: Any = triton) -> Any:
    array = np.asarray(values)
    given = module.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array, binary_data=binary)
    return given


def rows(*, binary: bool = True, datatype: str = "FP64", module: Any = triton) -> Any:
    return tensor("input", ROWS.astype({"FP64": "f8", "FP32": "f4"}[datatype]), datatype, binary=binary, module=module)


def refused(code: int, call: Any, *given: Any, **named: Any) -> str:
    """What somebody reads whose call is answered with this code."""
    try:
        call(*given, **named)
    except InferenceServerException as error:
        assert error.status() == str(code), error
        return str(error.message())
    raise AssertionError(f"no error, where {code} was due")
