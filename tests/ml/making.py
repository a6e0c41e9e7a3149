"""Models of the heavy frameworks, made and trained in seconds."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

with contextlib.suppress(ImportError):
    importlib.import_module("triton")  # before TensorFlow: loaded after it, its library crashes the process

import keras

ROWS = np.random.default_rng(7).normal(size=(256, 4)).astype(np.float32)
LABELS = (ROWS.sum(axis=1) > 0).astype(np.int64)


def keras_model() -> Any:
    """A classifier that has learned whether four numbers are positive in sum."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((4,), name="x"),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(2, activation="softmax", name="chances"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(ROWS, LABELS, epochs=30, verbose=0)
    return model


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layers(x), -1)


def trained_net() -> Net:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(torch.log(net(torch.from_numpy(ROWS))), torch.from_numpy(LABELS)).backward()
        optimizer.step()
    net.eval()
    return net


def save_script(net: torch.nn.Module, file: Path) -> Path:
    torch.jit.script(net).save(str(file))
    return file


def save_program(net: torch.nn.Module, file: Path, *, open_rows: bool = True) -> Path:
    example = (torch.from_numpy(ROWS[:2]),)
    sizes = {"x": {0: torch.export.Dim("rows")}} if open_rows else None
    torch.export.save(torch.export.export(net, example, dynamic_shapes=sizes), str(file))
    return file
