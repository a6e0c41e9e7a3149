"""A peer that does not read costs memory only up to a limit, and nobody else anything."""

from __future__ import annotations

import os
import select
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mizzen.protocol.frames import framing, msgpack
from mizzen.runtime import batching, frame_server
from mizzen.runtime.caller_context import Callers
from mizzen.runtime.frameworks import python
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.reload import Reloader
from mizzen.runtime.sockets import Terminated, UnixListener

LIMIT = 4 << 20
BIG = 1 << 20


def big_answers(model: LoadedModel, requests: list[Any], callers: Callers) -> batching.Answers:
    return batching.Answers([(framing.OK, b"x" * BIG) for _ in requests], 0, 0, 0)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a frame server with a low limit listens, in a thread of this process."""
    monkeypatch.setattr(frame_server, "MAX_OWED", LIMIT)
    model = python.PythonModel(None, dict, (), (), batch=False)
    with (
        tempfile.TemporaryDirectory(prefix="mz") as folder,
        Terminated() as terminated,
        Reloader(lambda old, _: old, str) as reloader,
    ):
        path = str(Path(folder) / "s.sock")
        listener = UnixListener(path)
        served = frame_server.FrameServer(big_answers, model, listener, terminated, reloader, deliver=lambda *_: None)
        thread = threading.Thread(target=served.run)
        thread.start()
        yield path
        os.kill(os.getpid(), signal.SIGTERM)
        thread.join(60)
        assert not thread.is_alive()


def connected(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    peer.connect(path)
    return peer


def ask(peer: socket.socket, count: int) -> None:
    peer.sendall(b"".join(framing.encode(framing.INFER, id_, msgpack.pack([0])) for id_ in range(count)))


def closed(peer: socket.socket) -> bool:
    """Has the other side closed? Waits for it without reading anything."""
    watch = select.poll()
    watch.register(peer, 0)  # a hang-up is told without being asked for
    return bool(watch.poll(60_000))


def test_what_is_owed_is_kept_until_it_is_read(path: str) -> None:
    with connected(path) as slow:
        ask(slow, 3)
        reader = framing.FrameReader()
        got: list[framing.ReceivedFrame] = []
        while len(got) < 4:
            got += reader.feed(slow.recv(1 << 20))
        assert got.pop(0).type == framing.HELLO
        assert [(frame.id, len(msgpack.unpack(frame.body)[1][0][1])) for frame in got] == [(0, BIG), (1, BIG), (2, BIG)]


def test_a_peer_that_owes_too_much_reading_is_closed(path: str) -> None:
    with connected(path) as slow, connected(path) as good:
        ask(slow, 8)
        assert closed(slow)
        ask(good, 1)
        reader = framing.FrameReader()
        got: list[framing.ReceivedFrame] = []
        while not got:
            got += reader.feed(good.recv(1 << 20))
