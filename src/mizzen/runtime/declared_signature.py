"""A signature declared in the InferenceModel: checked against the model's own, or used if the model has none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec


def read(text: str | None, which: str) -> tuple[TensorSpec, ...]:
    """Parse a JSON list of {"name", "datatype", "shape"}. Raises LoadError."""
    if not text:
        return ()
    try:
        data = json.loads(text)
        specs = tuple(TensorSpec.of(one) for one in (data if isinstance(data, list) else [data]))
    except ValueError as error:
        raise LoadError(f"{which} must be a JSON list of tensors: {error}") from error
    if len({spec.name for spec in specs}) < len(specs):
        raise LoadError(f"{which} declares a name twice")
    return specs


def apply(model: LoadedModel, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> LoadedModel:
    """Return the model with this signature. Raises LoadError, which names both sides, if they do not match."""
    if not inputs and not outputs:
        return model
    merged = _merge_inputs(model, inputs) if inputs else model.inputs
    returned = _merge_outputs(model, outputs) if outputs else model.outputs
    return DeclaredModel(model, merged, returned, tuple(spec.name for spec in outputs), model.strict or bool(inputs))


@dataclass(frozen=True, slots=True)
class DeclaredModel:
    model: LoadedModel
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    defaults: tuple[str, ...]
    """Outputs returned when a request names none; empty: the model's own default."""
    strict: bool

    @property
    def framework(self) -> str:
        return self.model.framework

    @property
    def batch(self) -> bool:
        return self.model.batch

    @property
    def refuses(self) -> frozenset[str]:
        return self.model.refuses

    @property
    def table(self) -> TensorSpec | None:
        return self.model.table

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        wanted = outputs or self.defaults
        given = self.model.call(inputs, wanted)
        if outputs or not wanted:
            return given
        for name in wanted:
            if name not in given:
                raise KeyError(f"spec.outputs declares '{name}', but the model returns {', '.join(given) or 'nothing'}")
        return {name: given[name] for name in wanted}

    def close(self) -> None:
        self.model.close()


def _merge_inputs(model: LoadedModel, declared: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    if model.batch:
        for spec in declared:
            if not spec.shape:
                raise LoadError(f"spec.inputs: '{spec.name}' needs a first dimension, which counts rows")
    if not model.inputs:
        return tuple(_open(spec) for spec in declared) if model.batch else declared
    own = {spec.name: spec for spec in model.inputs}
    theirs = {spec.name: spec for spec in declared}
    if own.keys() != theirs.keys() or not all(_fits(theirs[name], own[name], model.batch) for name in own):
        raise LoadError(f"spec.inputs says {_join_specs(declared)}, but the model takes {_join_specs(model.inputs)}")
    return tuple(_narrow(own[spec.name], spec, rows=model.batch) for spec in declared)


def _merge_outputs(model: LoadedModel, declared: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    if not model.outputs:
        return declared
    own = {spec.name: spec for spec in model.outputs}
    for spec in declared:
        mine = own.get(spec.name)
        if mine is None or mine.datatype != spec.datatype or not _shapes_fit(spec, mine, model.batch):
            raise LoadError(
                f"spec.outputs says {_join_specs(declared)}, but the model returns {_join_specs(model.outputs)}"
            )
    first = tuple(_narrow(own[spec.name], spec, rows=model.batch) for spec in declared)
    # The others can still be requested.
    return (*first, *(spec for name, spec in own.items() if name not in {one.name for one in declared}))


def _fits(declared: TensorSpec, own: TensorSpec, rows: bool) -> bool:
    kind, target = tensors.DATATYPES[declared.datatype], tensors.DATATYPES[own.datatype]
    return (kind is target or tensors.widens(kind, target)) and _shapes_fit(declared, own, rows)


def _shapes_fit(declared: TensorSpec, own: TensorSpec, rows: bool) -> bool:
    if len(declared.shape) != len(own.shape):
        return False
    pairs = list(zip(declared.shape, own.shape, strict=True))
    return all(-1 in pair or pair[0] == pair[1] for pair in (pairs[1:] if rows else pairs))


def _narrow(own: TensorSpec, declared: TensorSpec, *, rows: bool) -> TensorSpec:
    """Combine the sizes that either side knows. The first stays open for a model that batches: requests share its
    calls."""
    sizes = tuple(mine if mine != -1 else other for mine, other in zip(own.shape, declared.shape, strict=True))
    return _open(replace(own, shape=sizes)) if rows else replace(own, shape=sizes)


def _open(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=(-1, *spec.shape[1:]))


def _join_specs(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(f"'{spec.name}' {spec.datatype} {list(spec.shape)}" for spec in specs)
