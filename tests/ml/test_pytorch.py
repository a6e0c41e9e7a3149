"""TorchScript and exported programs as the runtime loads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mizzen.protocol.frames import framing
from mizzen.runtime import batching
from mizzen.runtime.frameworks.model import LoadError
from mizzen.runtime.signature import TensorSpec
from tests.ml import making
from tests.support.runtime import asking

DECLARED: dict[str, Any] = {
    "inputs": (TensorSpec("rows", "FP32", (-1, 4)),),
    "outputs": (TensorSpec("chances", "FP32", (-1, 2)),),
}
ROWS = making.ROWS


class Two(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, factor: float = 2.0) -> dict[str, torch.Tensor]:
        return {"difference": (a - b) * factor, "best": torch.argmax(a, 1)}


class Longest(torch.nn.Module):
    """Gives rows as wide as the largest number in them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(x.shape[0], int(x.abs().max() * 100))


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 0)


def test_without_a_declared_signature_inputs_go_by_name_or_order(tmp_path: Path) -> None:
    model = asking.load("pytorch", making.save_script(Two(), tmp_path / "two.pt"))
    assert (model.inputs, model.batch, model.strict) == ((), False, False)
    a, b = np.array([[3.0, 1.0]], np.float32), np.array([[1.0, 1.0]], np.float32)
    for given in ({"a": a, "b": b}, {"b": b, "a": a}, {"first": a, "second": b}):
        answer = asking.ask(model, given)
        assert (answer["difference"].tolist(), answer["best"].tolist()) == ([[4, 0]], [0])
    assert list(asking.ask(model, {"a": a, "b": b}, ["best"])) == ["best"]
    assert "takes the inputs 'a', 'b', of which 2 are required" in asking.refused(model, {"a": a})
    for given in ({"b": b, "aa": a}, {"a": a, "x": b}, {"a": a, "b": b, "c": b}):
        assert "takes the inputs 'a', 'b'" in asking.refused(model, given)
    texts = {"a": np.array([["x"]], object), "b": b}
    assert "PyTorch has no tensors of texts" in asking.refused(model, texts)


def test_numbers_of_json_become_the_models_own(tmp_path: Path, net: making.Net) -> None:
    model = asking.load("pytorch", making.save_script(net, tmp_path / "net.pt"))
    given = asking.ask(model, {"x": ROWS[:3].astype(np.float64)})["output"]
    np.testing.assert_allclose(given, net(torch.from_numpy(ROWS[:3])).detach().numpy(), rtol=1e-5)


def test_with_a_declared_signature_requests_share_a_call(tmp_path: Path, net: making.Net) -> None:
    model = asking.load("pytorch", making.save_script(net, tmp_path / "net.pt"), **DECLARED)
    assert (model.batch, model.strict) == (True, True)
    requests = [asking.request({"rows": ROWS[at : at + 1]}) for at in range(4)]
    assert [status for status, _ in batching.answer(model, requests).results] == [framing.OK] * 4
    given = asking.ask(model, {"rows": ROWS[:4]})["chances"]
    np.testing.assert_allclose(given, net(torch.from_numpy(ROWS[:4])).detach().numpy(), rtol=1e-5)
    assert asking.ask(model, {"rows": ROWS[:0]})["chances"].shape == (0, 2)
    assert "must have shape [-1, 4]" in asking.refused(model, {"rows": ROWS[:1, :3]})


def test_rows_that_depend_on_each_other_are_not_merged(tmp_path: Path) -> None:
    file = making.save_script(Sums(), tmp_path / "sums.pt")
    model = asking.load("pytorch", file, inputs=(TensorSpec("x", "FP32", (-1,)),))
    assert not model.batch


def test_sizes_that_depend_on_values(tmp_path: Path) -> None:
    file = making.save_script(Longest(), tmp_path / "longest.pt")
    model = asking.load("pytorch", file, inputs=(TensorSpec("x", "FP32", (-1, 2)),))
    assert not model.batch


def test_a_signature_that_does_not_fit(tmp_path: Path, net: making.Net) -> None:
    file = making.save_script(net, tmp_path / "net.pt")
    two = (TensorSpec("a", "FP32", (-1, 4)), TensorSpec("b", "FP32", (-1, 4)))
    with pytest.raises(LoadError, match=r"spec.inputs has 2 tensors, but forward takes 1: x"):
        asking.load("pytorch", file, inputs=two)
    both = making.save_script(Two(), tmp_path / "two.pt")
    swapped = (TensorSpec("b", "FP32", (-1, 4)), TensorSpec("aa", "FP32", (-1, 4)))
    with pytest.raises(LoadError, match=r"spec.inputs names b, aa, but forward takes a, b: use all of these"):
        asking.load("pytorch", both, inputs=swapped)
    with pytest.raises(
        LoadError, match=r"spec.outputs says 'y' FP32 \[-1, 3\], but the model returns 'y' FP32 \[-1, 2\]"
    ):
        asking.load("pytorch", file, inputs=DECLARED["inputs"], outputs=(TensorSpec("y", "FP32", (-1, 3)),))


@pytest.mark.parametrize("open_rows", [True, False])
def test_exported_programs_say_what_they_take(tmp_path: Path, net: making.Net, open_rows: bool) -> None:
    file = making.save_program(net, tmp_path / "net.pt2", open_rows=open_rows)
    model = asking.load("pytorch", file)
    first = -1 if open_rows else 2
    assert model.inputs == (TensorSpec("x", "FP32", (first, 4)),)
    assert model.outputs == (TensorSpec("output", "FP32", (first, 2)),)
    assert model.batch is open_rows
    given = asking.ask(model, {"x": ROWS[:2]})["output"]
    np.testing.assert_allclose(given, net(torch.from_numpy(ROWS[:2])).detach().numpy(), rtol=1e-5)
    if not open_rows:
        assert "must have shape [2, 4], not [1, 4]" in asking.refused(model, {"x": ROWS[:1]})


@pytest.mark.parametrize("save", [making.save_script, making.save_program])
def test_programs_need_trust(tmp_path: Path, net: making.Net, save: Callable[[torch.nn.Module, Path], Path]) -> None:
    with pytest.raises(LoadError, match=r"'net' is a PyTorch program, .* is not marked as trusted"):
        asking.load("pytorch", save(net, tmp_path / "net"), trusted=False)


def test_weights_and_pickled_modules_are_no_models(tmp_path: Path, net: making.Net) -> None:
    saved: dict[str, Any] = {"weights.pt": net.state_dict(), "module.pt": net}
    for name, what in saved.items():
        torch.save(what, tmp_path / name)
        with pytest.raises(LoadError, match=rf"'{name}' is PyTorch weights or a pickled module"):
            asking.load("pytorch", tmp_path / name, trusted=True)
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(LoadError, match="weights_only=True"):
        asking.load("pytorch", tmp_path / "old.pt", trusted=True)


def test_a_gpu_that_is_not_there(tmp_path: Path, net: making.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIZZEN_GPU_MEMORY_SHARE", "0.5")
    if not torch.cuda.is_available():
        with pytest.raises(LoadError, match="the model requests a GPU, but this PyTorch finds none that it can use"):
            asking.load("pytorch", making.save_script(net, tmp_path / "net.pt"))
