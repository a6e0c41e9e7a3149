"""A server of somebody else, from its start to its end. What it writes stays in one folder that goes away."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench import contestants, procfs
from bench.peers import calls, questions

ROOT = contestants.HERE.parent
START_SECONDS = 120
LOADING = frozenset({404, 429, 500, 502, 503, 504})
"""What servers say before their model is loaded."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server runs."""

    folder: Path
    """Its own."""
    models: Path
    """The folder of the model files, which all share."""
    ports: tuple[int, ...]

    @property
    def port(self) -> int:
        return self.ports[0]


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server and where to ask it."""

    command: Callable[[Place], list[str]]
    path: str
    dialect: questions.Dialect
    environ: Mapping[str, str] = field(default_factory=dict)
    venv: Path | None = None
    """Whose programs it finds first."""
    port: int = 0
    """Which of its ports is asked."""
    right: list[float] | None = None
    """In place of the case's right answer."""


@dataclass
class Peer:
    """A contestant: one launch of one server for one case."""

    name: str
    launch: Launch
    case: questions.Case
    folder: Path
    models: Path
    url: str = ""
    _keeper: subprocess.Popen[bytes] | None = None

    @property
    def asking(self) -> questions.Question:
        return self.launch.dialect(self.case.rows)

    def start(self) -> None:
        self.folder.mkdir()
        place = Place(self.folder, self.models, tuple(contestants.free_port() for _ in range(4)))
        self.url = f"http://127.0.0.1:{place.ports[self.launch.port]}{self.launch.path}"
        command = self.launch.command(place)
        with self._log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "bench.peers.keeper", "env", "-i", *self._environ(), *command],
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the harness, which then stops this one
            )
        right = self.case.right if self.launch.right is None else self.launch.right
        await_right(self.url, self.asking, right, self._exited)

    def processes(self) -> dict[int, str]:
        if self._keeper is None:
            return {}
        pids = procfs.tree(self._keeper.pid, procfs.snapshot()) - {self._keeper.pid}
        return dict.fromkeys(pids, self.name)

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.communicate()  # closes its input

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _environ(self) -> list[str]:
        """All of it: nothing that is set here and there on a machine may tune or untune a server."""
        programs = [f"{self.launch.venv}/bin"] if self.launch.venv else []
        clean = {
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PATH": ":".join([*programs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"]),
            "TMPDIR": str(self.folder),
            "DO_NOT_TRACK": "true",
            **contestants.ONE_THREAD,
            **self.launch.environ,
        }
        return [f"{name}={value}" for name, value in clean.items()]

    def _exited(self) -> str:
        if self._keeper is None or self._keeper.poll() is None:
            return ""
        return f"it ended by itself: {last_words(self._log.read_text(errors='replace'))}"


def await_right(url: str, question: questions.Question, right: list[float], exited: Callable[[], str] = str) -> None:
    """Until the right answer comes. contestants.StartFailed says how far it got."""
    deadline = time.monotonic() + START_SECONDS
    last = "nothing"
    while time.monotonic() < deadline:
        if words := exited():
            raise contestants.StartFailed(words)
        try:
            status, body, headers = ask(url, question)
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
            continue
        if status == 200:
            check(body, headers, right)
            return
        last = f"{status} {body[:300].decode(errors='replace')}"
        if status not in LOADING:
            raise contestants.StartFailed(f"it answered {last}")
        time.sleep(0.05)
    raise contestants.StartFailed(f"no right answer within {START_SECONDS} seconds; the last was {last}")


def check(body: bytes, headers: Mapping[str, str], right: list[float]) -> None:
    try:
        given = questions.answer(body, headers)
    except (ValueError, KeyError, TypeError) as error:
        raise contestants.StartFailed(f"its answer cannot be read: {error}: {body[:200]!r}") from error
    if not questions.is_right(given, right):
        raise contestants.StartFailed(f"it answered {given[:8]} ({len(given)} in all) where {right[:8]} is right")


def ask(url: str, question: questions.Question) -> tuple[int, bytes, Mapping[str, str]]:
    if question.headers["Content-Type"] == questions.GRPC:
        return calls.ask(url, question)
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    try:
        connection.request("POST", parts.path or "/", question.body, dict(question.headers))
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())
    finally:
        connection.close()


def last_words(log: str) -> str:
    """The lines that most likely say why."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-500:] or "it said nothing"
