"""Models that want to know how well they did."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from mizzen.protocol.frames import framing, msgpack
from mizzen.runtime import feedback
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadRequest
from mizzen.runtime.limits.watchdog import Running
from mizzen.runtime.signature import TensorSpec
from tests.component.runtime.test_process import Peer, Runtime, until

TOLD = {"id": "r-1", "reward": 0.5, "truth": [1]}
CLASS = ("--framework", "python", "--trusted", "--entrypoint", "user_model:Model")
LEARNER = """
class Model:
    told = ()
    def predict(self, inputs):
        return {"ids": [each["id"] for each in self.told] or ["none"]}
    def feedback(self, **told):
        if told["reward"] == 0:
            raise SystemExit("too bad")
        self.told = (*self.told, told)
"""


@pytest.fixture
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def load(folder: Path, code: str, **declared: Any) -> LoadedModel:
    (folder / "user_model.py").write_text(dedent(code))
    return registry.load("python", "user_model:Model", folder, trusted=True, batch=False, **declared)


def heard_by(folder: Path, signature: str, told: dict[str, Any] | None = None) -> Any:
    """What a method with this signature is called with; None: it is not."""
    model = load(
        folder,
        f"""
        class Model:
            heard = None
            def predict(self, inputs): return [1]
            def feedback({signature}): Model.heard = {{k: v for k, v in locals().items() if k != "self"}}
        """,
    )
    feedback.deliver(model, TOLD if told is None else told, Running())
    return sys.modules["user_model"].Model.heard


@pytest.mark.usefixtures("_clean_imports")
@pytest.mark.parametrize(
    ("signature", "heard"),
    [
        ("self, id, reward, truth", TOLD),
        ("self, truth, reward, id", TOLD),
        ("self, reward", {"reward": 0.5}),
        ("self, *, truth=None", {"truth": [1]}),
        ("self", {}),
        ("self, reward, other=3", {"reward": 0.5, "other": 3}),
        ("self, **told", {"told": TOLD}),
        ("self, reward, **more", {"reward": 0.5, "more": {"id": "r-1", "truth": [1]}}),
        ("self, *args, reward", {"args": (), "reward": 0.5}),
        ("self, reward, other", None),
        ("self, reward, /", None),
    ],
)
def test_a_method_is_told_what_it_takes_by_name(tmp_path: Path, signature: str, heard: Any) -> None:
    assert heard_by(tmp_path, signature) == heard


@pytest.mark.usefixtures("_clean_imports")
def test_a_truth_that_nobody_gave_is_none(tmp_path: Path) -> None:
    assert heard_by(tmp_path, "self, reward, truth", {"id": "x", "reward": 1.0}) == {"reward": 1.0, "truth": None}


@pytest.mark.usefixtures("_clean_imports")
def test_a_method_that_wants_more_is_somebody_elses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert heard_by(tmp_path, "self, request, response") is None
    assert "'feedback' of 'user_model:Model' is not called: it requires 'request'" in caplog.text


@pytest.mark.usefixtures("_clean_imports")
@pytest.mark.parametrize(
    "code", ["class Model:\n def predict(self, i): return 1\n feedback = 3", "def Model(i): return 1"]
)
def test_a_model_without_an_ear_is_told_nothing(tmp_path: Path, code: str) -> None:
    model = load(tmp_path, code)
    assert registry.feedback_hook(model) is None
    feedback.deliver(model, TOLD, Running())


@pytest.mark.usefixtures("_clean_imports")
@pytest.mark.parametrize("raised", ["ValueError('no')", "SystemExit(3)", "KeyboardInterrupt()"])
def test_what_it_raises_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, raised: str) -> None:
    model = load(
        tmp_path,
        f"""
        class Model:
            def predict(self, inputs): return [1]
            def feedback(self): raise {raised}
        """,
    )
    running = Running()
    with caplog.at_level(logging.ERROR):
        feedback.deliver(model, TOLD, running)
    assert "feedback for request r-1" in caplog.text
    assert running.since is None


@pytest.mark.usefixtures("_clean_imports")
def test_a_declared_signature_and_new_parameters_leave_it_its_ear(tmp_path: Path) -> None:
    x = TensorSpec("x", "FP64", (-1, 1))
    model = load(
        tmp_path,
        """
        class Model:
            name, heard = "old", []
            def predict(self, inputs): return [1]
            def reload(self, path): self.name = "new"
            def feedback(self, id): self.heard.append((self.name, id))
        """,
        inputs=(x,),
    )
    wanted = LoadRequest("python", "user_model:Model", trusted=True, inputs=(x,))
    for each in (model, registry.reload(model, wanted, tmp_path)):
        assert registry.feedback_hook(each) is not None
        feedback.deliver(each, TOLD, Running())
    assert sys.modules["user_model"].Model.heard == [("old", "r-1"), ("new", "r-1")]


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with tempfile.TemporaryDirectory(prefix="mz") as folder, ExitStack() as stack:
        Path(folder, "user_model.py").write_text(LEARNER)
        runtime = Runtime(Path(folder), *CLASS)
        stack.callback(runtime.end)
        yield runtime


def tell(peer: Peer, body: Any) -> None:
    peer.socket.sendall(framing.encode(framing.FEEDBACK, 0, msgpack.pack(body)))


def known(peer: Peer, id_: int) -> Any:
    peer.ask(id_, 1.0)
    return peer.reply(id_)[0]["ids"]


def test_a_runtime_says_that_it_takes_feedback_and_does(runtime: Runtime) -> None:
    peer, other = runtime.peer(), runtime.peer()
    assert peer.hello()["feedback"] is True
    other.hello()
    assert known(peer, 1) == ["none"]
    told = [f"r-{number}" for number in range(5)]
    for id_ in told:
        tell(peer, {"id": id_, "reward": 1.0, "truth": {"a": [1, None, "b"]}})
    until(lambda: known(other, 1) == told)
    tell(peer, {"id": "bad", "reward": 0.0})
    tell(peer, {"id": "last", "reward": 1.0})
    until(lambda: known(other, 2) == [*told, "last"])
    assert "feedback for request bad" in runtime.log.read_text()
    assert runtime.process.poll() is None


def test_what_is_no_feedback_ends_its_connection_alone(runtime: Runtime) -> None:
    peer, other = runtime.peer(), runtime.peer()
    peer.hello()
    other.hello()
    tell(peer, ["no map"])
    assert peer.receive() is None
    assert known(other, 1) == ["none"]
