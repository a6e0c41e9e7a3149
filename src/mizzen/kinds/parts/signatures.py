"""What a served version takes and gives, as its replicas said, and whether another one can stand in for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from mizzen.kinds.parts.tensors import TensorSpec
from mizzen.kinds.schema.resource import Part


class Signature(Part):
    """Inputs and outputs. Without inputs, or without outputs, nothing is known of them."""

    inputs: tuple[TensorSpec, ...] = Field((), description="What it takes.")
    outputs: tuple[TensorSpec, ...] = Field((), description="What it gives.")


def differences(old: Signature | None, new: Signature | None) -> tuple[str, ...]:
    """Why those who call what has the signature `old` could not call what has `new`, in words; empty when they could.

    What gives more than before does not trouble anybody.
    """
    if old is None or new is None:
        return ()
    return (*_inputs(old.inputs, new.inputs), *_outputs(old.outputs, new.outputs))


def _inputs(old: tuple[TensorSpec, ...], new: tuple[TensorSpec, ...]) -> Iterator[str]:
    if not old or not new:
        return
    was, now = ({tensor.name: tensor for tensor in tensors} for tensors in (old, new))
    for name in sorted(was.keys() - now.keys()):
        yield f"it takes no input '{name}'"
    for name in sorted(now.keys() - was.keys()):
        yield f"it takes an input '{name}', {_form(now[name])}"
    yield from _changed(was, now, "input")


def _outputs(old: tuple[TensorSpec, ...], new: tuple[TensorSpec, ...]) -> Iterator[str]:
    if not old or not new:
        return
    was, now = ({tensor.name: tensor for tensor in tensors} for tensors in (old, new))
    for name in sorted(was.keys() - now.keys()):
        yield f"it gives no output '{name}'"
    yield from _changed(was, now, "output")


def _changed(was: dict[str, TensorSpec], now: dict[str, TensorSpec], what: str) -> Iterator[str]:
    for name in sorted(was.keys() & now.keys()):
        before, after = was[name], now[name]
        if (before.datatype, before.shape) != (after.datatype, after.shape):
            yield f"{what} '{name}' is {_form(after)}, not {_form(before)}"


def _form(tensor: TensorSpec) -> str:
    return f"{tensor.datatype} {list(tensor.shape)}"
