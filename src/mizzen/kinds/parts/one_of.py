"""Rules for parts in which at most one field, or exactly one, may be set. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Part


def present_fields(part: Part, fields: Sequence[str]) -> tuple[str, ...]:
    """The fields that are set. Presence counts, not truth: 0 and {} are set."""
    return tuple(name for name in fields if getattr(part, name) is not None)


def at_most_one(part: Part, fields: Sequence[str], at: str) -> Iterator[Fault]:
    there = present_fields(part, fields)
    if len(there) > 1:
        possible, written = ", ".join(_wire_names(part, fields)), " and ".join(_wire_names(part, there))
        yield Fault(at, f"only one of {possible} may be set, not {written}")


def exactly_one(part: Part, fields: Sequence[str], at: str, context: Context) -> Iterator[Fault]:
    """A field that could not be read is not reported as missing."""
    if not present_fields(part, fields) and context.was_read(at, *_wire_names(part, fields)):
        yield Fault(at, f"one of {', '.join(_wire_names(part, fields))} is required")
    yield from at_most_one(part, fields, at)


def _wire_names(part: Part, fields: Sequence[str]) -> list[str]:
    """The names of fields on the wire."""
    return [type(part).model_fields[name].alias or name for name in fields]
