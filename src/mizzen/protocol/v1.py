"""V1, the protocol of TF Serving and of KServe before V2: values without shapes or datatypes.

What they are, the signature of the model tells; a model without one gets them as they come. In the row format
(`instances`, answered by `predictions`) there is one value per row, or one object of values by the names of inputs; in
the column format (`inputs`, answered by `outputs`) one list of rows, or an object of them. Where a model takes several
inputs of one value each, the columns of a DataFrame, a row may be a list of them in order.

Read by runtimes, and by gateways for graphs: nothing here needs numpy, but to measure large bodies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mizzen.protocol import json_codec, plain_elements

ROWS, COLUMNS = "rows", "columns"
"""The two formats."""
DEFAULT_INPUT = "input"
DEFAULT_SIGNATURE = "serving_default"
MOST_B64 = 8
"""Levels of lists below which {"b64": ...} is looked for."""
_LARGE = 64 << 10
"""Bytes of a body from which on it is measured."""
_FEW_QUOTES, _FEW_COMMAS = 64, 1 << 16
"""Of a large body: so few quotes can only be around names, and have no more commas between them than that."""


class Declared(Protocol):
    """An input that a model takes."""

    @property
    def name(self) -> str: ...
    @property
    def datatype(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]:
        """-1: any size."""


class Given(NamedTuple):
    """An input as it was sent."""

    name: str
    datatype: str
    shape: list[int]
    elements: list[Any]
    """Flat. Those of BYTES are text, or bytes where they came in base64."""


def read(body: Any, declared: Sequence[Declared]) -> tuple[list[Given], str]:
    """The inputs of a request, and its format: ROWS or COLUMNS.

    ValueError says what is wrong with it, for the caller. Whether numbers are in the range of their datatype, and
    shapes are those declared, is not looked at.
    """
    if isinstance(body, bytes) and len(body) > _LARGE:
        _measure(body, declared)
    said = _parsed(body)
    unknown = said.keys() - {"instances", "inputs", "signature_name"}
    if unknown:
        raise ValueError(f"'{min(unknown)}' is unknown here; a request has instances or inputs, and signature_name")
    if said.get("signature_name", DEFAULT_SIGNATURE) != DEFAULT_SIGNATURE:
        raise ValueError(f"signature_name: the only one is '{DEFAULT_SIGNATURE}'")
    if ("instances" in said) == ("inputs" in said):
        raise ValueError("expected either instances (one per row) or inputs (by columns)")
    specs = {spec.name: spec for spec in declared}
    # To look for bytes in each value takes longer than all else: only where the word is, or may be, with escapes.
    plain = _plain if b"b64" in body or b"\\" in body else _as_it_is
    if "instances" in said:
        return _rows(plain(said["instances"]), specs), ROWS
    return _columns(plain(said["inputs"]), specs), COLUMNS


def answered(values: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], style: str) -> Any:
    """What an answer says of outputs, their values nested as their shapes: one by itself, several by their names."""
    if style == COLUMNS:
        return values if len(values) != 1 else next(iter(values.values()))
    if len({tuple(shape[:1]) for shape in shapes.values()}) > 1 or not all(shapes.values()):
        told = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"outputs differ in rows: {told}; ask by columns, with inputs in place of instances")
    if len(values) == 1:
        return next(iter(values.values()))
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def answer(said: Any, style: str) -> bytes:
    """The whole text of it."""
    return b'{"%b":%b}' % (b"outputs" if style == COLUMNS else b"predictions", json_codec.write(said))


def _measure(body: bytes, declared: Sequence[Declared]) -> None:
    """ValueError when a large body holds too much, or cannot be what the model takes, before it is decoded."""
    from mizzen.protocol import json_size

    found = json_size.containers(body)
    if found > json_size.MOST_LISTS:
        raise ValueError(
            f"the body holds {found} lists and objects, more than {json_size.MOST_LISTS}: "
            "send its rows in several requests"
        )
    if len(declared) != 1 or len(declared[0].shape) < 2 or body.count(b'"') > _FEW_QUOTES:
        return
    spec, width = declared[0], declared[0].shape[-1]
    # All numbers are in rows of one width, in lists of their own: more of them than so many lists hold fit no shape.
    values = body.count(b",") + 1
    if plain_elements.LEAVES[spec.datatype] in (int, float) and width > 1 and values > found * width + _FEW_COMMAS:
        raise ValueError(
            f"input '{spec.name}' must have shape {list(spec.shape)}, not {values} values in {found} lists"
        )


def _parsed(body: Any) -> dict[str, Any]:
    if not isinstance(body, bytes):
        raise ValueError("a request is [inputs, outputs] or [body]")  # noqa: TRY004 - bad data, not a bad call
    try:
        said = json_codec.parse(body)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}" if body else "the body is empty") from None
    if not isinstance(said, dict):
        raise ValueError("the body: expected an object")  # noqa: TRY004
    return said


def _rows(instances: Any, specs: dict[str, Declared]) -> list[Given]:
    if not isinstance(instances, list) or not instances:
        raise ValueError("instances: expected a list with at least one")
    if isinstance(instances[0], dict):
        return [_given("instances", name, values, specs) for name, values in _by_name(instances).items()]
    if len(specs) > 1:
        return _in_order(instances, specs)
    name = next(iter(specs), DEFAULT_INPUT)
    return [_given("instances", name, instances, specs)]


def _by_name(instances: list[Any]) -> dict[str, list[Any]]:
    names = instances[0].keys()
    if not names:
        raise ValueError("instances[0]: expected values by the names of inputs")
    for at, instance in enumerate(instances):
        if not isinstance(instance, dict) or instance.keys() != names:
            raise ValueError(f"instances[{at}]: expected an object with {_listed(names)}, as the first has")
    return {name: [instance[name] for instance in instances] for name in names}


def _in_order(instances: list[Any], specs: dict[str, Declared]) -> list[Given]:
    """Rows of a table: one value for each input."""
    for at, instance in enumerate(instances):
        if not isinstance(instance, list) or len(instance) != len(specs):
            raise ValueError(f"instances[{at}]: expected {len(specs)} values, or an object with {_listed(specs)}")
    columns = zip(specs, zip(*instances, strict=True), strict=True)
    return [_given("instances", name, list(values), specs) for name, values in columns]


def _columns(inputs: Any, specs: dict[str, Declared]) -> list[Given]:
    if isinstance(inputs, dict) and inputs:
        return [_given("inputs", name, values, specs) for name, values in inputs.items()]
    if len(specs) > 1:
        raise ValueError(f"inputs: expected an object with {_listed(specs)}")
    name = next(iter(specs), DEFAULT_INPUT)
    return [_given("inputs", name, inputs, specs)]


def _given(where: str, name: str, values: Any, specs: dict[str, Declared]) -> Given:
    spec = specs.get(name)
    try:
        datatype, shape, found = plain_elements.flattened(spec.datatype if spec else None, values)
    except ValueError as error:
        raise ValueError(f"{where}: input '{name}': {error}") from None
    if spec is not None and len(shape) == 1 and list(spec.shape) == [-1, 1]:
        shape.append(1)  # a value for a row of one
    return Given(name, datatype, shape, found)


def _plain(value: Any, depth: int = 0) -> Any:
    """Bytes where {"b64": ...} stands for them."""
    if isinstance(value, list) and depth <= MOST_B64 and value and isinstance(value[0], dict | list):
        return [_plain(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"b64"}:
        return _bytes(value["b64"])
    return {name: _plain(one, depth + 1) for name, one in value.items()} if depth <= 1 else value


def _as_it_is(value: Any) -> Any:
    return value


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError("b64: expected text in base64") from None


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)
