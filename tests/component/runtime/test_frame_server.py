"""What is large of one gateway does not hold up what is small of another."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

from mizzen.protocol.frames import framing, msgpack
from mizzen.runtime import batching, frame_server
from mizzen.runtime.caller_context import Callers
from mizzen.runtime.frameworks import python
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.reload import Reloader
from mizzen.runtime.sockets import Terminated, UnixListener

LARGE = b"l" * (framing.LARGE + 1)


def test_small_frames_are_answered_before_large_ones_that_came_with_them() -> None:
    began, go = threading.Event(), threading.Event()
    answered: list[list[bytes]] = []

    def answer(model: LoadedModel, requests: list[Any], callers: Callers) -> batching.Answers:
        began.set()
        assert go.wait(60)
        answered.append([request[:1] for request in requests])
        return batching.Answers([(framing.OK, b"") for _ in requests], 0, 0, 0)

    model = python.PythonModel(None, dict, (), (), batch=False)
    with (
        tempfile.TemporaryDirectory(prefix="mz") as folder,
        Terminated() as terminated,
        Reloader(lambda old, _: old, str) as reloader,
    ):
        path = str(Path(folder) / "s.sock")
        served = frame_server.FrameServer(
            answer, model, UnixListener(path), terminated, reloader, deliver=lambda *_: None
        )
        thread = threading.Thread(target=served.run)
        thread.start()
        peers = [connected(path) for _ in range(5)]
        try:
            ask(peers[0], b"first")
            assert began.wait(60)
            for peer, request in zip(peers[1:], (LARGE, b"small", LARGE, b"small"), strict=True):
                ask(peer, request)
            go.set()
            for peer in peers:
                assert reply(peer).type == framing.REPLY
        finally:
            go.set()
            for peer in peers:
                peer.close()
            os.kill(os.getpid(), signal.SIGTERM)
            thread.join(60)
    assert answered == [[b"f"], [b"s", b"s"], [b"l", b"l"]]


def connected(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    peer.connect(path)
    assert reply(peer).type == framing.HELLO
    return peer


def ask(peer: socket.socket, request: bytes) -> None:
    peer.sendall(framing.encode(framing.INFER, 1, msgpack.pack([request])))


def reply(peer: socket.socket) -> framing.ReceivedFrame:
    reader = framing.FrameReader()
    while True:
        for frame in reader.feed(peer.recv(1 << 16)):
            return frame
