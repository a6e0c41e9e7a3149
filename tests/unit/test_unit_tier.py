"""The unit tier refuses sockets and processes, whatever catches the error on its way."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.unit.conftest import OutsideUnit


def bind() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


def connect() -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", 9))


def start() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.parametrize("action", [bind, connect, start])
def test_sockets_and_processes_are_refused(action: Callable[[], None]) -> None:
    with pytest.raises(OutsideUnit, match="tests/component"), contextlib.suppress(Exception):
        action()
