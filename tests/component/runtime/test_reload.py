"""New parameters without a restart: the old ones answer until the new ones do, and no request sees both."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from mizzen.protocol.frames import framing, msgpack
from tests.component.runtime.test_process import Peer, Runtime, until

# Its parameters are two numbers that must always be equal. Loading waits for the file `go` where there is a `wait`.
SLOW = """
import os, time

class Model:
    inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]

    def load(self, path):
        self.first = self.second = 1.0

    def reload(self, path):
        value = float(open(path + "/value").read())
        self.first = value
        open(path + "/half", "w").close()
        while not os.path.exists(path + "/go"):
            time.sleep(0.01)
        self.second = value

    def predict(self, inputs):
        return inputs["x"] * 0 + 10 * self.first + self.second
"""
PYTHON = ("--framework", "python", "--entrypoint", "user_model:Model", "--trusted", "--batch")
SKLEARN = ("--framework", "sklearn", "--entrypoint", "model.joblib")


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="mz"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def runtimes(folder: Path) -> Iterator[Any]:
    started: list[Runtime] = []

    def start(*options: str) -> Peer:
        started.append(Runtime(folder, *options))
        return started[-1].peer()

    start.last = lambda: started[-1]  # type: ignore[attr-defined]
    yield start
    for runtime in started:
        runtime.end()


def ask_reload(peer: Peer, folder: Path, id_: int = 9, **more: Any) -> None:
    body = {"artifacts": str(folder), **more}
    peer.socket.sendall(framing.encode(framing.RELOAD, id_, msgpack.pack(body)))


def answered(peer: Peer) -> tuple[int, int, Any]:
    frame = peer.receive()
    assert frame is not None
    return frame.type, frame.id, msgpack.unpack(frame.body)


def fault(peer: Peer, id_: int = 9) -> str:
    kind, id_there, body = answered(peer)
    assert (kind, id_there) == (framing.REPLY, id_)
    [[status, message]] = body[1]
    assert status == framing.MODEL_FAILED
    return str(message, "utf-8")


def predicted(peer: Peer, value: float = 0.0) -> Any:
    peer.ask(1, value)
    [answer] = peer.reply(1)
    return answer["predict"][0]


def given(folder: Path, value: str) -> Path:
    """Parameters that are whole at once."""
    folder.mkdir()
    (folder / "value").write_text(value)
    (folder / "go").touch()
    return folder


def test_the_old_parameters_answer_until_reload_returns(folder: Path, runtimes: Any) -> None:
    (folder / "user_model.py").write_text(SLOW)
    peer = runtimes(*PYTHON)
    hello = peer.hello()
    assert hello["reloads"] is True
    other = runtimes.last().peer()
    other.hello()
    new = folder / "new"
    new.mkdir()
    (new / "value").write_text("7")
    ask_reload(peer, new, files="seven")
    until((new / "half").exists)
    assert predicted(other) == 11, "half of the new parameters are read, and nobody sees them"
    ask_reload(other, folder, id_=10)
    assert fault(other, 10) == "another reload is in progress"
    (new / "go").touch()
    assert answered(peer) == (framing.HELLO, 9, hello | {"files": "seven"})
    assert predicted(peer) == 77


def test_whoever_was_greeted_with_the_old_ones_gets_answers_of_those(folder: Path, runtimes: Any) -> None:
    (folder / "user_model.py").write_text(SLOW)
    peer = runtimes(*PYTHON)
    peer.hello()
    before = runtimes.last().peer()
    before.hello()
    ask_reload(peer, given(folder / "new", "7"), files="seven")
    assert answered(peer)[:2] == (framing.HELLO, 9)
    after = runtimes.last().peer()
    assert after.hello()["files"] == "seven"
    # In one turn of the server, if it is slow enough: they must not share a call of the model.
    for asking in (before, after, before):
        asking.ask(3, 0.0)
    answers = [asking.reply(3)[0]["predict"][0] for asking in (before, after, before)]
    assert answers == [11, 77, 11]


def test_who_asks_for_what_is_under_way_or_done_is_told_when_it_is_there(folder: Path, runtimes: Any) -> None:
    (folder / "user_model.py").write_text(SLOW)
    gone = runtimes(*PYTHON)
    gone.hello()
    new = folder / "new"
    new.mkdir()
    (new / "value").write_text("7")
    ask_reload(gone, new, files="seven")
    until((new / "half").exists)
    gone.socket.close()
    peers = [runtimes.last().peer() for _ in range(2)]
    assert [peer.hello()["files"] for peer in peers] == ["", ""]
    ask_reload(peers[0], new, files="seven")
    assert predicted(peers[1]) == 11  # so the other one's wish has been read
    (new / "go").touch()
    assert answered(peers[0])[2]["files"] == "seven"
    (new / "value").unlink()
    ask_reload(peers[1], new, files="seven")
    assert answered(peers[1])[2]["files"] == "seven"
    assert [predicted(peer) for peer in peers] == [77, 77]


def test_what_it_was_given_is_what_it_begins_with_next_time(folder: Path) -> None:
    code = SLOW.replace("= 1.0", "= float(open(path + '/value').read())")
    (given(folder / "new", "7") / "user_model.py").write_text(code)
    names = {"MIZZEN_ARTIFACTS_DIGEST": "one", "MIZZEN_RELOADED_DIGEST": "seven"}
    runtime = Runtime(folder, *PYTHON, **names, MIZZEN_RELOADED=str(folder / "new"))
    try:
        peer = runtime.peer()
        hello = peer.hello()
        assert (hello["files"], hello["began"], predicted(peer)) == ("seven", "seven", 77)
    finally:
        runtime.end()


def save(folder: Path, slope: float, width: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    rows = np.random.default_rng(0).normal(size=(20, width))
    joblib.dump(LinearRegression(fit_intercept=False).fit(rows, rows[:, 0] * slope), folder / "model.joblib")
    return folder


def scaled(peer: Peer) -> float:
    request = [[["input", "FP64", [1, 1], framing.JSON, b"[2]"]], None]
    peer.socket.sendall(framing.encode(framing.INFER, 1, msgpack.pack([request])))
    [answer] = peer.reply(1)
    return float(answer["predict"][0])


def test_files_are_loaded_beside_what_answers(folder: Path, runtimes: Any) -> None:
    save(folder, 1.0)
    peer = runtimes(*SKLEARN, "--trusted")
    hello = peer.hello()
    assert scaled(peer) == pytest.approx(2)
    ask_reload(peer, save(folder / "new", 5.0))
    assert answered(peer) == (framing.HELLO, 9, hello)
    assert scaled(peer) == pytest.approx(10)


def test_what_cannot_be_loaded_leaves_the_old_ones(folder: Path, runtimes: Any) -> None:
    save(folder, 1.0)
    peer = runtimes(*SKLEARN, "--trusted")
    peer.hello()
    ask_reload(peer, folder / "none")
    assert fault(peer) == "this version has no file 'model.joblib'; it has none"
    ask_reload(peer, save(folder / "other", 2.0), trusted=False)
    assert "is not marked as trusted" in fault(peer)
    ask_reload(peer, save(folder / "wide", 2.0, width=3))
    assert "change the inputs or outputs" in fault(peer)
    assert scaled(peer) == pytest.approx(2)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("class Model:\n    def predict(self, inputs):\n        return 1\n", "no reload(path): restart it"),
        (SLOW.replace("self.first = value", "raise OSError('gone')"), "OSError: gone"),
    ],
    ids=["none", "raises"],
)
def test_a_python_model_that_cannot(folder: Path, runtimes: Any, code: str, wanted: str) -> None:
    (folder / "user_model.py").write_text(code)
    (folder / "value").write_text("7")
    peer = runtimes(*PYTHON)
    peer.hello()
    ask_reload(peer, folder)
    assert wanted in fault(peer)


def test_nonsense_costs_the_connection(folder: Path, runtimes: Any) -> None:
    save(folder, 1.0)
    peer = runtimes(*SKLEARN, "--trusted")
    peer.hello()
    peer.socket.sendall(framing.encode(framing.RELOAD, 9, msgpack.pack({"artifacts": 3})))
    assert peer.receive() is None
    other = runtimes.last().peer()
    other.hello()
    assert scaled(other) == pytest.approx(2)
