"""Findings about what a person wrote: faults reject it, warnings only point something out.

`examine` produces them for a whole spec; here are the types, the hints and the search for unknown fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from mizzen.errors import Fault
from mizzen.kinds.schema.names_and_columns import CLOSE

MOST = 100
"""The most faults that are reported of one kind: unknown fields, wrong types, and those of one check. Each search for a
suggestion takes time, and people do not read thousands of faults."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Something odd that is accepted all the same: where it is, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


Finding: TypeAlias = Fault | Warn


@dataclass(frozen=True, slots=True)
class Context:
    """What a check may use in addition to the data itself."""

    capabilities: frozenset[str] = frozenset()
    """What the engine of this plane can do: `containers`, `gpus`."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """The object's own name."""
    namespace: str = ""
    """The object's own namespace; empty if it is not known yet."""
    strict: bool = True
    """A person sent it, so unknown fields are faults. `examine` sets it for the checks it runs."""
    unread: frozenset[str] = frozenset()
    """Paths that are misspelled, of a wrong type, or missing. `examine` sets it for the checks it runs."""
    incomplete: frozenset[str] = frozenset()
    """Paths that contain unread ones, at any depth. `examine` sets it, too."""

    def was_read(self, at: str, *fields: str) -> bool:
        """Whether these fields of the part at this path were read. Only then can a check call them absent.

        Also true of a list or an object with faults inside it: it is present. `is_complete` covers its content.
        """
        return not any(f"{at}.{name}" in self.unread for name in fields)

    def is_complete(self, at: str) -> bool:
        """Whether all of it was read, at any depth. Only then can its entries be counted and summed."""
        return at not in self.unread and at not in self.incomplete


@dataclass(frozen=True, slots=True)
class Findings:
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Warn, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Findings:
        """Each finding once, in the order of discovery."""
        found = tuple(dict.fromkeys(findings))
        return cls(
            tuple(item for item in found if isinstance(item, Fault)),
            tuple(item for item in found if isinstance(item, Warn)),
        )

    def __iter__(self) -> Iterator[Finding]:
        yield from self.faults
        yield from self.warnings


def close_to(word: str, valid: Iterable[str]) -> str | None:
    """The valid word closest to `word`; None if none is close."""
    names = {name.lower(): name for name in valid}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=CLOSE)
    return names[close[0]] if close else None


def suggestion(word: str, valid: Collection[str], noun: str = "valid") -> str:
    """`did you mean 'x'?` if a valid word is close, else `<noun> are a, b`."""
    return _hint(close_to(word, valid), valid, noun)


def unknown(data: Mapping[str, Any], valid: Collection[str], path: str = "") -> tuple[Fault, ...]:
    """A fault for each unknown field: the first `MOST`, and one more fault if there are more."""
    return tuple(fault for fault, _ in limit_unknown(unknown_fields(data, valid, path), path))


def limit_unknown(strange: Iterator[tuple[Fault, str | None]], path: str) -> Iterator[tuple[Fault, str | None]]:
    yield from islice(strange, MOST)
    if next(strange, None) is not None:
        yield Fault(path, f"more than {MOST} fields are unknown; these are the first"), None


def unknown_fields(data: Iterable[str], valid: Collection[str], path: str) -> Iterator[tuple[Fault, str | None]]:
    """A fault for each unknown field, with the closest valid name."""
    for name in (str(name) for name in data if name not in valid):
        meant = close_to(name, valid)
        yield Fault(path, f"unknown field '{name}'; {_hint(meant, valid)}"), meant


def _hint(close: str | None, valid: Collection[str], noun: str = "valid") -> str:
    if close is not None:
        return f"did you mean '{close}'?"
    return f"{noun} are {', '.join(valid)}" if valid else "none is possible here"
