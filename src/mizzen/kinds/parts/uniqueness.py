"""Faults for entries of a list that must differ, and do not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mizzen.errors import Fault


class Named(Protocol):
    @property
    def name(self) -> str | None: ...


def repeats(words: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Each repeated word, with its index."""
    seen: set[str] = set()
    for index, word in enumerate(words):
        if word in seen:
            yield index, word
        seen.add(word)


def word_faults(words: Iterable[str], at: str) -> Iterator[Fault]:
    """A fault for each repeated word; `at` is the path of the list."""
    for index, word in repeats(words):
        yield Fault(f"{at}[{index}]", f"'{word}' is given twice")


def name_faults(parts: Iterable[Named], at: str, noun: str) -> Iterator[Fault]:
    """A fault for each part with the name of an earlier one; `at` is the path of the list."""
    return path_faults(((f"{at}[{index}].name", part.name) for index, part in enumerate(parts)), noun)


def path_faults(names: Iterable[tuple[str, str | None]], noun: str) -> Iterator[Fault]:
    """A fault for each repeated name; `names` are pairs of path and name."""
    seen: set[str] = set()
    for path, name in names:
        if name in seen:
            yield Fault(path, f"'{name}' is already the name of another {noun}")
        if name:
            seen.add(name)
