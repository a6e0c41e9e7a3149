"""Python models whose inputs are known are called once before they are ready; what goes wrong then is only told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mizzen.runtime.frameworks import registry
from mizzen.runtime.signature import TensorSpec

CODE = """
class Model:
    {inputs}
    asked = []

    def predict(self, inputs):
        self.asked.append({{name: (array.dtype.name, array.tolist()) for name, array in inputs.items()}})
        {does}
        return 1
"""
INPUTS = [
    {"name": "word", "datatype": "BYTES", "shape": [-1]},
    {"name": "flag", "datatype": "BOOL", "shape": [-1, 2]},
    {"name": "size", "datatype": "INT32", "shape": [1]},
]


def load(folder: Path, name: str, inputs: Any = None, does: str = "") -> list[Any]:
    """What the model was asked while it was loaded."""
    code = CODE.format(inputs=f"inputs = {inputs!r}" if inputs else "", does=does)
    (folder / f"{name}.py").write_text(code)
    model: Any = registry.load("python", f"{name}:Model", folder, trusted=True, batch=False)
    return list(model.target.asked)


def test_a_row_of_each_type(tmp_path: Path) -> None:
    [asked] = load(tmp_path, "warm_typed", INPUTS)
    assert asked == {"word": ("object", [""]), "flag": ("bool", [[False, False]]), "size": ("int32", [0])}


def test_inputs_that_are_declared_beside_it(tmp_path: Path) -> None:
    assert load(tmp_path, "warm_plain") == [], "nobody knows what it takes"
    beside = {"inputs": (TensorSpec("x", "FP64", (-1,)),)}
    (tmp_path / "warm_beside.py").write_text(CODE.format(inputs="", does=""))
    model: Any = registry.load("python", "warm_beside:Model", tmp_path, trusted=True, batch=False, **beside)
    assert model.model.target.asked == [{"x": ("float64", [0.0])}]


@pytest.mark.parametrize("does", ["raise ValueError('no zeros')", "raise SystemExit(3)"])
def test_a_failure_only_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture, does: str) -> None:
    with caplog.at_level(logging.WARNING):
        assert len(load(tmp_path, f"warm_{len(does)}", INPUTS, does)) == 1
    assert "warm-up with a synthetic row: " in caplog.text
