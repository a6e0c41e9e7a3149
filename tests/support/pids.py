"""A pid that no process has."""

from __future__ import annotations

from typing import Final

DEAD: Final = 1 << 22
"""Above the largest pid that Linux gives out."""
