"""Who gets to a tool: whoever has the key, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from mizzen.showing.gate import FILE, READY, REFUSED, Gate

KEY = "5" * 64
SENT = "HTTP_MIZZEN_SHOW_KEY"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / FILE
    made.touch(0o600)
    made.write_text(f"{KEY}\n")
    return made


def asked(file: Path, path: str = "/", method: str = "GET", **headers: str) -> tuple[str, bytes]:
    """What the gate before a tool says that tells all it knows."""
    environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": method, **headers}
    setup_testing_defaults(environ)
    told: list[str] = []

    def tool(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        start("200 OK", [])
        return [f"the tool, asked by {environ.get(SENT)}".encode()]

    answer = b"".join(Gate(tool, file)(environ, lambda status, _: told.append(status)))
    return told[0], answer


def test_whoever_has_the_key_gets_through_and_the_tool_is_not_told_it(file: Path) -> None:
    assert asked(file, HTTP_MIZZEN_SHOW_KEY=KEY) == ("200 OK", b"the tool, asked by None")


@pytest.mark.parametrize("sent", [None, "", KEY[:-1], f"{KEY}5", f"{KEY},{KEY}", "Bearer x", "\xe9€"])
def test_whoever_has_not_is_told_so_in_a_line(file: Path, sent: str | None) -> None:
    headers = {} if sent is None else {SENT: sent}
    assert asked(file, **headers) == ("403 Forbidden", REFUSED.encode())
    assert REFUSED.count("\n") == 1


def test_only_whether_it_is_ready_is_told_to_everybody(file: Path) -> None:
    assert asked(file, READY) == ("200 OK", b"ok\n")
    assert asked(file, READY, "HEAD") == ("200 OK", b"")
    for path in (f"{READY}/", f"{READY}/../", f"/{READY}", "", "/READY"):
        assert asked(file, path)[0] == "403 Forbidden"


def test_a_file_without_a_key_opens_nothing(file: Path) -> None:
    for text in ("", "\n", "short"):
        file.write_text(text)
        assert asked(file, HTTP_MIZZEN_SHOW_KEY=text.strip())[0] == "403 Forbidden"
        assert asked(file)[0] == "403 Forbidden"
    file.unlink()
    assert asked(file)[0] == "403 Forbidden"


def test_a_key_that_others_can_read_opens_nothing(file: Path) -> None:
    file.chmod(0o640)
    assert asked(file, HTTP_MIZZEN_SHOW_KEY=KEY)[0] == "403 Forbidden"


def test_a_new_key_counts_at_once(file: Path) -> None:
    file.write_text("6" * 64)
    assert asked(file, HTTP_MIZZEN_SHOW_KEY=KEY)[0] == "403 Forbidden"
    assert asked(file, HTTP_MIZZEN_SHOW_KEY="6" * 64)[0] == "200 OK"
