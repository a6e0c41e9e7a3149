"""A real TensorBoard as we start it: whoever can connect to it does not get in by that."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest
from tensorboard.summary import Writer

from mizzen.showing.gate import FILE, HEADER, READY
from tests.support import planes

PREFIX = "/model/iris/monitor/tool"
KEY = "7" * 64
LAUNCHER = (sys.executable, "-m", "mizzen.showing.tensorboard")


@dataclass(frozen=True, slots=True)
class Board:
    process: psutil.Process
    port: int
    log: Path

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
        url = f"http://127.0.0.1:{self.port}{path}"
        return httpx2.request(method, url, headers=headers, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Over two files of one run, as two attempts of a job leave them."""
    folder = tmp_path_factory.mktemp("showing")
    (folder / FILE).touch(0o600)
    (folder / FILE).write_text(f"{KEY}\n")
    for step in (1, 2):
        writer = Writer(str(folder / "events" / "1"))
        writer.add_scalar("loss", 0.5, step)
        writer.close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = (f"--logdir={folder / 'events'}", "--host=127.0.0.1", f"--port={port}", f"--path_prefix={PREFIX}")
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*LAUNCHER, *flags, "--reload_interval=1"],
            env={**os.environ, "MIZZEN_RUN_DIR": str(folder)},
            stdout=output,
            stderr=output,
        ) as process,
    ):
        started = Board(psutil.Process(process.pid), port, log)
        try:
            planes.wait_until(lambda: _answers(started), "TensorBoard answers")
            yield started
        finally:
            process.kill()


def _answers(board: Board) -> bool:
    try:
        return board.get(READY).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", f"{PREFIX}/", f"{PREFIX}/data/runs", f"{PREFIX}/index.js", f"{PREFIX}{READY}"])
def test_its_port_tells_nothing_without_the_key(board: Board, path: str, method: str) -> None:
    assert board.get(path, method).status_code == 403
    wrong = board.get(path, method, **{HEADER: "8" * 64})
    assert wrong.status_code == 403
    assert len(wrong.text.splitlines()) == (0 if method == "HEAD" else 1)


def test_with_the_key_it_is_tensorboard(board: Board) -> None:
    key = {HEADER: KEY}
    assert board.get(READY).text == "ok\n"
    assert "tb-webapp" in board.get(f"{PREFIX}/", **key).text
    planes.wait_until(lambda: board.get(f"{PREFIX}/data/runs", **key).json() == ["1"], "TensorBoard has read")
    scalars = f"{PREFIX}/data/plugin/scalars/scalars?tag=loss&run=1"
    planes.wait_until(lambda: len(board.get(scalars, **key).json()) == 2, "both files of the run are read")


def test_nothing_else_of_it_listens(board: Board) -> None:
    family = [board.process, *board.process.children(recursive=True)]
    listening = [
        each.laddr.port for member in family for each in member.net_connections("tcp") if each.status == "LISTEN"
    ]
    assert listening == [board.port]


def test_the_key_is_told_nowhere(board: Board) -> None:
    assert KEY not in " ".join(board.process.cmdline())
    assert KEY not in " ".join(board.process.environ().values())
    assert KEY not in board.log.read_text()


@pytest.mark.parametrize("key", [None, "", "short"])
def test_without_a_key_it_gives_up_and_says_why(tmp_path: Path, key: str | None) -> None:
    if key is not None:
        (tmp_path / FILE).touch(0o600)
        (tmp_path / FILE).write_text(key)
    last_words = tmp_path / "last-words"
    environ = {**os.environ, "MIZZEN_RUN_DIR": str(tmp_path), "MIZZEN_TERMINATION_LOG": str(last_words)}
    ended = subprocess.run(LAUNCHER, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 78
    assert ended.stderr == f"{last_words.read_text()}\n"
    assert f"{tmp_path / FILE} has no key" in ended.stderr
    environ.pop("MIZZEN_RUN_DIR")
    ended = subprocess.run(LAUNCHER, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "MIZZEN_RUN_DIR is not set" in ended.stderr) == (78, True)
