"""What an `Accept` header asks for: a Table, or the object as it is. Pure.

Clients name several forms, best first or by their `q`, such as kubectl: a Table of `meta.k8s.io/v1`, else one of
`v1beta1`, else plain JSON. Whatever else is asked for is answered with plain JSON: what is in an answer says its kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers

JSON_RANGES = ("application/json", "application/*", "*/*")
AS_TABLE = {"as": "Table", "v": "v1", "g": "meta.k8s.io"}


@dataclass(frozen=True, slots=True)
class Range:
    """One of the forms that a header names."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    @property
    def converted(self) -> dict[str, str]:
        """What the answer is to be turned into; `charset`, `stream` and the like do not say."""
        return {name: value for name, value in self.parameters if name in AS_TABLE}

    @property
    def possible(self) -> bool:
        return self.quality > 0 and self.media in JSON_RANGES and self.converted in ({}, AS_TABLE)


def wants_table(headers: Headers) -> bool:
    """Of the forms that we have and they take, is the best one a Table? Of equals, the first."""
    possible = [found for found in ranges(",".join(headers.getlist("accept"))) if found.possible]
    return bool(possible) and max(possible, key=lambda found: found.quality).converted == AS_TABLE


def ranges(header: str) -> list[Range]:
    """In the order of the header. A `q` that is no number from 0 to 1 counts as 1, as if it were not there."""
    return [_range(text) for text in header.split(",") if text.strip()]


def _range(text: str) -> Range:
    media, *rest = (part.strip() for part in text.split(";"))
    pairs = [part.partition("=") for part in rest if part]
    parameters = tuple((name.strip().lower(), value.strip().strip('"')) for name, _, value in pairs)
    return Range(media.lower(), parameters, _quality(dict(parameters).get("q", "1")))


def _quality(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 1.0
    return found if 0 <= found <= 1 else 1.0
