"""What somebody named, as it may be repeated: in messages, logs and the audit, which people read as lines."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"mzn_[A-Za-z0-9_-]{16,}")


def plain(text: str, longest: int) -> str:
    """So many characters at most. What cannot be seen, or would begin a line, is written as its escape; and a token
    that was sent in the wrong place is not repeated."""
    if text.isascii() and text.isprintable() and len(text) <= longest and "mzn_" not in text:
        return text
    text = _TOKEN.sub("mzn_...", text[: 4 * longest])
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)[:longest]
