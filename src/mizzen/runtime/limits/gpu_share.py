"""The share of a GPU that a model may use: the plane sets it, and hides all other devices (CUDA_VISIBLE_DEVICES).

A GPU is used only if the InferenceModel requests one (`gpu`).
"""

from __future__ import annotations

from collections.abc import Mapping

SHARE = "MIZZEN_GPU_MEMORY_SHARE"
"""The share of the memory of each visible device, between 0 and 1."""
BYTES = "MIZZEN_GPU_MEMORY"
"""The same in bytes, if the plane knows the device's memory."""


def share(environ: Mapping[str, str]) -> float | None:
    """Return the share; None: do not use a GPU."""
    try:
        given = float(environ.get(SHARE, ""))
    except ValueError:
        return None
    return given if 0 < given <= 1 else None


def memory(environ: Mapping[str, str]) -> int | None:
    """Return how many bytes of each visible device may be used; None if unknown."""
    text = environ.get(BYTES, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None
