"""Label selectors in the notation of Kubernetes: `a=b`, `a!=b`, `a in (b, c)`, `a notin (b, c)`, `a`, `!a`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mizzen.errors import BadRequest

LONGEST = 4096
"""Characters of a selector, since every reader may send one."""
MOST = 100
"""Conditions of a selector."""

# Possessive (`*+`), so that an invalid selector is rejected at once, without backtracking through every alternative.
_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_TEXT = r"[-A-Za-z0-9_.]*"
_VALUE = f"{_TEXT}+"
_TERM = re.compile(
    rf"\s*+(?:!\s*+(?P<absent>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*+(?P<sign>==?|!=)\s*+(?P<value>{_VALUE})"
    rf"|\s++(?P<word>in|notin)\s*+\((?P<values>\s*+{_VALUE}\s*+(?:,\s*+{_VALUE}\s*+)*+)\))?)\s*+(?:,|$)"
)
_CONDITION = rf"!\s*{_KEY}|{_KEY}(?:\s*(?:==?|!=)\s*{_TEXT}|\s+(?:in|notin)\s*\(\s*{_TEXT}\s*(?:,\s*{_TEXT}\s*)*\))?"
PATTERN = rf"(?:\s*(?:{_CONDITION})\s*,)*\s*(?:(?:{_CONDITION})\s*)?"
"""A pattern for all valid selectors, for API documents: without possessive quantifiers, which few engines support."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on labels. If the key is missing, `notin` is true and `in` is false."""

    key: str
    op: Literal["in", "notin", "exists", "absent"]
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.op:
            case "in":
                return self.key in labels and labels[self.key] in self.values
            case "notin":
                return self.key not in labels or labels[self.key] not in self.values
            case "exists":
                return self.key in labels
            case "absent":
                return self.key not in labels


Selector: TypeAlias = tuple[Requirement, ...]
"""All requirements must hold; an empty selector matches everything."""


def equal(labels: Mapping[str, str]) -> Selector:
    return tuple(Requirement(key, "in", frozenset({value})) for key, value in sorted(labels.items()))


def holds(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)


def parse(text: str) -> Selector:
    """Raises BadRequest, with the unreadable part."""
    if len(text) > LONGEST:
        raise BadRequest(f"labelSelector: at most {LONGEST:,} characters, not {len(text):,}")
    requirements: list[Requirement] = []
    at = 0
    while text[at:].strip():
        term = _TERM.match(text, at)
        if term is None:
            raise BadRequest(
                f"labelSelector: cannot read '{text[at:].strip()}'",
                hint="write key=value, key!=value, key in (a, b), key notin (a, b), key or !key; several with commas",
            )
        requirements.append(_requirement(term))
        at = term.end()
    if len(requirements) > MOST:
        raise BadRequest(f"labelSelector: at most {MOST} conditions, not {len(requirements)}")
    return tuple(requirements)


def _requirement(term: re.Match[str]) -> Requirement:
    if term["absent"]:
        return Requirement(term["absent"], "absent")
    if term["sign"]:
        return Requirement(term["key"], "notin" if term["sign"] == "!=" else "in", frozenset({term["value"]}))
    if term["word"]:
        values = frozenset(value.strip() for value in term["values"].split(","))
        return Requirement(term["key"], "in" if term["word"] == "in" else "notin", values)
    return Requirement(term["key"], "exists")
