from __future__ import annotations

import os
import socket
import sys

import pytest

from mizzen.supervisor.client import ask
from mizzen.supervisor.data_dir import read_json
from mizzen.supervisor.launch import Reason, StartFailed, launch
from mizzen.supervisor.protocol import Listener
from tests.support.supervised import Supervised

ACCEPTS = """
import json, os, socket
listening = socket.socket(fileno=json.loads(os.environ["MIZZEN_LISTENERS"])["control"])
listening.setblocking(True)
while True:
    connection, _ = listening.accept()
    connection.sendall(b"served")
    connection.close()
"""


def test_a_process_serves_the_socket_it_inherits_and_connects_wait_for_it(plane: Supervised) -> None:
    plane.start(listeners=(Listener("control", "127.0.0.1", 0),))
    with socket.create_connection(("127.0.0.1", _port(plane)), timeout=60) as connection:
        plane.apply(plane.spec("plane", ACCEPTS, listeners=True))
        assert connection.recv(100) == b"served"


def test_a_free_port_is_kept_over_restarts(plane: Supervised) -> None:
    free = Listener("control", "127.0.0.1", 0)
    plane.start(listeners=(free,))
    port = _port(plane)
    plane.stop()
    assert read_json(plane.home.ports) == {"control": port}
    plane.start(listeners=(free,))
    assert _port(plane) == port
    plane.stop()
    with socket.create_server(("127.0.0.1", port)):
        plane.start(listeners=(free,))
        assert _port(plane) != port


def test_a_taken_port_is_named_with_its_holder(plane: Supervised) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            StartFailed, match=rf"port {port} \(control\) is taken by \S+ \(pid {os.getpid()}\)"
        ) as caught:
            plane.start(listeners=(Listener("control", "127.0.0.1", port),))
        assert caught.value.reason is Reason.PORT_TAKEN
        assert str(port) in read_json(plane.home.failure)["message"]
        assert str(port) in plane.log("supervisor")
    plane.start(listeners=(Listener("control", "127.0.0.1", port),))
    assert _port(plane) == port
    assert not plane.home.failure.exists()


def test_an_address_of_another_machine_is_named(plane: Supervised) -> None:
    with pytest.raises(StartFailed, match=r"192\.0\.2\.1") as caught:
        plane.start(listeners=(Listener("control", "192.0.2.1", 0),))
    assert caught.value.reason is Reason.OTHER


def test_a_broken_boot_file_is_told(plane: Supervised) -> None:
    plane.home.boot.write_text('{"processes": [{"key": "x"}]}')
    with pytest.raises(StartFailed, match=r"boot\.json cannot be read"):
        launch(plane.home, python=sys.executable)


def _port(plane: Supervised) -> int:
    port: int = ask(plane.home, "info")["listeners"]["control"]["port"]
    return port
