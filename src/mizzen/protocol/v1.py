"""V1, the protocol of TF Serving, and of KServe before V2: values without shapes or datatypes.

The model's signature defines them; a model without one gets the values unchanged. In the row format (`instances`,
answered by `predictions`) there is one value per row, or one object of values by input name. In the column format
(`inputs`, answered by `outputs`) there is one list of rows, or an object of lists. If a model has several inputs of one
value each, such as the columns of a DataFrame, a row may be a list of them in order.

Runtimes use it, and gateways for graphs: nothing here needs numpy, except to measure large bodies.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mizzen.protocol import json_codec, json_keys, long_lists, plain_elements
from mizzen.protocol.long_lists import LongList

ROWS, COLUMNS = "rows", "columns"
"""The two formats."""
DEFAULT_INPUT = "input"
DEFAULT_SIGNATURE = "serving_default"
MAX_B64_DEPTH = 8
"""Levels of lists within which {"b64": ...} is recognized."""
_LARGE = 64 << 10
"""Bodies from this size on are measured first."""
_VERY_LARGE = 1 << 20
"""In bodies from this size on, long lists are decoded apart; in smaller ones, their objects are few."""
_FEW_QUOTES, _FEW_COMMAS = 64, 1 << 16
"""Of a large body: this few quotes can only enclose names, which contain no more than this many commas."""


class DeclaredInput(Protocol):
    """An input that a model declares."""

    @property
    def name(self) -> str: ...
    @property
    def datatype(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]:
        """-1: any size."""


class V1Input(NamedTuple):
    """An input of a request."""

    name: str
    datatype: str
    shape: list[int]
    elements: Any
    """A flat list, or the array of a large input. BYTES elements are text, or bytes if they came in base64."""


def parse_request(body: Any, declared: Sequence[DeclaredInput], most: int = 1 << 62) -> tuple[list[V1Input], str]:
    """Return the inputs of a request and its format, ROWS or COLUMNS.

    Raises ValueError for the caller, also if there are more than about `most` values. Does not check that numbers are
    in the range of their datatype, nor that shapes are those declared.
    """
    if isinstance(body, bytes) and len(body) > _LARGE:
        _measure(body, declared, most)
        document = _parse_large_body(body)
    else:
        document = _parse_body(body)
    unknown = document.keys() - {"instances", "inputs", "signature_name"}
    if unknown:
        raise ValueError(f"unknown field '{min(unknown)}'; a request has instances or inputs, and signature_name")
    if document.get("signature_name", DEFAULT_SIGNATURE) != DEFAULT_SIGNATURE:
        raise ValueError(f"signature_name: the only one is '{DEFAULT_SIGNATURE}'")
    if ("instances" in document) == ("inputs" in document):
        raise ValueError("expected either instances (one per row) or inputs (by columns)")
    specs = {spec.name: spec for spec in declared}
    # Looking for base64 in each value costs more than everything else: only if "b64" occurs, or may occur as an escape.
    plain = decode_b64 if b"b64" in body or b"\\" in body else _identity
    if "instances" in document:
        return _parse_rows(plain(document["instances"]), specs), ROWS
    return _parse_columns(plain(document["inputs"]), specs), COLUMNS


def output_values(values: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], style: str) -> Any:
    """Return the outputs of an answer, with nested values: a single output by itself, several by name."""
    if style == COLUMNS:
        return values if len(values) != 1 else next(iter(values.values()))
    if len({tuple(shape[:1]) for shape in shapes.values()}) > 1 or not all(shapes.values()):
        listed = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"outputs differ in rows: {listed}; use the column format, with inputs in place of instances")
    if len(values) == 1:
        return next(iter(values.values()))
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def render_answer(values: Any, style: str) -> bytes:
    """Return the whole answer as JSON text."""
    return b'{"%b":%b}' % (b"outputs" if style == COLUMNS else b"predictions", json_codec.write(values))


def _measure(body: bytes, declared: Sequence[DeclaredInput], most: int) -> None:
    """Raises ValueError if a large body has too many lists or values, or cannot fit the model's input, before it is
    decoded."""
    from mizzen.protocol import json_size

    found = json_size.count_containers(body)
    if found > json_size.MAX_LISTS:
        raise ValueError(
            f"the body holds {found} lists and objects, more than {json_size.MAX_LISTS}: "
            "send its rows in several requests"
        )
    if (strings := json_size.count_strings(body)) > json_size.MAX_STRINGS:
        raise ValueError(
            f"the body holds {strings} strings, more than {json_size.MAX_STRINGS}: send them in several requests"
        )
    if body.count(b",") >= most and json_size.count_outside(body, b",") >= most:
        raise ValueError(f"the body holds more than {most} values; send them in several requests, or as V2 tensors")
    if len(declared) != 1 or len(declared[0].shape) < 2 or body.count(b'"') > _FEW_QUOTES:
        return
    spec, width = declared[0], declared[0].shape[-1]
    # Each row of numbers is its own list of one width: more numbers than the lists can hold fit no shape.
    values = body.count(b",") + 1
    if plain_elements.LEAVES[spec.datatype] in (int, float) and width > 1 and values > found * width + _FEW_COMMAS:
        raise ValueError(
            f"input '{spec.name}' must have shape {list(spec.shape)}, not {values} values in {found} lists"
        )


def _parse_large_body(body: bytes) -> dict[str, Any]:
    found = long_lists.cut(body) if len(body) > _VERY_LARGE else None
    if found is None:
        return _parse_body(body)
    rest, lists = found
    try:
        document = _parse_body(rest)
    except json_keys.RepeatedKey:
        raise
    except ValueError:
        return _parse_body(body)  # or the fault is explained for the whole body
    return long_lists.restore(document, lists)


def _parse_body(body: Any) -> dict[str, Any]:
    if not isinstance(body, bytes):
        raise ValueError("a request is [inputs, outputs] or [body]")  # noqa: TRY004 - bad data, not a bad call
    try:
        document = json_codec.parse(body)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}" if body else "the body is empty") from None
    if not isinstance(document, dict):
        raise ValueError("the body: expected an object")  # noqa: TRY004
    json_keys.require_unique(body, document)
    return document


def _parse_rows(instances: Any, specs: dict[str, DeclaredInput]) -> list[V1Input]:
    if isinstance(instances, LongList):
        if len(specs) < 2:
            return [_build_input("instances", next(iter(specs), DEFAULT_INPUT), instances, specs)]
        if instances.flat:
            raise ValueError(f"instances[0]: expected {len(specs)} values, or an object with {_format_names(specs)}")
        instances = json_codec.parse(instances.text)
    if not isinstance(instances, list) or not instances:
        raise ValueError("instances: expected a non-empty list")
    if isinstance(instances[0], dict):
        return [_build_input("instances", name, values, specs) for name, values in _columns_by_name(instances).items()]
    if len(specs) > 1:
        return _parse_table(instances, specs)
    name = next(iter(specs), DEFAULT_INPUT)
    return [_build_input("instances", name, instances, specs)]


def _columns_by_name(instances: list[Any]) -> dict[str, list[Any]]:
    names = instances[0].keys()
    if not names:
        raise ValueError("instances[0]: expected an object with the inputs by name")
    for at, instance in enumerate(instances):
        if not isinstance(instance, dict) or instance.keys() != names:
            raise ValueError(f"instances[{at}]: expected an object with {_format_names(names)}, like the first")
    return {name: [instance[name] for instance in instances] for name in names}


def _parse_table(instances: list[Any], specs: dict[str, DeclaredInput]) -> list[V1Input]:
    """Parse the rows of a table, with one value for each input."""
    for at, instance in enumerate(instances):
        if not isinstance(instance, list) or len(instance) != len(specs):
            raise ValueError(f"instances[{at}]: expected {len(specs)} values, or an object with {_format_names(specs)}")
    columns = zip(specs, zip(*instances, strict=True), strict=True)
    return [_build_input("instances", name, list(values), specs) for name, values in columns]


def _parse_columns(inputs: Any, specs: dict[str, DeclaredInput]) -> list[V1Input]:
    if isinstance(inputs, dict) and inputs:
        return [_build_input("inputs", name, values, specs) for name, values in inputs.items()]
    if len(specs) > 1:
        raise ValueError(f"inputs: expected an object with {_format_names(specs)}")
    name = next(iter(specs), DEFAULT_INPUT)
    return [_build_input("inputs", name, inputs, specs)]


def _build_input(where: str, name: str, values: Any, specs: dict[str, DeclaredInput]) -> V1Input:
    spec = specs.get(name)
    try:
        wanted = spec.datatype if spec else None
        found: Any
        if isinstance(values, LongList):
            datatype, shape, found = values.read(wanted)
        else:
            datatype, shape, found = plain_elements.flatten(wanted, values)
    except ValueError as error:
        raise ValueError(f"{where}: input '{name}': {error}") from None
    if spec is not None and len(shape) == 1 and list(spec.shape) == [-1, 1]:
        shape.append(1)  # a row of one value
    return V1Input(name, datatype, shape, found)


def decode_b64(value: Any, depth: int = 0) -> Any:
    """Replace {"b64": ...} by bytes. Raises ValueError."""
    if isinstance(value, list) and depth <= MAX_B64_DEPTH and value and isinstance(value[0], dict | list):
        return [decode_b64(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"b64"}:
        return _decode_b64_text(value["b64"])
    return {name: decode_b64(one, depth + 1) for name, one in value.items()} if depth <= 1 else value


def _identity(value: Any) -> Any:
    return value


def _decode_b64_text(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError("the value of b64 is not base64 text") from None


def _format_names(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)
