"""What an `Accept` header asks for: a Table, metadata alone, or the object as it is. Pure.

Clients name several forms, best first or by their `q`, such as kubectl: a Table of `meta.k8s.io/v1`, else one of
`v1beta1`, else plain JSON. Whatever else is asked for is answered with plain JSON: what is in an answer says its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers

JSON_RANGES = ("application/json", "application/*", "*/*")
OF_META = {"v": "v1", "g": "meta.k8s.io"}

Conversion = Literal["Table", "Metadata"]
CONVERSIONS: dict[str, Conversion] = {
    "Table": "Table", "PartialObjectMetadata": "Metadata", "PartialObjectMetadataList": "Metadata",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Range:
    """One of the forms that a header names."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    @property
    def conversion(self) -> Conversion | None:
        """What the answer is to be turned into; `charset`, `stream` and the like do not say."""
        return CONVERSIONS.get(self._said.get("as", ""))

    @property
    def possible(self) -> bool:
        said = self._said
        known = not said or (self.conversion is not None and said == {**OF_META, "as": said["as"]})
        return self.quality > 0 and self.media in JSON_RANGES and known

    @property
    def _said(self) -> dict[str, str]:
        return {name: value for name, value in self.parameters if name in ("as", *OF_META)}


def wanted(headers: Headers) -> Conversion | None:
    """Of the forms that we have and they take, the best; of equals, the first. None: as it is."""
    possible = [found for found in ranges(",".join(headers.getlist("accept"))) if found.possible]
    return max(possible, key=lambda found: found.quality).conversion if possible else None


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
