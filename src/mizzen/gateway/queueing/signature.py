"""The hello of a replica, and the checks of a request that need nothing but the signature in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mizzen.protocol.v2 import Entry, InputFields, RequestedOutput, shorten


class HelloTensor(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: list[int]
    """-1: any size"""


class Hello(msgspec.Struct, frozen=True):
    state: str
    framework: str = ""
    inputs: list[HelloTensor] = []
    outputs: list[HelloTensor] = []
    strict: bool = False
    batch: bool = False
    table: HelloTensor | None = None
    """A single tensor that callers may send in place of all inputs."""
    callers: bool = False
    """It takes request ids and traces."""
    feedback: bool = False
    """Its model takes feedback."""
    files: str = ""
    """The digest of the files it answers with; empty: unknown."""
    pid: int = 0
    frames: tuple[int, int] | None = None
    """The range of frame versions that it supports."""


decode_hello = msgspec.msgpack.Decoder(Hello).decode


class SignatureCheck:
    """The inputs and outputs of one served version, prepared for fast checks."""

    __slots__ = ("_inputs", "_name", "_outputs", "_table", "_tail")

    def __init__(self, hello: Hello) -> None:
        self._inputs = {tensor.name: tensor.shape for tensor in hello.inputs}
        self._outputs = {tensor.name for tensor in hello.outputs}
        self._table = hello.table
        # Nearly all requests have one input of a fixed width; they pass after two comparisons.
        self._name: str | None = None
        self._tail: list[int] = []
        if len(hello.inputs) == 1:
            only = hello.inputs[0]
            if len(only.shape) > 1 and -1 not in only.shape[1:]:
                self._name, self._tail = only.name, only.shape[1:]

    def check(self, inputs: Sequence[InputFields], outputs: list[RequestedOutput] | None) -> None:
        """Raise ValueError for the first fault, worded for the caller. The runtime may still reject what passes."""
        first = inputs[0]
        if first.name != self._name or first.shape[1:] != self._tail or len(inputs) > 1:
            self._check_inputs(inputs)
        if outputs and self._outputs:
            for at, output in enumerate(outputs):
                if output.name not in self._outputs:
                    raise ValueError(
                        f"outputs[{at}].name: '{shorten(output.name)}' is not one of {_quote_names(self._outputs)}"
                    )

    @property
    def names(self) -> Collection[str]:
        """The names of the declared inputs."""
        return self._inputs.keys()

    def adapt(self, entries: list[Entry]) -> list[Entry]:
        """The inputs as they are sent: a single input takes the name of the only declared one. Raises ValueError for
        the first fault, as `check` does."""
        if len(entries) == 1:
            first = entries[0]
            if first[2][1:] == self._tail and self._name is not None:
                if first[0] == self._name:
                    return entries
                if self._table is None:
                    return [(self._name, *first[1:])]
            if len(self._inputs) == 1 and (self._table is None or first[0] != self._table.name):
                entries = [(next(iter(self._inputs)), *first[1:])]
        self._check_entries(entries)
        return entries

    def _check_entries(self, entries: list[Entry]) -> None:
        known, table = self._inputs, self._table
        if not known:
            return
        if table is not None and len(entries) == 1 and entries[0][0] == table.name:
            known = {table.name: table.shape}
        for name, _, shape, *_ in entries:
            wanted = known.get(name)
            if wanted is None:
                raise ValueError(f"input '{shorten(name)}' is not one of {_quote_names(known)}")
            if not _fits(shape, wanted):
                raise ValueError(f"input '{shorten(name)}': shape {list(shape)} does not fit {wanted}")
        if len(entries) < len(known):
            raise ValueError(f"inputs: {_quote_names(known.keys() - {entry[0] for entry in entries})} is missing")

    def _check_inputs(self, inputs: Sequence[InputFields]) -> None:
        known, table = self._inputs, self._table
        if not known:
            return
        if table is not None and len(inputs) == 1 and inputs[0].name == table.name:
            known = {table.name: table.shape}
        for at, tensor in enumerate(inputs):
            wanted = known.get(tensor.name)
            if wanted is None:
                raise ValueError(f"inputs[{at}].name: '{shorten(tensor.name)}' is not one of {_quote_names(known)}")
            if not _fits(tensor.shape, wanted):
                raise ValueError(f"inputs[{at}].shape: {tensor.shape} does not fit {wanted}")
        if len(inputs) < len(known):
            missing = known.keys() - {tensor.name for tensor in inputs}
            raise ValueError(f"inputs: {_quote_names(missing)} is missing")


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        size in (-1, given) for size, given in zip(wanted[1:], shape[1:], strict=True)
    )


def signature_of(hello: Hello) -> SignatureCheck | None:
    """None if the replica takes any names."""
    return SignatureCheck(hello) if hello.strict else None


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
