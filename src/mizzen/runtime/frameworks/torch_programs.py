"""Recognizing PyTorch files, and reading the inputs of an exported program."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mizzen import frameworks
from mizzen.protocol import tensors
from mizzen.runtime.frameworks.model import LoadError
from mizzen.runtime.signature import TensorSpec

Arguments = Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def is_exported(file: Path) -> bool:
    """Return whether it is an exported program, of this release of PyTorch or of those before 2.8."""
    names = _list_names(file)
    return any(name.endswith(("/archive_format", "serialized_exported_program.json")) for name in names)


def no_program(file: Path) -> str:
    """Return advice for a file that is not TorchScript; empty for one that is."""
    return (
        ""
        if any("/code/" in name or name.endswith("/constants.pkl") for name in _list_names(file))
        else frameworks.NO_TORCH_PROGRAM
    )


def inputs(program: Any) -> tuple[tuple[TensorSpec, ...], Arguments]:
    """Return its inputs, and how to pass them: it may have been exported with lists, dicts and constants."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    specs, slots = [], []
    for one in program.graph_signature.input_specs:
        if one.kind is not torch.export.graph_signature.InputKind.USER_INPUT:
            continue
        value = values.get(getattr(one.arg, "name", ""))
        if isinstance(value, torch.Tensor):
            slots.append((True, None))
            specs.append(_spec_of(one.arg.name, value))
        else:
            slots.append((False, getattr(one.arg, "value", None)))
    in_spec = program.call_spec.in_spec

    def arguments(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        left = iter(given.values())
        positional, named = torch.utils._pytree.tree_unflatten(  # noqa: SLF001 - torch.export's own trees
            [next(left) if tensor else constant for tensor, constant in slots], in_spec
        )
        return tuple(positional), named

    return tuple(specs), arguments


def open_rows(program: Any) -> bool:
    """Return whether the first size of all inputs and outputs is one and the same open dimension."""
    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    held = [nodes.get(name) for name in (*signature.user_inputs, *signature.user_outputs) if isinstance(name, str)]
    firsts = {str(one.shape[0]) if isinstance(one, torch.Tensor) and one.dim() else "" for one in held}
    sizes = [one.shape[0] for one in held if isinstance(one, torch.Tensor) and one.dim()]
    return len(firsts) == 1 and bool(sizes) and not any(isinstance(size, int) for size in sizes)


def _spec_of(name: str, value: Any) -> TensorSpec:
    return TensorSpec(
        name, _datatype(name, value.dtype), tuple(size if isinstance(size, int) else -1 for size in value.shape)
    )


def _datatype(name: str, dtype: Any) -> str:
    try:
        return tensors.as_datatype(np.asarray(torch.empty(0, dtype=dtype).numpy()))[0].name
    except (TypeError, ValueError) as error:
        raise LoadError(f"input '{name}' has the type {dtype}, which requests cannot carry") from error


def _list_names(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return []
