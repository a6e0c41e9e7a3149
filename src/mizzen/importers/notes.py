"""Notes of an import, in addition to its manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mizzen.errors import Fault


class CannotImport(Exception):
    """The object has no equivalent; `faults` say why."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class ImportNote:
    """One difference, omission or task for the user."""

    place: str
    """The origin of the object: file, line, kind and name."""
    path: str
    message: str
    refused: bool = False
    """Whether this is why no manifest was produced."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


class ImportNotes:
    """The notes of one object, each once, in the order of discovery."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._found: dict[ImportNote, None] = {}

    def add(self, path: str, message: str) -> None:
        self._found[ImportNote(self._place, path, message)] = None

    def left_out(self, path: str, fields: Iterable[str], why: str = "has no equivalent") -> None:
        for field in fields:
            self.add(f"{path}.{field}", f"{why}; it is left out")

    def refuse(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self._found[ImportNote(self._place, fault.path, fault.message, refused=True)] = None

    def __iter__(self) -> Iterator[ImportNote]:
        return iter(self._found)
