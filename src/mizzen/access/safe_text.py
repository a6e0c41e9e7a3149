"""Sanitizing of caller-supplied text for messages, logs and the audit, which people read as lines."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"mzn_[A-Za-z0-9_-]{16,}")


def sanitize(text: str, longest: int) -> str:
    """Returns at most `longest` characters. Escapes unprintable characters and line breaks, and removes tokens that
    were sent in the wrong place."""
    if text.isascii() and text.isprintable() and len(text) <= longest and "mzn_" not in text:
        return text
    text = _TOKEN.sub("mzn_...", text[: 4 * longest])
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)[:longest]
