"""MLflow's Python functions: any model that `mlflow.pyfunc` can load, called according to its signature.

With a signature of columns, each column is a tensor, passed as a DataFrame; a signature of tensors is used unchanged.
Without a signature any input is accepted: one tensor as an array, several as a dict of arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest
from mizzen.runtime.signature import TensorSpec

OUTPUT = "predict"
_COLUMNS = {
    "boolean": "BOOL", "integer": "INT32", "long": "INT64", "float": "FP32", "double": "FP64", "string": "BYTES",
}  # fmt: skip


def load(wanted: LoadRequest, folder: Path, description: Mapping[str, Any]) -> LoadedModel:
    """`description`: the content of the file MLmodel."""
    signature = description.get("signature")
    said = signature.get("inputs") if isinstance(signature, Mapping) else None
    inputs, columns = _inputs(said)
    try:
        function = mlflow.pyfunc.load_model(str(folder))
    except ModuleNotFoundError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise LoadError(f"MLflow cannot load '{wanted.entrypoint}': {type(error).__name__}: {first}") from error
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
        found = dict(_by_name(self.function.predict(self._to_frame(inputs))))
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


def _inputs(text: Any) -> tuple[tuple[TensorSpec, ...], bool]:
    """Return the inputs of an MLflow signature, and whether it is of columns; none if tensors cannot express it."""
    try:
        said = json.loads(text) if isinstance(text, str) else []
        plain = tuple(_spec(one, place) for place, one in enumerate(said))
    except (ValueError, KeyError, TypeError):
        return (), True
    if len({spec.name for spec in plain}) < len(plain):
        return (), True
    return plain, bool(said) and said[0]["type"] != "tensor"


def _spec(said: Mapping[str, Any], place: int) -> TensorSpec:
    """Raises KeyError or ValueError for a type that is not a tensor, such as a map or an optional column."""
    name = said.get("name") or (INPUT if place == 0 else f"{INPUT}_{place}")
    if said["type"] != "tensor":
        if not said.get("required", True):
            raise ValueError("an optional column")
        return TensorSpec(name, _COLUMNS[said["type"]], (-1,))
    dtype = np.dtype(said["tensor-spec"]["dtype"])
    kind = "BYTES" if dtype.kind in "OUS" else tensors.as_datatype(np.empty(0, dtype))[0].name
    return TensorSpec(name, kind, tuple(said["tensor-spec"]["shape"]))


def _by_name(result: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(result, pd.DataFrame):
        yield from _each((str(name), result[name].to_numpy()) for name in result.columns)
    elif isinstance(result, Mapping):
        yield from _each((str(name), one) for name, one in result.items())
    else:
        yield OUTPUT, np.asarray(result)


def _each(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Array]]:
    yield from ((name, np.asarray(value)) for name, value in pairs)
