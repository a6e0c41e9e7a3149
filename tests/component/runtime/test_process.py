"""A real runtime process on a real unix socket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from mizzen.protocol.frames import framing, msgpack

# Adds 1 to each row and tells how many rows shared the call. A negative value makes it wait for the file `go`.
MODEL = """
import os, time
FOLDER = os.path.dirname(__file__)

def predict(inputs):
    rows = inputs["x"]
    if (rows < 0).any():
        open(FOLDER + "/waiting", "w").close()
        while not os.path.exists(FOLDER + "/go"):
            time.sleep(0.01)
    print("called")
    return {"next": rows + 1, "shared": [len(rows)] * len(rows)}
"""


class Peer:
    """A gateway's end of a connection."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self._reader = framing.FrameReader()
        self._frames: list[framing.ReceivedFrame] = []

    def receive(self) -> framing.ReceivedFrame | None:
        """The next frame; None when the other side has closed."""
        while not self._frames:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def hello(self) -> Any:
        frame = self.receive()
        assert frame is not None
        assert frame.type == framing.HELLO
        return msgpack.unpack(frame.body)

    def ask(self, id_: int, *values: float) -> None:
        requests = [[[["x", "FP64", [1], framing.JSON, json.dumps([value]).encode()]], None] for value in values]
        self.socket.sendall(framing.encode(framing.INFER, id_, msgpack.pack(requests)))

    def reply(self, id_: int) -> list[dict[str, Any]]:
        """The data of each answer by output name."""
        frame = self.receive()
        assert frame is not None
        assert (frame.type, frame.id, frame.flags) == (framing.REPLY, id_, framing.LAST)
        service_us, results = msgpack.unpack(frame.body)
        assert service_us >= 0
        assert [status for status, _ in results] == [framing.OK] * len(results), results
        return [{output["name"]: output["data"] for output in json.loads(payload)} for _, payload in results]


class Runtime:
    def __init__(self, folder: Path, *options: str, **env: str) -> None:
        self.folder = folder
        self.path = folder / "r.sock"
        self.last_words = folder / "last-words"
        self.log = folder / "log"
        self._peers: list[Peer] = []
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mizzen.runtime", *options],
                env={
                    **os.environ,
                    **env,
                    "MIZZEN_SOCKET": str(self.path),
                    "MIZZEN_ARTIFACTS": str(folder),
                    "MIZZEN_TERMINATION_LOG": str(self.last_words),
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def peer(self) -> Peer:
        until(lambda: self.path.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        self._peers.append(Peer(self.path))
        return self._peers[-1]

    def end(self) -> None:
        for peer in self._peers:
            peer.socket.close()
        self.process.kill()
        self.process.wait(60)

    def exit_code(self) -> int:
        return self.process.wait(60)


Start = Callable[..., Runtime]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of a unix socket has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="mz"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*options: str, code: str = MODEL, **env: str) -> Runtime:
            (folder / "user_model.py").write_text(code)
            runtime = Runtime(folder, *(options or PYTHON), **env)
            stack.callback(runtime.end)
            return runtime

        yield start


PYTHON = ("--framework", "python", "--trusted", "--entrypoint", "user_model:predict", "--batch")
SKLEARN = ("--framework", "sklearn", "--trusted", "--entrypoint")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_hello_and_answers(start: Start) -> None:
    runtime = start()
    peer = runtime.peer()
    assert peer.hello() == {
        "state": "ready", "pid": runtime.process.pid, "framework": "python", "inputs": [], "outputs": [],
        "strict": False, "batch": True, "table": None, "callers": True, "feedback": False, "reloads": False,
        "files": "", "began": "", "frames": [framing.OLDEST, framing.VERSION],
    }  # fmt: skip
    peer.ask(5, 1, 2)
    assert peer.reply(5) == [{"next": [2.0], "shared": [2]}, {"next": [3.0], "shared": [2]}]
    peer.ask(6)
    assert peer.reply(6) == []
    assert "called\n" in runtime.log.read_text()


def test_requests_of_several_gateways_share_a_call(start: Start) -> None:
    runtime = start()
    one, two = runtime.peer(), runtime.peer()
    one.hello()
    two.hello()
    one.ask(1, -1)
    until((runtime.folder / "waiting").exists)
    two.ask(1, 10, 20)
    one.ask(2, 30)
    (runtime.folder / "go").touch()
    assert one.reply(1) == [{"next": [0.0], "shared": [1]}]
    assert two.reply(1) == [{"next": [11.0], "shared": [3]}, {"next": [21.0], "shared": [3]}]
    assert one.reply(2) == [{"next": [31.0], "shared": [3]}]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        framing.encode(framing.INFER, 1, b"\xc1"),
        framing.encode(framing.INFER, 1, msgpack.pack({"a": 1})),
        framing.encode(framing.DRAIN, 1),
    ],
    ids=["http", "no msgpack", "no list", "wrong type"],
)
def test_a_peer_that_sends_nonsense_loses_only_its_own_connection(start: Start, nonsense: bytes) -> None:
    runtime = start()
    good, bad = runtime.peer(), runtime.peer()
    good.hello()
    bad.hello()
    good.ask(1, 1)
    bad.socket.sendall(nonsense)
    assert bad.receive() is None
    good.ask(2, 2)
    assert [good.reply(1)[0]["next"], good.reply(2)[0]["next"]] == [[2.0], [3.0]]


def test_term_drains(start: Start) -> None:
    runtime = start()
    asking, idle = runtime.peer(), runtime.peer()
    asking.hello()
    idle.hello()
    asking.ask(1, -1)
    until((runtime.folder / "waiting").exists)
    asking.ask(2, 5)
    runtime.process.send_signal(signal.SIGTERM)
    (runtime.folder / "go").touch()
    owed = {1: [0.0], 2: [6.0]}
    types = []
    while owed or framing.DRAIN not in types:
        frame = asking.receive()
        assert frame is not None
        types.append(frame.type)
        if frame.type == framing.REPLY:
            _, [(_, payload)] = msgpack.unpack(frame.body)
            assert json.loads(payload)[0]["data"] == owed.pop(frame.id)
    drain = idle.receive()
    assert drain is not None
    assert drain.type == framing.DRAIN
    assert not runtime.path.exists()
    asking.ask(3, 7)
    assert asking.reply(3)[0]["next"] == [8.0]
    asking.socket.close()
    idle.socket.close()
    assert runtime.exit_code() == 0
    log = runtime.log.read_text()
    assert [word for word in ("start:", "ready:", "drain:", "exit") if word not in log] == []


def test_term_without_peers_ends_at_once_and_int_does_nothing(start: Start) -> None:
    runtime = start()
    peer = runtime.peer()
    peer.hello()
    runtime.process.send_signal(signal.SIGINT)
    peer.ask(1, 1)
    assert peer.reply(1)[0]["next"] == [2.0]
    peer.socket.close()
    runtime.process.send_signal(signal.SIGTERM)
    assert runtime.exit_code() == 0


TAKES_TERM = {
    "wake-up": "signal.set_wakeup_fd(-1)",
    "default": "signal.signal(signal.SIGTERM, signal.SIG_DFL)",
    "ignored": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "loop": "asyncio.run(take())",
}


@pytest.mark.parametrize("taken", TAKES_TERM.values(), ids=TAKES_TERM.keys())
def test_term_drains_whatever_the_model_did_to_signals(start: Start, taken: str) -> None:
    runtime = start(
        code="import asyncio, signal\n"
        "async def take():\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)\n"
        f"def predict(inputs):\n    {taken}\n    return inputs['x'] + 1\n"
    )
    peer = runtime.peer()
    peer.hello()
    peer.ask(1, 1)
    assert peer.reply(1) == [{"predict": [2.0]}]
    runtime.process.send_signal(signal.SIGTERM)
    drain = peer.receive()
    assert drain is not None
    assert drain.type == framing.DRAIN
    peer.ask(2, 2)
    assert peer.reply(2) == [{"predict": [3.0]}]
    peer.socket.close()
    assert runtime.exit_code() == 0


def test_term_for_a_child_of_the_model_ends_the_child_only(start: Start) -> None:
    runtime = start(
        code="import os, signal, time\n"
        "def predict(inputs):\n"
        "    up, tell = os.pipe()\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.write(tell, b'.')\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    os.read(up, 1)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]\n"
    )
    peer = runtime.peer()
    peer.hello()
    for id_ in (1, 2):
        peer.ask(id_, 1)
        assert peer.reply(id_) == [{"predict": [-signal.SIGTERM]}]
    assert "drain:" not in runtime.log.read_text()


def test_a_stale_socket_is_replaced_and_a_successors_is_left_alone(start: Start, folder: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(folder / "r.sock"))
    stale.close()
    old_inode = (folder / "r.sock").stat().st_ino
    runtime = start()
    until(lambda: runtime.process.poll() is not None or runtime.path.stat().st_ino != old_inode)
    peer = runtime.peer()
    peer.hello()
    successor = socket.socket(socket.AF_UNIX)
    successor.bind(str(folder / "new.sock"))
    (folder / "new.sock").rename(runtime.path)
    runtime.process.send_signal(signal.SIGTERM)
    peer.socket.close()
    assert runtime.exit_code() == 0
    assert runtime.path.exists()
    successor.close()


@pytest.mark.parametrize(
    ("code", "options", "wanted"),
    [
        (
            "import no_such_package.part",
            PYTHON,
            "ModuleNotFoundError: No module named 'no_such_package'; the model needs it: pip install no_such_package",
        ),
        ("raise RuntimeError('two\\nlines')", PYTHON, "RuntimeError: two lines"),
        ("import sys; sys.exit(0)", PYTHON, "SystemExit: 0"),
        ("import asyncio; raise asyncio.CancelledError('why')", PYTHON, "CancelledError: why"),
        ("class Odd(Exception):\n    __str__ = None\nraise Odd", PYTHON, "Odd"),
        ("", (*SKLEARN, "broken.joblib"), "'broken.joblib' could not be unpickled: "),
        ("", (*SKLEARN, "none.joblib"), "this version has no file 'none.joblib'; "),
        ("", (*PYTHON[:4], "subprocess:check_output"), "entrypoint 'subprocess:check_output': module"),
        ("", ("--framework", "python"), "the following arguments are required: --entrypoint"),
    ],
    ids=["import", "raises", "exits", "cancelled", "wordless", "no pickle", "no file", "elsewhere", "usage"],
)
def test_a_model_that_cannot_load_is_given_up(
    start: Start, folder: Path, code: str, options: tuple[str, ...], wanted: str
) -> None:
    (folder / "broken.joblib").write_bytes(b"not a pickle")
    runtime = start(*options, code=code)
    assert runtime.exit_code() == 78
    words = runtime.last_words.read_text()
    assert words.startswith(wanted)
    assert words.count("\n") == 1
    log = runtime.log.read_text()
    assert "giving up" in log
    assert "mizzen/runtime" not in log, "a traceback is of the model alone"
    assert not runtime.path.exists()


def test_a_missing_framework_names_the_line_that_installs_it(start: Start, folder: Path) -> None:
    runtime = start(*SKLEARN, "m.joblib", PYTHONPATH=blocking(folder, "joblib"))
    assert runtime.exit_code() == 78
    wanted = "framework 'sklearn' needs joblib, which is not installed: pip install 'mizzen[sklearn]'\n"
    assert runtime.last_words.read_text() == wanted


def test_scikit_learn_without_msgspec(start: Start, folder: Path) -> None:
    joblib.dump(LinearRegression().fit(np.arange(4.0).reshape(-1, 1), np.arange(4.0)), folder / "m.joblib")
    runtime = start(*SKLEARN, "m.joblib", PYTHONPATH=blocking(folder, "msgspec"))
    peer = runtime.peer()
    assert peer.hello()["inputs"] == [{"name": "input", "datatype": "FP64", "shape": [-1, 1]}]
    requests = [[[["input", "FP64", [1, 1], framing.JSON, text]], None] for text in (b"[2]", b"[[3]]", b"[null]")]
    peer.socket.sendall(framing.encode(framing.INFER, 1, msgpack.pack(requests)))
    frame = peer.receive()
    assert frame is not None
    _, results = msgpack.unpack(frame.body)
    assert [status for status, _ in results] == [framing.OK, framing.OK, framing.BAD_INPUT]
    assert json.loads(results[1][1])[0]["data"] == pytest.approx([3.0])


def blocking(folder: Path, module: str) -> str:
    """A PYTHONPATH under which this module cannot be imported."""
    shim = folder / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(
        f"import sys\n"
        f"class Blocked:\n"
        f"    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {module!r}:\n"
        f"            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        f"sys.meta_path.insert(0, Blocked())\n"
    )
    return str(shim)
