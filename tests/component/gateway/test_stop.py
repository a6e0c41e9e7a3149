"""Stopping: what has been asked is answered, within the time there is."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.gateway.harness import (
    LIMITS,
    Client,
    Gateway,
    Runtime,
    body_of,
    infer_request,
    listening,
    publish,
    request,
    table_of,
    until,
)


def count_queued(gateway: Gateway) -> int:
    """Requests that have been read, and wait for the replica."""
    with gateway.client() as client:
        client.send(request("GET", "/metrics"))
        lines = client.answer().body.decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("mizzen_queue_length{"))


SLOW = request("POST", "/v2/models/m/infer?by=asgi", body_of([1.0]))


@pytest.mark.parametrize("asked", [infer_request([1.0]), SLOW])
def test_what_is_in_flight_is_answered(gateway: Gateway, runtime: Runtime, asked: bytes) -> None:
    runtime.held = True
    with gateway.client() as client, gateway.client() as idle, gateway.client() as half:
        client.send(asked)
        half.send(infer_request([1.0])[:-1])
        until(lambda: runtime.items == 1)
        gateway.stop()
        assert idle.closed()
        half.send(infer_request([1.0])[-1:])
        runtime.release()
        answer = client.answer()
        assert answer.sums == [1.0]
        assert answer.headers["connection"] == "close"
        assert client.closed()
        late = half.answer()
        assert late.sums == [1.0]
        assert late.headers["connection"] == "close"
    gateway.done.result(60)


def test_all_that_was_pipelined_is_answered(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with gateway.client() as client, gateway.client() as idle:
        client.send(infer_request([1.0]) + SLOW + infer_request([2.0]))
        until(lambda: runtime.items == 1 and count_queued(gateway) == 1)
        gateway.stop()
        assert idle.closed()
        runtime.release()
        answers = [client.answer() for _ in range(3)]
        assert [answer.sums for answer in answers] == [[1.0], [1.0], [2.0]]
        assert answers[-1].headers["connection"] == "close"
        assert client.closed()
    gateway.done.result(60)


def test_the_time_to_finish_is_bounded(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(replace(LIMITS, stop_timeout=0.2))
    gateway.wait_ready()
    runtime.held = True
    with gateway.client() as client, gateway.client() as slow:
        client.send(infer_request([1.0]))
        slow.send(SLOW)
        until(lambda: runtime.items == 1)
        gateway.stop()
        gateway.done.result(60)
        assert client.closed()


def test_two_gateways_share_a_socket_and_one_may_leave(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    first, second = start_gateway(), start_gateway()
    until(lambda: runtime.connections == 2, "both are connected")
    for n in range(20):
        assert first.infer([float(n)]).sums == [n]
    first.stop()
    first.done.result(60)
    for n in range(20):
        assert second.infer([float(n)]).sums == [n]


@pytest.fixture
def process(runtime: Runtime, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A gateway as a process of its own, with the listening socket inherited."""
    publish(folder / "table.json", table_of(runtime.address))
    program = (
        "import socket, sys, uvloop; from pathlib import Path\n"
        "from mizzen.gateway.process import AccessOptions, FeedbackOptions, GatewayLimits, ReportOptions, serve\n"
        "guard = AccessOptions(Path('access.json'), Path('refusals'), 'gateway-0', loopback=True, anonymous=True,"
        " rates=Path('rates'), quotas=Path('quotas.db'))\n"
        "uvloop.run(serve(socket=socket.socket(fileno=int(sys.argv[1])), table=Path(sys.argv[2]),"
        " guard=guard, records=ReportOptions(Path('counts'), Path('tables'), Path('demand'), Path('access.log')),"
        " learning=FeedbackOptions(Path('state.db'), Path('selection'), Path('records')),"
        " limits=GatewayLimits(1 << 20, 256, 64 << 20, 10.0, 10.0, 500)))\n"
        "print('after', flush=True)"
    )
    with listening() as listener:
        number = listener.fileno()
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(number), str(folder / "table.json")],
            cwd=folder,
            pass_fds=(number,),
            stdout=subprocess.PIPE,
        )
        try:
            yield child, int(listener.getsockname()[1])
        finally:
            child.kill()
            child.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_and_code_after_it_runs(
    process: tuple[subprocess.Popen[bytes], int], runtime: Runtime, number: signal.Signals
) -> None:
    child, port = process
    runtime.held = True
    with Client(port) as client:
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        with Client(port) as idle:
            child.send_signal(number)
            assert idle.closed()  # it is stopping
        runtime.release()
        assert client.answer().sums == [1.0]
    output, _ = child.communicate(timeout=60)
    assert output == b"after\n"
    assert child.returncode == 0


def test_a_gateway_imports_no_pydantic_and_no_numpy() -> None:
    program = (
        "import sys, mizzen.gateway.process\n"
        "print([name for name in ('pydantic', 'numpy', 'starlette', 'mizzen.kinds', 'mizzen.stores', 'mizzen.settings')"
        " if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
