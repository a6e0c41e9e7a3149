"""Makes a model of a file such as {"lookup": {"Rome": 1.5, "Oslo": 2.5}, "default": 0}."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.frameworks.model import LoadError, LoadRequest, artifact
from mizzen.runtime.signature import TensorSpec


def load(wanted: LoadRequest, folder: Path) -> LookupModel:
    file = artifact(folder, wanted.entrypoint)
    try:
        said = json.loads(file.read_text())
        values = {str(key): float(value) for key, value in said["lookup"].items()}
        default = float(said.get("default", 0))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"'{wanted.entrypoint}' is no table of values: {error}") from error
    return LookupModel(values, default)


@dataclass(frozen=True, slots=True)
class LookupModel:
    values: dict[str, float]
    default: float
    inputs: tuple[TensorSpec, ...] = (TensorSpec("key", "BYTES", (-1,)),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("value", "FP64", (-1,)),)
    table: TensorSpec | None = None
    strict: bool = True
    batch: bool = True
    refuses: frozenset[str] = frozenset()
    framework: str = "lookup"

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        keys = (key.decode() if isinstance(key, bytes) else key for key in inputs["key"].tolist())
        return {"value": np.array([self.values.get(key, self.default) for key in keys], np.float64)}

    def close(self) -> None:
        pass
