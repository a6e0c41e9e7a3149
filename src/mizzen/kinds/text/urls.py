"""URLs and git repositories in specs. All readers of an object see them, so passwords are rejected. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

FILE_SCHEMES = ("http", "https", "s3", "file")
WEB_SCHEMES = ("http", "https")

_PRINTABLE = re.compile(r"[!-~]+")
_SCP_LIKE = re.compile(r"(?:[-\w.]+@)?[-\w.]+:(?!//).+")


def _check(text: str, schemes: Collection[str]) -> str:
    # The message does not repeat the URL, which may contain a password in an unexpected place.
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(text)
        placed = parts.hostname if parts.scheme != "file" else parts.path
        _ = parts.port
    except ValueError:
        raise ValueError(f"is not a valid URL; expected {wanted}") from None
    if parts.password is not None:
        raise ValueError("contains a password; store it in a secret")
    if not _PRINTABLE.fullmatch(text) or parts.scheme not in schemes or not placed:
        raise ValueError(f"is not a valid URL; expected {wanted}")
    return text


def _repository(text: str) -> str:
    """A URL, `host:path`, or a path, as for git. A leading '-' would be an option to git."""
    if not _PRINTABLE.fullmatch(text) or text.startswith("-"):
        raise ValueError("is not a git repository; expected a URL, host:path or an absolute path")
    if "://" in text:
        return _check(text, ("https", "http", "ssh", "git", "file"))
    if text.startswith("/") or _SCP_LIKE.fullmatch(text):
        return text
    raise ValueError("is not a git repository; expected a URL, host:path or an absolute path")


FileUrl = Annotated[str, AfterValidator(partial(_check, schemes=FILE_SCHEMES))]
"""A URL that files can be downloaded from."""

WebUrl = Annotated[str, AfterValidator(partial(_check, schemes=WEB_SCHEMES))]

Repository = Annotated[str, AfterValidator(_repository)]


def _sha256sum(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("must be the sha256 of the content: 64 hexadecimal digits")
    return text


Sha256sum = Annotated[str, AfterValidator(_sha256sum)]
