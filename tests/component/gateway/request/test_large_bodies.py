"""Many large bodies at once: a gateway keeps what its bounds allow, and says so to the others. A real process, because
what counts is its memory.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.gateway.harness import Client, Response, Runtime, listening, publish, request, table_of, until

MIB = 1 << 20
BODY, BOUND, SENDERS = 20 * MIB, 64 * MIB, 24

GATEWAY = f"""
import socket, sys
from pathlib import Path
import uvloop
from mizzen.gateway.process import AccessOptions, FeedbackOptions, GatewayLimits, ReportOptions, serve

folder = Path(sys.argv[1])
guard = AccessOptions(access=folder / "access.json", refusals=folder / "refusals", name="g", loopback=True,
              anonymous=True, rates=folder / "rates", quotas=folder / "quotas.db")
limits = GatewayLimits(max_body_bytes={32 * MIB}, queue_limit=1000, queue_bytes={BOUND}, hold_seconds=10.0,
                       stop_timeout=5.0, connections=500)
listener = socket.socket(fileno=int(sys.argv[2]))
uvloop.run(serve(socket=listener, table=folder / "table.json", guard=guard, limits=limits,
                 records=ReportOptions(folder / "counts", folder / "tables", folder / "demand", folder / "access.log"),
                 learning=FeedbackOptions(folder / "state.db", folder / "selection", folder / "records"),
                 log_level="warning"))
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listening() as made:
        yield made


@pytest.fixture
def gateway(listener: socket.socket, runtime: Runtime, folder: Path) -> Iterator[int]:
    """Its pid."""
    publish(folder / "table.json", table_of(runtime.address, timeout_ms=60_000))
    command = [sys.executable, "-c", GATEWAY, str(folder), str(listener.fileno())]
    process = subprocess.Popen(command, pass_fds=[listener.fileno()])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def asker(listener: socket.socket) -> Callable[[bytes], Response]:
    port = int(listener.getsockname()[1])

    def ask(data: bytes) -> Response:
        with Client(port) as client:
            with suppress(OSError):  # who is refused before the end may find the connection closed
                client.send(data)
            return client.answer()

    return ask


def test_memory_is_bounded_whatever_comes(listener: socket.socket, gateway: int, runtime: Runtime) -> None:
    ask = asker(listener)
    until(lambda: ask(request("GET", "/v2/models/m/ready")).status == 200)
    whole = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [7.0]}]})
    large = request("POST", "/v2/models/m/infer", whole.replace("7.0", "7.0" + " " * BODY).encode())
    before = peak(gateway)
    runtime.held = True
    answers: list[Response] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(large))) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(answers) + runtime.items + queued(ask) == SENDERS, "each is kept or refused")
        assert queued(ask) * BODY <= BOUND
    finally:
        runtime.release()
        for thread in threads:
            thread.join()
    codes = Counter(answer.status for answer in answers)
    assert set(codes) == {200, 503}
    assert all(answer.sums == [7.0] for answer in answers if answer.status == 200)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status == 503)
    # What waits, what comes in, what is out, and one that is put together.
    assert peak(gateway) - before < 2 * BOUND + 3 * BODY + 32 * MIB
    assert ask(request("POST", "/v2/models/m/infer", whole.encode())).sums == [7.0]
    assert ask(request("POST", "/v2/models/m/infer", Content_Length=str(33 * MIB))).status == 413


def test_a_body_in_small_chunks_takes_no_more_than_it_has(
    listener: socket.socket, gateway: int, runtime: Runtime
) -> None:
    ask = asker(listener)
    until(lambda: ask(request("GET", "/v2/models/m/ready")).status == 200)
    whole = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [7.0]}]}).encode()
    size = 2 * MIB
    chunks = b"%x\r\n%b\r\n" % (len(whole), whole) + (b"40\r\n" + b" " * 64 + b"\r\n") * (size // 64) + b"0\r\n\r\n"
    before = peak(gateway)
    answer = ask(request("POST", "/v2/models/m/infer", chunks, Content_Length="", Transfer_Encoding="chunked"))
    assert answer.sums == [7.0]
    # It comes in, is put together, is on its way out; as pieces by themselves it would be several times its size.
    assert peak(gateway) - before < 8 * size


def peak(pid: int) -> int:
    """The most memory it ever had, in bytes."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def queued(ask: Callable[[bytes], Response]) -> int:
    lines = ask(request("GET", "/metrics")).body.decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("mizzen_queue_length{"))
