"""What is said of an import beside the manifests that came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mizzen.errors import Fault


class CannotImport(Exception):
    """Nothing that means the same can be made of it; `faults` say why."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that differs, is left out or is to be done."""

    place: str
    """Where what it speaks of was written: file, line, kind and name."""
    path: str
    message: str
    refused: bool = False
    """Because of this no manifest was made."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


class Notes:
    """Those of one object, in the order they were found, each once."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._found: dict[Note, None] = {}

    def add(self, path: str, message: str) -> None:
        self._found[Note(self._place, path, message)] = None

    def left_out(self, path: str, fields: Iterable[str], why: str = "has no equal") -> None:
        for field in fields:
            self.add(f"{path}.{field}", f"{why}; it is left out")

    def refuse(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self._found[Note(self._place, fault.path, fault.message, refused=True)] = None

    def __iter__(self) -> Iterator[Note]:
        return iter(self._found)
