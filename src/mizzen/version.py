"""The version of this release, in a module that everything may import."""

from __future__ import annotations

VERSION = "0.1.0.dev0"
