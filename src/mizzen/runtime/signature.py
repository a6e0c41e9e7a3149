"""A model's inputs and outputs, and checks whether a request matches them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mizzen.protocol import tensors

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python that a runtime supports


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    datatype: str
    shape: tuple[int, ...]
    """-1: any size."""

    @classmethod
    def of(cls, data: Any) -> Self:
        """Parse {"name", "datatype", "shape"} as users write it. Raises ValueError, which says what is wrong."""
        if not isinstance(data, dict) or set(data) != {"name", "datatype", "shape"}:
            raise ValueError(f"a tensor is declared as {{'name', 'datatype', 'shape'}}, not {data!r}")
        name, datatype, shape = data["name"], data["datatype"], data["shape"]
        if not isinstance(name, str) or not name:
            raise ValueError(f"a tensor's name must be a string, not {name!r}")
        tensors.datatype_named(datatype)
        if not isinstance(shape, list | tuple) or not all(type(size) is int and size >= -1 for size in shape):
            raise ValueError(f"the shape of '{name}' must be a list of sizes, -1 for any, not {shape!r}")
        return cls(name, datatype, tuple(shape))

    def wire(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def fault(self, datatype: str, shape: Sequence[int]) -> str | None:
        """Return why a tensor given for this input does not match, or None."""
        if datatype != self.datatype and not (
            datatype in tensors.DATATYPES
            and tensors.widens(tensors.DATATYPES[datatype], tensors.DATATYPES[self.datatype])
        ):
            return f"input '{self.name}' must be {self.datatype}, not {datatype}"
        fits = len(shape) == len(self.shape) and all(
            wanted in (-1, size) for size, wanted in zip(shape, self.shape, strict=True)
        )
        return None if fits else f"input '{self.name}' must have shape {list(self.shape)}, not {list(shape)}"


def inputs_fault(declared: Sequence[TensorSpec], given: Iterable[Sequence[Any]]) -> str | None:
    """Return why these inputs ([name, datatype, shape, ...] each) do not match the declared ones, or None."""
    specs = {spec.name: spec for spec in declared}
    missing = dict.fromkeys(specs)
    for name, datatype, shape, *_ in given:
        if name not in specs:
            return f"no input '{name}'; the model takes {_join_names(specs)}"
        fault = specs[name].fault(datatype, shape)
        if fault:
            return fault
        missing.pop(name, None)
    return f"input {_join_names(missing)} is missing" if missing else None


def outputs_fault(known: Collection[str], requested: Iterable[str]) -> str | None:
    """Return why these outputs cannot be requested from a model with the known ones, or None."""
    for name in requested:
        if name not in known:
            return f"no output '{name}'; the model gives {_join_names(known)}"
    return None


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
