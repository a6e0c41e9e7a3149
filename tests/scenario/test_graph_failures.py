"""What goes wrong at a node: the caller is told which one and why, with the right code, and never waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import graphs, planes
from tests.support.graphs import Asked, Graphs, Reply, node, outputs

MODELS = """
import os
import time
from pathlib import Path

FOLDER = Path({folder!r})


def echo(inputs):
    return {{"x": next(iter(inputs.values()))}}


def one(inputs):
    return {{"x": next(iter(inputs.values())) + 1}}


def gated(inputs):
    # Each call leaves a file, and ends when there is one called `open`.
    (FOLDER / f"call-{{time.monotonic_ns()}}").touch()
    while not (FOLDER / "open").exists():
        time.sleep(0.01)
    return echo(inputs)


def broken(inputs):
    raise ValueError("nothing works")


def dying(inputs):
    os._exit(1)


def longer(inputs):
    return {{"x": [1.0, 2.0, 3.0]}}


def mute(inputs):
    return {{}}


def lost(inputs):
    return {{"route": ["nowhere"], **echo(inputs)}}


class picky:
    inputs = ({{"name": "text", "datatype": "BYTES", "shape": [-1]}},)

    def predict(self, inputs):
        return inputs["text"]
"""
NAMES = ("echo", "one", "gated", "broken", "dying", "longer", "mute", "lost", "picky")
MEAN = {"ensemble": {}}


@dataclass(frozen=True)
class Gate:
    """Of the model `gated`: who calls it waits until it is opened."""

    folder: Path

    @property
    def calls(self) -> int:
        return len(list(self.folder.glob("call-*")))

    def open(self) -> None:
        (self.folder / "open").touch()

    def shut(self) -> None:
        (self.folder / "open").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def served(plane: planes.TestPlane, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    graphs.deploy(plane, tmp_path_factory.mktemp("models"), MODELS.format(folder=str(folder)), NAMES)
    with graphs.graphs_of(plane) as found:
        yield found


@pytest.fixture
def gate(served: Graphs, folder: Path) -> Iterator[Gate]:
    found = Gate(folder)
    found.shut()
    yield found
    found.open()
    assert served.ask("gated").code == 200, "nobody waits at it any more"


# A node that cannot answer

CASES: dict[str, tuple[list[dict[str, Any]], int, str]] = {
    "missing": ([node("b", "nobody")], 503, "node 'b': nothing called 'nobody' is served"),
    "missing behind": ([node("a", "echo"), node("b", "nobody", "a")], 503, "node 'b': nothing called 'nobody'"),
    "missing member": (
        [node("a", "echo"), node("b", "nobody"), node("m", "", "a", "b", merge=MEAN)],
        503,
        "node 'b': nothing called 'nobody' is served",
    ),
    "raises": ([node("b", "broken")], 502, "node 'b': ValueError: nothing works"),
    "raises behind": ([node("a", "echo"), node("b", "broken", "a")], 502, "node 'b': ValueError: nothing works"),
    "raises before": ([node("a", "broken"), node("b", "echo", "a")], 502, "node 'a': ValueError: nothing works"),
    "two raise": ([node("b", "broken"), node("a", "broken")], 502, "node 'b': ValueError: nothing works"),
    "raises beside": (
        [node("a", "echo"), node("b", "broken"), node("m", "", "a", "b", merge=MEAN)],
        502,
        "node 'b': ValueError: nothing works",
    ),
    "gives nothing": ([node("a", "mute"), node("b", "echo", "a")], 502, "node 'a': "),
    "ends": ([node("a", "echo"), node("b", "dying", "a")], 502, "node 'b': "),
    "another shape": (
        [node("a", "echo"), node("b", "longer"), node("m", "", "a", "b", merge=MEAN)],
        502,
        "node 'm': ",
    ),
    "bad input of the caller": ([node("b", "picky"), node("c", "echo", "b")], 400, "node 'b': "),
    "bad input of a node": (
        [node("a", "one"), node("b", "picky", "a")],
        502,
        "node 'b' cannot take what node 'a' gave: ",
    ),
    "unknown route": (
        [node("a", route={"implementation": {"kfservice": "lost"}}), node("b", "echo", "a"), node("c", "one", "a")],
        502,
        "node 'a': its router took 'nowhere', which is none of b, c",
    ),
    "no route": (
        [node("a", route={"implementation": {"kfservice": "echo"}}), node("b", "echo", "a")],
        502,
        "node 'a': its router did not say which nodes to take",
    ),
    "no such address": (
        [{"name": "b", "implementation": {"svc": f"127.0.0.1:{graphs.unused_port()}"}}],
        503,
        "node 'b': '127.0.0.1:",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_caller_is_told_which_node_failed(served: Graphs, case: str) -> None:
    nodes, code, text = CASES[case]
    name = case.replace(" ", "-")
    served.apply(name, *nodes)
    planes.wait_until(lambda: "url" in served.get(name).get("status", {}), "it answers")
    answer = planes.wait_until(lambda: known(served, name), "gateways know it")
    assert answer.code == code, answer.said
    assert answer.said["error"].startswith(text)
    assert list(answer.said) == ["error"], "and gets nothing else"
    assert ("retry-after" in answer.headers) == (code == 503)
    if case == "another shape":
        assert "'a'" in answer.said["error"]
        assert "'b'" in answer.said["error"]
    v1 = served.ask_v1(name, {"x": 1.0}, {"x": 2.0})
    assert (v1.code, v1.said["error"][: len(text)]) == (code, text)


def known(served: Graphs, name: str) -> graphs.Answer | None:
    answer = served.ask(name)
    return None if answer.code == 404 else answer


def test_a_slow_node_has_its_own_time(served: Graphs, gate: Gate) -> None:
    served.serve("slow", node("a", "echo"), node("b", "gated", "a", timeoutMs=200), timeoutMs=50_000)
    code, text = served.ask("slow").failure
    assert (code, text[:9]) == (504, "node 'b':")
    assert gate.calls
    served.serve("slow-chain", node("a", "echo"), node("b", "gated", "a"))
    late = served.ask("slow-chain", headers={"mizzen-timeout-ms": "200"})
    assert (late.code, late.said["error"][:9]) == (504, "node 'b':")


# Services of others

WORDS = {
    "an error": Reply(outputs(6.0, 6.0), code=500),
    "an error in html": Reply(b"<html>", code=500),
    "a redirect": Reply(b"", code=307, headers={"location": "http://127.0.0.1:9/"}),
    "no json": Reply(b"certainly"),
    "no outputs": Reply({"model_name": "x"}),
    "too little": Reply({"outputs": [{"name": "y", "datatype": "FP64", "shape": [2], "data": [1.0]}]}),
    "an end": None,
    "garbage": None,
}


@pytest.mark.parametrize("word", WORDS)
def test_a_service_that_misbehaves_is_named_and_what_it_sent_is_no_data(served: Graphs, word: str) -> None:
    def behave(asked: Asked) -> Reply | None:
        if word == "garbage":
            asked.connection.sendall(b"what?\r\n\r\n")
        return WORDS[word]

    with graphs.service(behave) as there:
        name = f"says-{word.replace(' ', '-')}"
        served.serve(name, node("a", "one"), there.node("b", "a"), node("c", "echo", "b"))
        code, text = served.ask(name).failure
        assert (code, text[:9]) == (502, "node 'b':")
        assert there.svc in text
        assert there.calls[0].tensor == [2.0, 3.0]
        assert there.calls[0].headers["mizzen-timeout-ms"].isdigit()
        assert "authorization" not in there.calls[0].headers


@pytest.mark.parametrize(("given", "code"), [(400, 502), (503, 503), (504, 504)])
def test_a_service_that_refuses_has_its_reason(served: Graphs, given: int, code: int) -> None:
    with graphs.service(lambda asked: Reply({"error": "not today"}, code=given)) as there:
        served.serve(f"refuses-{given}", node("a", "one"), there.node("b", "a"))
        answer = served.ask(f"refuses-{given}")
        assert answer.code == code
        assert "node 'b'" in answer.said["error"]
        assert "not today" in answer.said["error"]
        assert ("retry-after" in answer.headers) == (code == 503)


# Failures that may be borne


def test_a_skipped_output_stays_as_an_error_entry(served: Graphs) -> None:
    served.serve("skips", node("a", "echo"), node("b", "broken", onError="skip"))
    answer = served.ask("skips")
    assert answer.outputs == {"a.x": [1.0, 2.0], "b.error": ["node 'b': ValueError: nothing works"]}
    assert answer.nodes == "a,b"
    rows = served.ask_v1("skips", {"x": 1.0}).said
    assert rows == {"predictions": {"a": [1.0], "b": {"error": "node 'b': ValueError: nothing works"}}}


def test_a_merge_does_without_what_was_skipped(served: Graphs) -> None:
    missing, broken = node("c", "nobody", onError="skip"), node("b", "broken", onError="skip")
    merge = node("m", "", "a", "b", "c", "d", merge=MEAN)
    served.serve("rest", node("a", "echo"), broken, missing, node("d", "one"), merge)
    assert served.ask("rest").outputs == {"x": [1.5, 2.5]}
    assert served.ask("rest").nodes == "a,b,c,d,m"
    with graphs.service(lambda asked: None) as there:
        served.serve("rest-of-two", node("a", "echo"), there.node("b", onError="skip"), node("m", "", "a", "b", merge=MEAN))
        assert served.ask("rest-of-two").outputs == {"x": [1.0, 2.0]}


def test_when_all_is_skipped_the_first_failure_is_told(served: Graphs) -> None:
    missing = node("a", "nobody", onError="skip")
    served.serve("nothing", missing, node("b", "broken", onError="skip"), node("m", "", "a", "b", merge=MEAN))
    answer = served.ask("nothing")
    assert answer.failure == (503, "node 'a': nothing called 'nobody' is served")


def test_a_slow_node_may_be_skipped(served: Graphs, gate: Gate) -> None:
    slow = node("b", "gated", timeoutMs=200, onError="skip")
    served.serve("skips-slow", node("a", "echo"), slow, node("m", "", "a", "b", merge=MEAN))
    assert served.ask("skips-slow").outputs == {"x": [1.0, 2.0]}
    assert gate.calls
