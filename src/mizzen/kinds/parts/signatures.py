"""The signature of a served version, as its replicas reported it, and whether another version can replace it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from mizzen.kinds.parts.tensors import TensorMetadata
from mizzen.kinds.schema.resource import Part


class Signature(Part):
    """Inputs and outputs. If either is empty, it is unknown."""

    inputs: tuple[TensorMetadata, ...] = Field((), description="The inputs.")
    outputs: tuple[TensorMetadata, ...] = Field((), description="The outputs.")


def differences(old: Signature | None, new: Signature | None) -> tuple[str, ...]:
    """Why callers of the signature `old` could not call `new`, in words; empty if they can.

    Additional outputs do not break callers.
    """
    if old is None or new is None:
        return ()
    return (*_differences(old.inputs, new.inputs, "input"), *_differences(old.outputs, new.outputs, "output"))


def _differences(
    old: tuple[TensorMetadata, ...], new: tuple[TensorMetadata, ...], what: Literal["input", "output"]
) -> Iterator[str]:
    if not old or not new:
        return
    was, now = ({tensor.name: tensor for tensor in tensors} for tensors in (old, new))
    for name in sorted(was.keys() - now.keys()):
        yield f"it has no {what} '{name}'"
    for name in sorted(now.keys() - was.keys()) if what == "input" else ():
        yield f"it needs an input '{name}', {_form(now[name])}"
    for name in sorted(was.keys() & now.keys()):
        before, after = was[name], now[name]
        if (before.datatype, before.shape) != (after.datatype, after.shape):
            yield f"{what} '{name}' is {_form(after)}, not {_form(before)}"


def _form(tensor: TensorMetadata) -> str:
    return f"{tensor.datatype} {list(tensor.shape)}"
