"""The framework `lookup`: a JSON file with a value for each key. Only the declaration: the plane reads it."""

from __future__ import annotations

from mizzen.frameworks import Framework

LOOKUP = Framework(
    "lookup",
    suffixes=(".lookup",),
    begins=(b'{"lookup":',),
    loader="mizzen_lookup.loader",
)
