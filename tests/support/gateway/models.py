"""Models to put behind a gateway: one that counts how often it is called, and what answers for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime import batching
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.signature import TensorSpec
from tests.support.gateway.harness import Runtime

X = TensorSpec("x", "FP64", (-1, 2))


@dataclass
class Counting:
    """The sum of each row; and, when it is asked for, the row's first value as text."""

    inputs: tuple[TensorSpec, ...] = (X,)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("sum", "FP64", (-1,)), TensorSpec("text", "BYTES", (-1,)))
    batch: bool = True
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset({"NaN", "Infinity"})
    framework: str = "sklearn"
    calls: list[int] = field(default_factory=list)

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs["x"]
        self.calls.append(len(rows))
        given = {"sum": rows.sum(axis=1), "text": np.array([f"{row[0]:g}" for row in rows], object)}
        return {name: given[name] for name in outputs or ("sum",)}

    def close(self) -> None:
        pass


class ModelRuntime(Runtime):
    """Answers as the runtime that we ship does, with this model, which the test can look at."""

    def __init__(self, path: str, model: LoadedModel) -> None:
        self.model = model
        super().__init__(
            path,
            {
                "framework": model.framework, "strict": model.strict, "batch": model.batch,
                "inputs": [spec.wire() for spec in model.inputs], "outputs": [spec.wire() for spec in model.outputs],
                "table": model.table.wire() if model.table else None,
            },
        )  # fmt: skip

    def answers(self, items: list[Any]) -> list[tuple[int, bytes]]:
        return batching.answer(self.model, items).results
