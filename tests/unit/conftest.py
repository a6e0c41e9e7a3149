"""Unit tests open no socket and start no process, which an audit hook enforces. Others belong to tests/component."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REFUSED = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "socket.connect",
    "socket.getaddrinfo", "subprocess.Popen",
})  # fmt: skip
LIBRARIES = frozenset({"lscpu"})
"""Programs that third-party libraries start: joblib counts the cores of the machine with it."""

FOLDER = Path(__file__).parent
running: list[str] = []
"""The unit test that runs in this process, if any."""


class OutsideUnit(BaseException):
    """Not an Exception, so that no code under test can handle it."""


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in REFUSED and running and not (event == "subprocess.Popen" and arguments[0] in LIBRARIES):
        raise OutsideUnit(f"{event}{arguments!r:.200}: move {running[0]} to tests/component")


sys.addaudithook(refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Pytest asks this for the tests of all folders."""
    if item.path.is_relative_to(FOLDER):
        running.append(item.nodeid)
    try:
        return (yield)
    finally:
        running.clear()
