"""A real process whose model does not come back from a call."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.protocol.frames import framing, msgpack

MODEL = """
def predict(inputs):
    while True:
        pass
"""
SERVER = """
import sys
from pathlib import Path
from mizzen.runtime import frame_server
from mizzen.runtime.limits import watchdog
from mizzen.runtime.frameworks import registry

folder = Path(sys.argv[1])
model = registry.load("python", "user_model:predict", folder, trusted=True, batch=False)
dog = watchdog.Watchdog(str(folder / "last-words"), limit=0.3, look_every=0.02)
frame_server.serve(model, str(folder / "r.sock"), dog, lambda old, _: old)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of a unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mz") as path:
        yield Path(path)


@pytest.fixture
def process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "user_model.py").write_text(MODEL)
    started = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate(timeout=60)


def test_a_stuck_call_ends_the_process_and_says_why(folder: Path, process: subprocess.Popen[str]) -> None:
    with _connected(folder / "r.sock", process) as peer:
        assert process.poll() is None, "it waits for requests, however long"
        tensor = ["x", "INT64", [1], framing.JSON, b"[1]"]
        peer.sendall(framing.encode(framing.INFER, 1, msgpack.pack([[[tensor], None]])))
        _, log = process.communicate(timeout=60)
    assert process.returncode == 70
    words = "predict ran for more than 0.3 s without an answer; the process was ended"
    assert (folder / "last-words").read_text() == words + "\n"
    assert words in log
    assert "user_model.py" in log, "the stack of the main thread"
    assert "in predict" in log


def _connected(path: Path, process: subprocess.Popen[str]) -> socket.socket:
    end = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(path))
    return peer
