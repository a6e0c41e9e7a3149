"""Parts of which one field at most, or exactly one, may be given. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mizzen.errors import Fault
from mizzen.kinds.findings import Context
from mizzen.kinds.meta import Part


def given(part: Part, fields: Sequence[str]) -> tuple[str, ...]:
    """Those of the fields that are there. Present is what counts, not truth: 0 and {} are given."""
    return tuple(name for name in fields if getattr(part, name) is not None)


def at_most_one(part: Part, fields: Sequence[str], at: str) -> Iterator[Fault]:
    there = given(part, fields)
    if len(there) > 1:
        yield Fault(at, f"only one of {_written(part, fields)} is possible, not {_written(part, there, ' and ')}")


def exactly_one(part: Part, fields: Sequence[str], at: str, context: Context) -> Iterator[Fault]:
    """A field that could not be read is not said to be missing."""
    if not given(part, fields) and context.whole(at):
        yield Fault(at, f"one of {_written(part, fields)} is required")
    yield from at_most_one(part, fields, at)


def _written(part: Part, fields: Sequence[str], between: str = ", ") -> str:
    return between.join(type(part).model_fields[name].alias or name for name in fields)
