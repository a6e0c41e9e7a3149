"""A real runtime process of another release, and gateways of this one."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.engines.local.probes.frame_probe import FrameProbe
from mizzen.protocol.frames import framing, msgpack
from tests.component.runtime.test_process import PYTHON, Runtime
from tests.support import releases

CODE = "def predict(inputs):\n    return inputs['x'] + 1\n"
ASKED = msgpack.pack([[[["x", "FP64", [1], framing.JSON, b"[1]"]], None]])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of a unix socket has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="mz"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def runtime(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[Runtime]:
    (folder / "user_model.py").write_text(CODE)
    started = Runtime(folder, *PYTHON, PYTHONPATH=str(releases.lay_out(tmp_path / "other", *request.param)))
    yield started
    started.end()


@pytest.mark.parametrize("runtime", [(3, 2)], indirect=True)
def test_of_the_next_release(runtime: Runtime) -> None:
    """It greets in words that this release reads, is asked in what both speak, and answers in that."""
    peer = runtime.peer()
    hello = peer.hello()
    assert (hello["frames"], peer._reader.version) == ([2, 3], 2)
    spoken = framing.negotiate_version(hello["frames"], peer._reader.version)
    assert spoken == 2
    peer.ask(1, 41.0)
    assert peer.reply(1) == [{"predict": [42.0]}]
    assert peer._reader.version == 2
    # A gateway of its own release, in the same moment.
    with socket.socket(socket.AF_UNIX) as newer:
        newer.settimeout(60)
        newer.connect(str(runtime.path))
        newer.recv(65536)
        newer.sendall(framing.encode(framing.INFER, 9, ASKED, version=3))
        head = framing.HEADER.unpack_from(newer.recv(65536))
        assert head[1:] == (3, framing.REPLY, framing.LAST, 9)


@pytest.mark.parametrize("runtime", [(9, 9)], indirect=True)
def test_of_a_release_too_far_away(runtime: Runtime) -> None:
    """The plane sees it for what it is, and does not wait for it to become ready."""

    async def seen() -> str:
        probe = FrameProbe(runtime.path, lambda: None)
        try:
            async with asyncio.timeout(60):
                while probe.state.readiness in ("unknown", "starting"):  # noqa: ASYNC110 - a socket that is not there yet
                    await asyncio.sleep(0.02)
            return probe.state.readiness
        finally:
            probe.stop()

    assert asyncio.run(seen()) == "foreign"


@pytest.mark.parametrize("runtime", [(2, 2)], indirect=True)
def test_of_this_one(runtime: Runtime) -> None:
    peer = runtime.peer()
    assert json.loads(json.dumps(peer.hello()["frames"])) == [2, 2]
    peer.ask(1, 1.0)
    assert peer.reply(1) == [{"predict": [2.0]}]
