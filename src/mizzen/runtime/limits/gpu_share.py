"""Which part of a GPU a model may use: the plane says so, and hides all other devices (CUDA_VISIBLE_DEVICES).

No GPU is used unless one was asked for (`gpu` of whoever serves the model).
"""

from __future__ import annotations

from collections.abc import Mapping

SHARE = "MIZZEN_GPU_MEMORY_SHARE"
"""Of the memory of each visible device, between 0 and 1."""
BYTES = "MIZZEN_GPU_MEMORY"
"""The same in bytes, where the plane knows how many the device has."""


def share(environ: Mapping[str, str]) -> float | None:
    """None: no GPU is to be used."""
    try:
        given = float(environ.get(SHARE, ""))
    except ValueError:
        return None
    return given if 0 < given <= 1 else None


def memory(environ: Mapping[str, str]) -> int | None:
    """Bytes of each visible device that may be used; None where nobody knows."""
    text = environ.get(BYTES, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None
