"""MLflow's Python functions: any model that `mlflow.pyfunc` can load, called according to its signature.

With a signature of columns, each column is a tensor, passed as a DataFrame; a signature of tensors is used unchanged.
Without a signature any input is accepted: one tensor as an array, several as a dict of arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import pandas as pd

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators.features import INPUT, decode_text
from mizzen.runtime.estimators.warmup import example_row, try_call
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, first_line
from mizzen.runtime.signature import TensorSpec

OUTPUT = "predict"
_COLUMNS = {
    "boolean": "BOOL", "integer": "INT32", "long": "INT64", "float": "FP32", "double": "FP64", "string": "BYTES",
}  # fmt: skip


def load(wanted: LoadRequest, folder: Path, description: Mapping[str, Any]) -> LoadedModel:
    """`description`: the content of the file MLmodel."""
    signature = description.get("signature")
    inputs, columns = _parse_inputs(signature.get("inputs") if isinstance(signature, Mapping) else None)
    try:
        function = mlflow.pyfunc.load_model(str(folder))
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise LoadError(f"MLflow cannot load '{wanted.entrypoint}': {first_line(error)}") from error
    model = PyfuncModel(function, columns, wanted.batch, inputs)
    return replace(model, outputs=try_call(model, example_row(inputs), ())) if inputs else model


@dataclass(frozen=True, slots=True)
class PyfuncModel:
    function: Any
    columns: bool
    """Whether it takes a DataFrame."""
    batch: bool
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    refuses: frozenset[str] = frozenset()
    framework: str = "mlflow"

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    @property
    def table(self) -> TensorSpec | None:
        numbers = self.columns and len(self.inputs) > 1 and {spec.datatype for spec in self.inputs} == {"FP64"}
        return TensorSpec(INPUT, "FP64", (-1, len(self.inputs))) if numbers else None

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        found = dict(_name_outputs(self.function.predict(self._to_frame(inputs))))
        return {name: found[name] for name in outputs if name in found} if outputs else found

    def close(self) -> None:
        pass

    def _to_frame(self, given: dict[str, Array]) -> Any:
        plain = {name: decode_text(name, array) if array.dtype == object else array for name, array in given.items()}
        if not self.columns:
            return next(iter(plain.values())) if len(plain) == 1 else plain
        names = [spec.name for spec in self.inputs]
        if self.table is not None and list(plain) == [INPUT]:
            return pd.DataFrame(plain[INPUT], columns=names)
        return pd.DataFrame({name: plain[name] for name in names})


def _parse_inputs(text: Any) -> tuple[tuple[TensorSpec, ...], bool]:
    """Return the inputs of an MLflow signature, and whether it is of columns; none if tensors cannot express it."""
    try:
        declared = json.loads(text) if isinstance(text, str) else []
        plain = tuple(_parse_spec(one, place) for place, one in enumerate(declared))
    except (ValueError, KeyError, TypeError):
        return (), True
    if len({spec.name for spec in plain}) < len(plain):
        return (), True
    return plain, bool(declared) and declared[0]["type"] != "tensor"


def _parse_spec(declared: Mapping[str, Any], place: int) -> TensorSpec:
    """Raises KeyError or ValueError for a type that is not a tensor, such as a map or an optional column."""
    name = declared.get("name") or (INPUT if place == 0 else f"{INPUT}_{place}")
    if declared["type"] != "tensor":
        if not declared.get("required", True):
            raise ValueError("an optional column")
        return TensorSpec(name, _COLUMNS[declared["type"]], (-1,))
    dtype = np.dtype(declared["tensor-spec"]["dtype"])
    kind = "BYTES" if dtype.kind in "OUS" else tensors.as_datatype(np.empty(0, dtype))[0].name
    return TensorSpec(name, kind, tuple(declared["tensor-spec"]["shape"]))


def _name_outputs(result: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(result, pd.DataFrame | Mapping):  # a column, too, becomes an array
        yield from ((str(name), np.asarray(result[name])) for name in result)
    else:
        yield OUTPUT, np.asarray(result)
