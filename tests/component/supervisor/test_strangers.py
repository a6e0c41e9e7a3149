"""Peers without the key: few at a time, and little of what they send is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import psutil

from mizzen.supervisor.client import Client
from mizzen.supervisor.server import MAX_STRANGERS
from tests.support.supervised import Supervised

MB = 1 << 20
MAX_GROWTH = 64 * MB


def test_strangers_are_few_and_take_little_memory(plane: Supervised) -> None:
    plane.start()
    process = psutil.Process(plane.note())
    before = process.memory_info().rss
    strangers = []
    for _ in range(2 * MAX_STRANGERS):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(0.05)
        stranger.connect(str(plane.home.socket))
        strangers.append(stranger)
        with contextlib.suppress(OSError):  # it is closed, or held
            stranger.sendall(b"x" * 4 * MB)
    assert process.memory_info().rss - before <= MAX_GROWTH
    open_ = [each for each in strangers if not is_closed(each)]
    assert len(open_) <= MAX_STRANGERS
    assert process.memory_info().rss - before <= MAX_GROWTH

    async def ask() -> None:
        client = await Client.connect(plane.home)
        assert (await client.info())["pid"] == plane.note()
        client.close()

    asyncio.run(ask())
    for each in strangers:
        each.close()


def test_a_silent_stranger_gives_way_to_others(plane: Supervised) -> None:
    plane.start()
    strangers = []
    for _ in range(MAX_STRANGERS + 10):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(60)
        stranger.connect(str(plane.home.socket))
        strangers.append(stranger)
    with contextlib.suppress(ConnectionError):
        assert strangers[0].recv(1) == b""
    asyncio.run(asyncio.wait_for(connect(plane), 60))
    for each in strangers:
        each.close()


def test_a_key_line_may_come_together_with_the_first_request(plane: Supervised) -> None:
    plane.start()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(60)
        peer.connect(str(plane.home.socket))
        key = {"op": "key", "key": plane.home.key.read_text().strip()}
        peer.sendall(json.dumps(key).encode() + b"\n" + json.dumps({"id": 1, "op": "info"}).encode() + b"\n")
        lines = peer.makefile("rb")
        assert json.loads(lines.readline()) == {"id": None}
        assert json.loads(lines.readline())["pid"] == plane.note()


async def connect(plane: Supervised) -> None:
    (await Client.connect(plane.home)).close()


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(0.01)
    try:
        while data := peer.recv(1 << 16):
            assert data
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
