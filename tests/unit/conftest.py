"""Unit tests open no socket and start no process: an audit hook refuses both. Such a test belongs to tests/component."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

REFUSED = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind", "socket.connect",
    "socket.getaddrinfo", "subprocess.Popen",
})  # fmt: skip
LIBRARIES = frozenset({"lscpu"})
"""Programs that third-party libraries start: joblib counts the cores of the machine with it."""

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
    running.append(item.nodeid)
    try:
        return (yield)
    finally:
        running.clear()
