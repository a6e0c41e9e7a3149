"""PyTorch: TorchScript, and exported programs (`.pt2`).

TorchScript does not describe its tensors, so the declared inputs (`spec.inputs`) are used. Without them, inputs go to
the arguments of `forward` by name, or else by order, and requests do not share calls. Exported programs know shapes and
types. Both kinds of file can run arbitrary code. Weights alone and pickled modules cannot be called here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import row_independence
from mizzen.runtime.estimators.warmup import example_row
from mizzen.runtime.frameworks import torch_programs
from mizzen.runtime.frameworks.model import (
    BadInput,
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

_WARM = 3
"""Number of calls after which TorchScript has finished optimizing its code."""

log = logging.getLogger("mizzen.runtime")


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    file = artifact(folder, wanted.entrypoint)
    demand_trust(
        f"'{wanted.entrypoint}' is a PyTorch program, which can run code when it is loaded", trusted=wanted.trusted
    )
    device = _set_up(os.environ)
    if torch_programs.is_exported(file):
        return _load_exported(wanted, file, device)
    return _load_scripted(wanted, file, device)


@dataclass(frozen=True, slots=True)
class TorchModel(PlainModel):
    module: Callable[..., Any]
    arguments: Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    """Builds the module's arguments from tensors by argument name, in order."""
    names: tuple[str, ...]
    """Names of the arguments that are tensors, in order."""
    required: int
    """How many of them are required."""
    device: str
    floats: Any
    """The type of its own numbers, to which undeclared inputs are converted; None if it has none."""
    gives: tuple[str, ...]
    """Names of its outputs, if the InferenceModel declares them."""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    batch: bool = False
    framework: str = "pytorch"

    @property
    def strict(self) -> bool:
        return bool(self.inputs)

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        empty = self.batch and not len(next(iter(inputs.values())))
        # Few modules accept empty input.
        positional, named = self.arguments(dict(self._make_tensors(example_row(self.inputs) if empty else inputs)))
        with torch.inference_mode():
            found = dict(self._by_name(self.module(*positional, **named)))
        return {name: array[:0] if empty else array for name, array in found.items() if not outputs or name in outputs}

    def _make_tensors(self, given: Mapping[str, Array]) -> Iterator[tuple[str, Any]]:
        """Yield the tensor for each argument: by name, or by order if none of the names is an argument's."""
        if not _fit(given, self.names, self.required):
            takes = ", ".join(f"'{name}'" for name in self.names) or "none"
            raise BadInput(
                f"the model takes the inputs {takes}, of which {self.required} are required; use these names for all "
                "inputs, or for none"
            )
        if given.keys() <= set(self.names):
            held = {name: given[name] for name in self.names if name in given}
        else:
            order = [spec.name for spec in self.inputs] or list(given)
            held = dict(zip(self.names, (given[name] for name in order), strict=False))
        for name, array in held.items():
            yield name, self._make_tensor(name, array)

    def _make_tensor(self, name: str, array: Array) -> Any:
        if array.dtype == object:
            raise BadInput(f"input '{name}' holds texts; PyTorch has no tensors of texts")
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        undeclared = not self.inputs and self.floats is not None and tensor.is_floating_point()
        return tensor.to(self.floats) if undeclared else tensor

    def _by_name(self, result: Any) -> Iterator[tuple[str, Array]]:
        if isinstance(result, dict):
            yield from ((str(name), _to_array(str(name), one)) for name, one in result.items())
            return
        several = list(result) if isinstance(result, tuple | list) else [result]
        names = self.gives
        if len(names) != len(several):
            names = tuple(f"output_{at}" for at in range(len(several))) if len(several) > 1 else ("output",)
        yield from ((name, _to_array(name, one)) for name, one in zip(names, several, strict=True))


def _set_up(environ: Mapping[str, str]) -> str:
    """Configure torch and return the device to use."""
    most = threads.thread_limit(environ)
    if most is not None:
        torch.set_num_threads(most)
    share = gpu_share.share(environ)
    if share is None:
        return "cpu"
    if not torch.cuda.is_available():
        raise LoadError(
            "the model requests a GPU, but this PyTorch finds none that it can use; install a CUDA build, or remove gpu"
        )
    torch.cuda.set_per_process_memory_fraction(share, 0)
    return "cuda:0"


def _load_scripted(wanted: LoadRequest, file: Path, device: str) -> LoadedModel:
    advice = torch_programs.no_program(file)
    if advice:
        raise LoadError(f"'{wanted.entrypoint}' is {advice}")
    try:
        module = torch.jit.load(str(file), map_location=device).eval()
        taken = [one for one in module.forward.schema.arguments[1:] if "Tensor" in str(one.type)]
    except Exception as error:
        raise LoadError(f"PyTorch cannot load '{wanted.entrypoint}': {first_line(error)}") from error
    names, required = tuple(one.name for one in taken), sum(not one.has_default_value() for one in taken)
    if wanted.inputs and not required <= len(wanted.inputs) <= len(names):
        takes = ", ".join(names)
        raise LoadError(f"spec.inputs has {len(wanted.inputs)} tensors, but forward takes {len(names)}: {takes}")
    if wanted.inputs and not _fit(_names_of(wanted.inputs), names, required):
        said = ", ".join(_names_of(wanted.inputs))
        raise LoadError(
            f"spec.inputs names {said}, but forward takes {', '.join(names)}: use all of these names, or none"
        )
    model = TorchModel(
        module, _by_name, names, required, device, _find_float_type(module), _names_of(wanted.outputs), wanted.inputs
    )
    return _warm_up(model, may_batch=bool(wanted.inputs))


def _load_exported(wanted: LoadRequest, file: Path, device: str) -> LoadedModel:
    try:
        program = torch.export.load(str(file))
        inputs, arguments = torch_programs.inputs(program)
        module = program.module().to(device) if device != "cpu" else program.module()
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"PyTorch cannot load '{wanted.entrypoint}': {first_line(error)}") from error
    names = tuple(spec.name for spec in inputs)
    model = TorchModel(module, arguments, names, len(names), device, None, _names_of(wanted.outputs), inputs)
    return _warm_up(model, may_batch=torch_programs.open_rows(program))


def _warm_up(model: TorchModel, *, may_batch: bool) -> LoadedModel:
    """Warm up the model, if its inputs are known: that reveals its outputs."""
    if not model.inputs:
        return model
    model = replace(model, outputs=_observe_outputs(model))
    may_batch = may_batch and row_independence.sizes_are_open(model)
    return replace(model, batch=may_batch and row_independence.rows_are_independent(model))


def _observe_outputs(model: TorchModel) -> tuple[TensorSpec, ...]:
    """Return the outputs that calls with a synthetic row show; nothing if they fail: such a row may be invalid
    input."""
    given: dict[str, Array] = {}
    try:
        for _ in range(_WARM):
            given = model.call(example_row(model.inputs), ())
        kinds = {name: tensors.as_datatype(array)[0].name for name, array in given.items()}
    except Exception as error:  # noqa: BLE001 - the model's code may raise anything
        log.warning("warm-up with a synthetic row: %s: %s", type(error).__name__, error)
        return ()
    first = (-1,) if all(spec.shape[:1] == (-1,) for spec in model.inputs) else ()
    return tuple(
        TensorSpec(name, kinds[name], (first + array.shape[len(first) :]) if array.ndim else ())
        for name, array in given.items()
    )


def _find_float_type(module: Any) -> Any:
    return next((one.dtype for one in module.parameters() if one.is_floating_point()), None)


def _by_name(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), given


def _names_of(specs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    return tuple(spec.name for spec in specs)


def _to_array(name: str, value: Any) -> Array:
    if isinstance(value, bool | int | float):
        return np.asarray(value)
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"output '{name}' is a {type(value).__name__}, but responses carry only tensors")
    found = value.detach().cpu()
    array: Array = (found.float() if found.dtype == torch.bfloat16 else found).numpy()
    tensors.as_datatype(array[:0] if array.ndim else array)
    return array


def _fit(given: Collection[str], names: tuple[str, ...], required: int) -> bool:
    """All inputs must match by name, or none: with only some, the arguments for the others are ambiguous."""
    known = set(names).intersection(given)
    by_name = len(known) == len(given) and known.issuperset(names[:required])
    return required <= len(given) <= len(names) and (by_name or not known)
