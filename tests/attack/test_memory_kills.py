"""A request that makes the kernel end its replica is not sent to the next one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway.harness import (
    Gateway,
    Runtime,
    body_of,
    listening,
    publish,
    request,
    short_folder,
    table_of,
    until,
)

MEMORY = Path("/sys/fs/cgroup/memory")
LIMIT = 96 << 20

REPLICA = """
import os, socket, sys
from mizzen.protocol.frames import framing, msgpack

with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    peer, _ = listener.accept()
    hello = {"state": "ready", "pid": os.getpid(), "framework": "fake", "inputs": [], "outputs": [], "strict": False,
             "batch": True}
    peer.sendall(framing.encode(framing.HELLO, 0, msgpack.pack(hello)))
    peer.recv(1 << 20)
    taken = []
    while True:
        taken.append(bytearray(os.urandom(1 << 20)))
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    if not os.access(MEMORY, os.W_OK) or not (MEMORY / "cgroup.procs").exists():
        pytest.skip("needs a cgroup v1 for memory that this account may write")
    group = MEMORY / f"mizzen-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text().strip(), "it is empty")
        group.rmdir()


def test_the_next_replica_never_sees_it(cgroup: Path) -> None:
    with short_folder() as folder, listening() as listener:
        path = str(folder / "greedy.sock")
        greedy = subprocess.Popen(["/bin/sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh",
                                   sys.executable, "-c", REPLICA, path])  # fmt: skip
        publish(folder / "table.json", table_of(f"unix:{path}", timeout_ms=60_000))
        gateway = Gateway(listener, folder / "table.json")
        other: Runtime | None = None
        try:
            gateway.wait_ready()
            other = Runtime(str(folder / "other.sock"))
            answers = []
            with gateway.client() as client:
                client.send(request("POST", "/v2/models/m/infer", body_of([1.0])))
                publish(folder / "table.json", table_of(f"unix:{path}", other.address, serial=2, timeout_ms=60_000))
                answers.append(client.answer())
            assert greedy.wait() == -9
            assert answers[0].status == 500, answers[0]
            assert "ran out of memory with this request" in json.loads(answers[0].body)["error"]
            until(lambda: gateway.infer([1.0, 2.0]).status == 200, "the other one answers")
            assert all(item[0][0][2] == [1, 2] for batch in other.batches for item in batch)
        finally:
            gateway.close()
            greedy.kill()
            greedy.wait()
            if other is not None:
                other.close()
