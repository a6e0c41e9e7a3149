"""TensorFlow: folders with a SavedModel, and `.keras` files.

For a SavedModel the signature `serving_default` is called, or the one that MIZZEN_SIGNATURE names; inputs and outputs
have its names. Those of a Keras file have the names of its layers. Requests share a call if the first size of all of
them is open, and rows do not depend on each other. Both kinds of file can run arbitrary code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

# Before it is imported: its own messages are useless to users.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import tensorflow as tf

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import row_independence
from mizzen.runtime.estimators.warmup import example_row, try_call
from mizzen.runtime.frameworks.model import (
    LoadedModel,
    LoadError,
    LoadRequest,
    PlainModel,
    artifact,
    demand_trust,
    first_line,
)
from mizzen.runtime.limits import gpu_share, threads
from mizzen.runtime.signature import TensorSpec

SIGNATURE = "MIZZEN_SIGNATURE"
DEFAULT_SIGNATURE = "serving_default"
_GRAPH = "saved_model.pb"


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    demand_trust(
        f"'{wanted.entrypoint}' is a TensorFlow program, which can run code when it is loaded",
        trusted=wanted.trusted,
    )
    _set_up(os.environ)
    keras = PurePosixPath(wanted.entrypoint).suffix == ".keras"
    run, inputs, outputs = _from_keras(wanted, folder) if keras else _from_saved_model(wanted, folder)
    model = TensorFlowModel(run, inputs, outputs, batch=False)
    seen = {spec.name: spec.shape for spec in try_call(model, example_row(inputs), outputs)}
    outputs = tuple(spec if spec.shape else replace(spec, shape=seen[spec.name]) for spec in outputs)
    model = replace(model, outputs=outputs)
    return replace(model, batch=row_independence.sizes_are_open(model) and row_independence.rows_are_independent(model))


@dataclass(frozen=True, slots=True)
class TensorFlowModel(PlainModel):
    run: Callable[[dict[str, Any]], Mapping[str, Any]]
    """Maps tensors by name to tensors by name."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch: bool
    framework: str = "tensorflow"
    strict: bool = True

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        empty = self.batch and not len(next(iter(inputs.values())))
        # Few graphs accept empty input.
        taken = example_row(self.inputs) if empty else inputs
        given = self.run({name: tf.constant(array) for name, array in taken.items()})
        names = outputs or tuple(spec.name for spec in self.outputs)
        return {
            name: _array_of(given[name])[:0] if empty else _array_of(given[name]) for name in names if name in given
        }


def _set_up(environ: Mapping[str, str]) -> None:
    """Configure TensorFlow once per process, before the first graph runs. A second model in the same process, which
    replaces the first, finds it configured."""
    most = threads.thread_limit(environ)
    share, memory = gpu_share.share(environ), gpu_share.memory(environ)
    try:
        if most is not None:
            tf.config.threading.set_intra_op_parallelism_threads(most)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        if share is None:
            tf.config.set_visible_devices([], "GPU")
        for gpu in tf.config.list_physical_devices("GPU") if share is not None else ():
            if memory is None:
                tf.config.experimental.set_memory_growth(gpu, True)
            else:
                limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory >> 20)
                tf.config.set_logical_device_configuration(gpu, [limit])
    except RuntimeError:
        return


def _from_saved_model(wanted: LoadRequest, folder: Path) -> tuple[Any, tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    file = _graph_file(folder, wanted.entrypoint)
    try:
        loaded = tf.saved_model.load(str(file.parent))
    except Exception as error:
        raise LoadError(f"TensorFlow cannot load '{wanted.entrypoint}': {first_line(error)}") from error
    name = _choose_signature(tuple(loaded.signatures), os.environ.get(SIGNATURE, ""), wanted.entrypoint)
    function = loaded.signatures[name]

    def run(given: dict[str, Any], _keep: Any = loaded) -> Mapping[str, Any]:
        """`_keep`: the variables live only as long as the object they were loaded with."""
        return function(**given)  # type: ignore[no-any-return]

    declared = {spec.name: spec.shape for spec in wanted.inputs}
    inputs = (_spec_of(name, spec, declared.get(name)) for name, spec in function.structured_input_signature[1].items())
    outputs = (_spec_of(name, spec, ()) for name, spec in function.structured_outputs.items())
    return run, tuple(inputs), tuple(outputs)


def _graph_file(folder: Path, entrypoint: str) -> Path:
    """The entrypoint is the graph's file, or the folder that holds it."""
    if PurePosixPath(entrypoint).name != _GRAPH:
        entrypoint = str(PurePosixPath(entrypoint) / _GRAPH)
    return artifact(folder, entrypoint)


def _choose_signature(names: tuple[str, ...], asked: str, entrypoint: str) -> str:
    there = ", ".join(names) or "none"
    if asked and asked not in names:
        raise LoadError(f"'{entrypoint}' has no signature '{asked}', which {SIGNATURE} names; it has {there}")
    if asked or DEFAULT_SIGNATURE in names:
        return asked or DEFAULT_SIGNATURE
    if len(names) == 1:
        return names[0]
    if not names:
        raise LoadError(
            f"'{entrypoint}' has no signature to call: write it with model.export(folder), or give tf.saved_model.save "
            "signatures"
        )
    raise LoadError(f"'{entrypoint}' has several signatures ({there}): name one with {SIGNATURE} in spec.env")


def _from_keras(wanted: LoadRequest, folder: Path) -> tuple[Any, tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    import keras

    file = artifact(folder, wanted.entrypoint)
    try:
        model = keras.saving.load_model(file, compile=False, safe_mode=False)  # trusted, with the code in it
    except Exception as error:
        raise LoadError(f"Keras cannot load '{wanted.entrypoint}': {first_line(error)}") from error
    taken = list(getattr(model, "inputs", None) or ())
    if not taken:
        raise LoadError(
            f"'{wanted.entrypoint}' does not declare its inputs; write a SavedModel with model.export(folder) after "
            "the model has been called"
        )
    signature = [tf.TensorSpec(one.shape, one.dtype) for one in taken]
    names = [one.name for one in taken]
    nested = None if isinstance(model, keras.Sequential) else model.input

    @tf.function(input_signature=signature, autograph=False)  # type: ignore[untyped-decorator]
    def answer(*given: Any) -> Any:
        held = given[0] if nested is None else keras.tree.pack_sequence_as(nested, list(given))
        return keras.tree.flatten(model(held, training=False))

    function = answer.get_concrete_function()
    gives = list(getattr(model, "output_names", None) or (model.layers[-1].name,))

    def run(given: dict[str, Any]) -> Mapping[str, Any]:
        return dict(zip(gives, function(*(given[name] for name in names)), strict=True))

    declared = {spec.name: spec.shape for spec in wanted.inputs}
    inputs = tuple(_spec_of(name, spec, declared.get(name)) for name, spec in zip(names, signature, strict=True))
    outputs = tuple(_spec_of(name, one, ()) for name, one in zip(gives, function.structured_outputs, strict=True))
    return run, inputs, outputs


def _spec_of(name: str, spec: Any, declared: tuple[int, ...] | None) -> TensorSpec:
    """`declared`: the shape in spec.inputs, for a tensor whose number of dimensions the graph leaves open."""
    if spec.dtype == tf.string:
        kind = "BYTES"
    elif spec.dtype == tf.bfloat16:
        kind = "FP32"
    else:
        try:
            kind = tensors.as_datatype(np.empty(0, spec.dtype.as_numpy_dtype))[0].name
        except (ValueError, TypeError) as error:
            raise LoadError(f"'{name}' has the type {spec.dtype.name}, which requests cannot carry") from error
    if spec.shape.rank is not None:
        return TensorSpec(name, kind, tuple(-1 if size is None else int(size) for size in spec.shape))
    if declared is None:
        raise LoadError(f"the graph does not declare how many dimensions '{name}' has: declare it in spec.inputs")
    return TensorSpec(name, kind, declared)


def _array_of(given: Any) -> Array:
    if given.dtype == tf.bfloat16:
        given = tf.cast(given, tf.float32)
    return np.asarray(given.numpy())
