"""Content negotiation: an `Accept` header asks for a Table, metadata alone, or the object unchanged. Pure.

Clients name several forms, best first or with a `q`. For example, kubectl asks for a Table of `meta.k8s.io/v1`, else
one of `v1beta1`, else plain JSON. All other requests get plain JSON, which contains its kind.
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
class MediaRange:
    """One of the forms in an `Accept` header."""

    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    @property
    def conversion(self) -> Conversion | None:
        """The form to convert the response to; parameters such as `charset` and `stream` do not count."""
        return CONVERSIONS.get(self._conversion_parameters.get("as", ""))

    @property
    def is_acceptable(self) -> bool:
        asked = self._conversion_parameters
        known = not asked or (self.conversion is not None and asked == {**OF_META, "as": asked["as"]})
        return self.quality > 0 and self.media in JSON_RANGES and known

    @property
    def _conversion_parameters(self) -> dict[str, str]:
        return {name: value for name, value in self.parameters if name in ("as", *OF_META)}


def negotiate(headers: Headers) -> Conversion | None:
    """Returns the best form that we support; of equals, the first. None: unchanged."""
    possible = [found for found in parse_accept(",".join(headers.getlist("accept"))) if found.is_acceptable]
    return max(possible, key=lambda found: found.quality).conversion if possible else None


def parse_accept(header: str) -> list[MediaRange]:
    """Returns the forms in the order of the header. A `q` that is not a number from 0 to 1 counts as 1."""
    return [_parse_range(text) for text in header.split(",") if text.strip()]


def _parse_range(text: str) -> MediaRange:
    media, *rest = (part.strip() for part in text.split(";"))
    pairs = [part.partition("=") for part in rest if part]
    parameters = tuple((name.strip().lower(), value.strip().strip('"')) for name, _, value in pairs)
    return MediaRange(media.lower(), parameters, _parse_quality(dict(parameters).get("q", "1")))


def _parse_quality(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 1.0
    return found if 0 <= found <= 1 else 1.0
