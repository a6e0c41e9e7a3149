"""URLs and git repositories in specs. Everybody who may read an object sees them, so they hold no password. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

FETCHED = ("http", "https", "s3", "file")
CALLED = ("http", "https")

_PRINTABLE = re.compile(r"[!-~]+")
_SCP_LIKE = re.compile(r"(?:[-\w.]+@)?[-\w.]+:(?!//).+")


def _checked(text: str, schemes: Collection[str]) -> str:
    # What was given is not shown: it may hold a password in a place where none is looked for.
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(text)
        placed = parts.hostname if parts.scheme != "file" else parts.path
        _ = parts.port
    except ValueError:
        raise ValueError(f"is no URL; it starts with {wanted}") from None
    if parts.password is not None:
        raise ValueError("holds a password; keep it in a secret")
    if not _PRINTABLE.fullmatch(text) or parts.scheme not in schemes or not placed:
        raise ValueError(f"is no URL; it starts with {wanted}")
    return text


def _fetched(text: str) -> str:
    return _checked(text, FETCHED)


def _called(text: str) -> str:
    return _checked(text, CALLED)


def _repository(text: str) -> str:
    """What git takes: a URL, `host:path`, or a path. A leading '-' would be an option to git."""
    if not _PRINTABLE.fullmatch(text) or text.startswith("-"):
        raise ValueError("is no git repository: a URL, host:path or an absolute path")
    if "://" in text:
        return _checked(text, ("https", "http", "ssh", "git", "file"))
    if text.startswith("/") or _SCP_LIKE.fullmatch(text):
        return text
    raise ValueError("is no git repository: a URL, host:path or an absolute path")


FileUrl = Annotated[str, AfterValidator(_fetched)]
"""Where files can be fetched from."""

WebUrl = Annotated[str, AfterValidator(_called)]

Repository = Annotated[str, AfterValidator(_repository)]


def _sha256sum(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("must be the sha256 of the content: 64 hexadecimal digits")
    return text


Sha256sum = Annotated[str, AfterValidator(_sha256sum)]
