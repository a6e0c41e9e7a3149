"""Parts of which one field at most, or exactly one, may be given. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Part


def given(part: Part, fields: Sequence[str]) -> tuple[str, ...]:
    """Those of the fields that are there. Present is what counts, not truth: 0 and {} are given."""
    return tuple(name for name in fields if getattr(part, name) is not None)


def at_most_one(part: Part, fields: Sequence[str], at: str) -> Iterator[Fault]:
    there = given(part, fields)
    if len(there) > 1:
        possible, written = ", ".join(_written(part, fields)), " and ".join(_written(part, there))
        yield Fault(at, f"only one of {possible} is possible, not {written}")


def exactly_one(part: Part, fields: Sequence[str], at: str, context: Context) -> Iterator[Fault]:
    """A field that could not be read is not said to be missing."""
    if not given(part, fields) and context.read(at, *_written(part, fields)):
        yield Fault(at, f"one of {', '.join(_written(part, fields))} is required")
    yield from at_most_one(part, fields, at)


def again(words: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Each word that was there before, with its index."""
    seen: set[str] = set()
    for index, word in enumerate(words):
        if word in seen:
            yield index, word
        seen.add(word)


def _written(part: Part, fields: Sequence[str]) -> list[str]:
    """Names of fields as they are on the wire."""
    return [type(part).model_fields[name].alias or name for name in fields]
