"""Callers who predict with graphs and say how well they were answered, over connections that are kept and fresh ones.

Each remembers what it was answered and what it was told of its feedback, so that both can be held against what is
stored. Rewards are eighths: however many are added, in whatever order, their sum is exact.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from tests.support import planes

ARMS = ("b", "c", "d")
OFFSET = 1000
"""What the model of each arm adds, once more than the one before it: an answer tells who gave it."""
MODEL = "def predict(inputs):\n    return inputs['input'].sum(axis=1) + {}\n"
LIMIT = 60
"""Seconds, so that an answer that never comes fails its test."""


class Reply(NamedTuple):
    code: int
    headers: http.client.HTTPMessage
    said: Any


class Loss(NamedTuple):
    """A request whose connection ended before its answer."""

    what: str
    connected: float
    """By the monotonic clock."""
    lost: float


@dataclass(slots=True)
class Answered:
    """A prediction, and what became of the feedback for it."""

    graph: str
    id: str
    routing: str
    arm: str
    reward: float
    with_routing: bool
    """It is sent back with the feedback."""
    tries: int = 0
    acknowledged: int = 0
    counted: int = 0
    """How many of the acknowledgements said so."""

    @property
    def body(self) -> dict[str, Any]:
        routing = {"routing": self.routing} if self.with_routing else {}
        return {"id": self.id, "reward": self.reward, **routing}


@dataclass(slots=True)
class Book:
    """All that the callers went through."""

    answered: list[Answered] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    """Of predictions; feedback that is lost is a try without an acknowledgement."""
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Feedback that a gateway said it does not take: code and text."""
    faults: list[str] = field(default_factory=list)
    """What nobody should ever be told."""

    @property
    def acknowledged(self) -> list[Answered]:
        return [each for each in list(self.answered) if each.acknowledged]

    def __str__(self) -> str:
        again = sum(each.tries > 1 for each in self.answered)
        return (
            f"{len(self.answered)} answered, {len(self.acknowledged)} acknowledged, {again} tried again, "
            f"{len(self.losses)} predictions lost, {len(self.refused)} refused, {len(self.faults)} faults"
        )


class Line:
    """Asks over a connection that is kept until it breaks, or over one of its own."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        self._host, self._port = place.hostname, place.port
        self._kept: http.client.HTTPConnection | None = None
        self.connected = 0.0
        """When the connection that was used last was opened."""

    def post(self, path: str, body: Mapping[str, Any], *, fresh: bool = False) -> Reply:
        """OSError or HTTPException when no answer comes."""
        if fresh:
            self.connected = time.monotonic()
            with contextlib.closing(self._opened()) as own:
                return _asked(own, path, body)
        if self._kept is None:
            self._kept, self._since = self._opened(), time.monotonic()
        self.connected = self._since
        try:
            return _asked(self._kept, path, body)
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def post_twice(self, path: str, body: Mapping[str, Any]) -> list[Reply]:
        """At the same time, over two connections. One that is lost is left out."""
        replies = []
        with contextlib.closing(self._opened()) as one, contextlib.closing(self._opened()) as other:
            sent = []
            for connection in (one, other):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    _send(connection, path, body)
                    sent.append(connection)
            for connection in sent:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    replies.append(_received(connection))
        return replies

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _opened(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=LIMIT)


@dataclass(frozen=True, slots=True)
class Habits:
    seed: int
    callers: int = 6
    feedback: bool = True
    again: bool = True
    """Feedback whose answer is lost is given once more, until it is acknowledged or refused."""


class Caller(threading.Thread):
    def __init__(self, number: int, url: str, graphs: Sequence[str], book: Book, habits: Habits) -> None:
        super().__init__(name=f"caller-{number}", daemon=True)
        self.stopping = threading.Event()
        self._number = number
        self._line = Line(url)
        self._graphs = graphs
        self._book = book
        self._habits = habits
        self._rng = Random(f"{habits.seed}/{number}")
        self._asked = 0

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                answered = self._predict()
                if answered is not None:
                    self._book.answered.append(answered)
                    if self._habits.feedback:
                        self._give(answered)
        except Exception as error:
            self._book.faults.append(f"{self.name} came to an end: {error!r}")
            raise
        finally:
            self._line.close()

    def _predict(self) -> Answered | None:
        self._asked += 1
        rng, graph = self._rng, self._rng.choice(self._graphs)
        row = [float(self._number), float(self._asked % OFFSET) / OFFSET]
        form = rng.choice(("sealed", "chosen", "v1"))
        chosen = f"call-{self._habits.seed}-{self._number}-{self._asked}"
        path, body = _question(form, graph, row, chosen)
        try:
            reply = self._line.post(path, body, fresh=rng.random() < 0.5)
        except (OSError, http.client.HTTPException) as error:
            self._book.losses.append(Loss(repr(error), self._line.connected, time.monotonic()))
            return None
        if reply.code != 200:
            self._book.faults.append(f"prediction: {reply.code} {reply.said}")
            return None
        if form == "v1":
            [value], routing = reply.said["predictions"], reply.headers["mizzen-routing"]
        else:
            [value], routing = reply.said["outputs"][0]["data"], reply.said["parameters"]["routing"]
        arm = routing.removeprefix("a=").partition("@")[0]
        if abs(value - sum(row) - OFFSET * (1 + ARMS.index(arm))) > 1e-6:
            self._book.faults.append(f"prediction: {routing}, and yet {value} for {row}")
        id_ = reply.headers["mizzen-request-id"]
        if form == "chosen" and id_ != chosen:
            self._book.faults.append(f"prediction: it was called {id_}, and not {chosen}")
        return Answered(graph, id_, routing, arm, rng.randint(0, 8) / 8, with_routing=rng.random() < 0.3)

    def _give(self, answered: Answered) -> None:
        rng, path = self._rng, f"/v2/models/{answered.graph}/feedback"
        while not answered.acknowledged:
            answered.tries += 1
            replies: list[Reply] = []
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._habits.again and rng.random() < 0.125:
                    answered.tries += 1
                    replies = self._line.post_twice(path, answered.body)
                else:
                    replies = [self._line.post(path, answered.body, fresh=rng.random() < 0.5)]
            for reply in replies:
                if reply.code == 200:
                    answered.counted += reply.said["counted"]
                    answered.acknowledged += 1
                else:
                    self._book.refused.append((reply.code, str(reply.said)))
            if not self._habits.again or any(reply.code != 200 for reply in replies):
                return


@contextlib.contextmanager
def calling(url: str, graphs: Sequence[str], habits: Habits) -> Iterator[Book]:
    """While the body does its mischief; afterwards the book is complete."""
    book = Book()
    threads = [Caller(number, url, graphs, book, habits) for number in range(habits.callers)]
    for thread in threads:
        thread.start()
    try:
        yield book
    finally:
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            thread.join(2 * LIMIT)
            assert not thread.is_alive(), "a caller waits for an answer that does not come"
        sys.stderr.write(f"callers: {book}\n")


def serve(plane: planes.TestPlane, policies: Mapping[str, Mapping[str, Any]]) -> None:
    """A graph of each name that chooses by its policy among three models; returns when all are ready."""
    here = plane.data_dir.parent
    for number, arm in enumerate(ARMS, 1):
        (here / f"kf{arm}.py").write_text(MODEL.format(OFFSET * number))
        plane.cli("deploy", f"kf{arm}:predict", "--name", f"kf{arm}", cwd=here)
    (here / "bandits.yaml").write_text(yaml.safe_dump_all([_graph(*each) for each in policies.items()]))
    plane.cli("apply", "-f", "bandits.yaml", cwd=here)
    line = Line(plane.inference_url)
    for name in policies:
        path, body = _question("sealed", name, [0.0, 0.0], "")
        planes.wait_until(lambda p=path, b=body: line.post(p, b).code == 200, f"{name} answers")  # type: ignore[misc]
    line.close()


def _graph(name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
    arms = [{"name": arm, "dependencies": ["a"], "implementation": {"kfservice": f"kf{arm}"}} for arm in ARMS]
    dag = [{"name": "a", "route": {"mab": dict(policy)}}, *arms]
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": name}, "spec": {"dag": dag},
    }  # fmt: skip


def _question(form: str, graph: str, row: list[float], chosen: str) -> tuple[str, dict[str, Any]]:
    if form == "v1":
        return f"/v1/models/{graph}:predict", {"instances": [row]}
    tensor = {"name": "input", "datatype": "FP64", "shape": [1, len(row)], "data": row}
    id_ = {"id": chosen} if form == "chosen" else {}
    return f"/v2/models/{graph}/infer", {**id_, "inputs": [tensor]}


def _asked(connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any]) -> Reply:
    _send(connection, path, body)
    return _received(connection)


def _send(connection: http.client.HTTPConnection, path: str, body: Mapping[str, Any]) -> None:
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})


def _received(connection: http.client.HTTPConnection) -> Reply:
    answer = connection.getresponse()
    return Reply(answer.status, answer.headers, json.loads(answer.read()))
