"""A gate in front of a tool's WSGI app: it rejects requests without the key of `<MIZZEN_RUN_DIR>/show-key`."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any

FILE = "show-key"
HEADER = "Mizzen-Show-Key"
READY = "/ready"
"""The only path that needs no key; it reveals nothing about the tool."""
SHORTEST = 32
"""Minimum characters of a key: a truncated file opens nothing."""

REFUSED = "this tool responds only to the plane: open it with 'mizzen monitor open'\n"

_LONGEST = 4096
_VARIABLE = f"HTTP_{HEADER.upper().replace('-', '_')}"

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Gate:
    """A WSGI app. It reads the file for each request, so that a new key takes effect at once."""

    def __init__(self, tool: App, key_file: Path) -> None:
        self._tool = tool
        self._key_file = key_file

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == READY:
            return _respond(environ, start_response, HTTPStatus.OK, "ok\n")
        sent = str(environ.pop(_VARIABLE, "")).encode("latin-1", "replace")  # the tool must not see it
        key = read_key(self._key_file)
        if key is None or not hmac.compare_digest(sent, key):
            return _respond(environ, start_response, HTTPStatus.FORBIDDEN, REFUSED)
        return self._tool(environ, start_response)


def read_key(file: Path) -> bytes | None:
    """Return the key; None if there is none, or another account could know it."""
    try:
        with file.open("rb") as opened:
            about = os.fstat(opened.fileno())
            key = opened.read(_LONGEST).strip()
    except OSError:
        return None
    own = about.st_uid == os.geteuid() and not about.st_mode & 0o077
    return key if own and len(key) >= SHORTEST else None


def _respond(
    environ: dict[str, Any], start_response: Callable[..., Any], status: HTTPStatus, text: str
) -> Iterable[bytes]:
    content = text.encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(content)))]
    start_response(f"{status.value} {status.phrase}", headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [content]
