"""SavedModels and Keras files as the runtime loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from mizzen.protocol.frames import framing
from mizzen.runtime import batching
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec
from tests.ml import making
from tests.support.runtime import asking


def load(folder: Path, *, trusted: bool = True, **declared: Any) -> LoadedModel:
    return registry.load("tensorflow", "saved_model.pb", folder, trusted=trusted, batch=False, **declared)


def save(folder: Path, signatures: dict[str, tuple[Any, list[tf.TensorSpec]]]) -> Path:
    module = tf.Module()
    module.weight = tf.Variable([[1.0], [2.0]])
    functions = {}
    for name, (function, specs) in signatures.items():
        traced = tf.function(function, input_signature=specs)
        setattr(module, name, traced)
        functions[name] = traced.get_concrete_function()
    tf.saved_model.save(module, str(folder), functions)
    return folder


def rows(*shape: int | None, dtype: Any = tf.float32, name: str = "x") -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name)


def test_requests_share_a_call(saved_model: Path, keras_model: Any) -> None:
    model = load(saved_model)
    assert (model.batch, model.strict) == (True, True)
    assert model.outputs == (TensorSpec("output_0", "FP32", (-1, 2)),)
    requests = [asking.request({"x": making.ROWS[at : at + 1]}) for at in range(4)]
    answered = batching.answer(model, requests)
    assert [status for status, _ in answered.results] == [framing.OK] * 4
    given = asking.ask(model, {"x": making.ROWS[:4]})["output_0"]
    np.testing.assert_allclose(given, np.asarray(keras_model(making.ROWS[:4])), rtol=1e-5)
    assert asking.ask(model, {"x": making.ROWS[:0]})["output_0"].shape == (0, 2)
    assert "must have shape [-1, 4], not [1, 3]" in asking.refused(model, {"x": np.zeros((1, 3), np.float32)})


def test_a_signature_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"double": (lambda x: {"y": x * 2}, [rows(None)]), "negative": (lambda x: {"y": -x}, [rows(None)])}
    save(tmp_path, both)
    with pytest.raises(LoadError, match=r"several signatures \(double, negative\): name one with MIZZEN_SIGNATURE"):
        load(tmp_path)
    monkeypatch.setenv("MIZZEN_SIGNATURE", "negative")
    assert asking.ask(load(tmp_path), {"x": np.array([1, 2], np.float32)})["y"].tolist() == [-1, -2]
    monkeypatch.setenv("MIZZEN_SIGNATURE", "half")
    with pytest.raises(LoadError, match="no signature 'half', which MIZZEN_SIGNATURE names; it has double, negative"):
        load(tmp_path)


def test_a_fixed_first_size_is_asked_one_by_one(tmp_path: Path) -> None:
    model = load(save(tmp_path, {"serving_default": (lambda x: {"y": x + 1}, [rows(1, 2)])}))
    assert (model.batch, model.inputs[0].shape, model.outputs[0].shape) == (False, (1, 2), (1, 2))
    assert "must have shape [1, 2], not [2, 2]" in asking.refused(model, {"x": np.zeros((2, 2), np.float32)})


def test_an_open_size_that_is_no_number_of_rows(tmp_path: Path) -> None:
    model = load(save(tmp_path, {"serving_default": (lambda x: {"y": tf.cumsum(x)}, [rows(None)])}))
    assert not model.batch, "each would get its sums on top of its neighbour's"


def test_texts_in_and_out(tmp_path: Path) -> None:
    upper = {
        "serving_default": (lambda text: {"loud": tf.strings.upper(text)}, [rows(None, dtype=tf.string, name="text")])
    }
    model = load(save(tmp_path, upper))
    assert model.inputs == (TensorSpec("text", "BYTES", (-1,)),)
    assert asking.ask(model, {"text": np.array(["für", "b"], object)})["loud"].tolist() == ["FüR", "B"]
    raw = b"".join(len(text).to_bytes(4, "little") + text for text in (b"one", b"\xff"))
    given = model.call({"text": np.array([b"one", b"\xff"], object)}, ())
    assert (len(raw), given["loud"].tolist()) == (12, [b"ONE", b"\xff"])


def test_an_unknown_number_of_dimensions_has_to_be_declared(tmp_path: Path) -> None:
    save(tmp_path, {"serving_default": (lambda x: {"y": x * 2}, [tf.TensorSpec(None, tf.float32, "x")])})
    with pytest.raises(LoadError, match=r"how many dimensions 'x' has: declare it in spec.inputs"):
        load(tmp_path)
    model = load(tmp_path, inputs=(TensorSpec("x", "FP32", (-1, 2)),))
    assert asking.ask(model, {"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2, 2]]


def test_programs_need_trust(saved_model: Path, keras_model: Any, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"'saved_model.pb' is a TensorFlow program, .* is not marked as trusted"):
        load(saved_model, trusted=False)
    keras_model.save(tmp_path / "net.keras")
    with pytest.raises(LoadError, match=r"'net.keras' is a TensorFlow program, .* is not marked as trusted"):
        asking.load("tensorflow", tmp_path / "net.keras", trusted=False)


def test_sizes_that_depend_on_values(tmp_path: Path) -> None:
    def wide(x: Any) -> dict[str, Any]:
        return {"y": tf.zeros((tf.shape(x)[0], tf.cast(tf.reduce_max(tf.abs(x)) * 100, tf.int32)))}

    assert not load(save(tmp_path, {"serving_default": (wide, [rows(None, 2)])})).batch


def test_several_inputs_of_a_keras_file(tmp_path: Path) -> None:
    left, right = keras.Input((2,), name="left"), keras.Input((2,), name="right")
    total = keras.layers.Add(name="total")([left, right])
    keras.Model([left, right], {"total": total}).save(tmp_path / "two.keras")
    model = asking.load("tensorflow", tmp_path / "two.keras")
    assert [spec.name for spec in model.inputs] == ["left", "right"]
    one = np.ones((3, 2), np.float32)
    [given] = asking.ask(model, {"right": one, "left": one * 2}).values()
    assert given.tolist() == (one * 3).tolist()


def test_code_in_a_keras_file_runs_when_it_is_trusted(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Lambda(lambda x: x * 2, output_shape=(2,))])
    model.save(tmp_path / "code.keras")
    asking.load("tensorflow", tmp_path / "code.keras")
