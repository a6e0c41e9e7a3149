"""Mizzen: a model that gives back what it got."""

from __future__ import annotations

from typing import Any


class Noop:
    inputs = ({"name": "input", "datatype": "FP64", "shape": [-1, 4]},)
    outputs = ({"name": "predict", "datatype": "FP64", "shape": [-1, 4]},)

    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"predict": inputs["input"]}
