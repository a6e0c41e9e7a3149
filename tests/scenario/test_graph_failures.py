"""What goes wrong at a node: the caller is told which one and why, with the right code, and never waits for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import graphs, grpcs, planes, run_folder
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
    if inputs["x"][0] == 666:
        os._exit(1)
    raise ValueError("nothing works")


class picky:
    inputs = ({{"name": "text", "datatype": "BYTES", "shape": [-1]}},)

    def predict(self, inputs):
        return inputs["text"]
"""
NAMES = ("echo", "one", "gated", "broken", "picky")
MEAN: dict[str, Any] = {"ensemble": {}}


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
def folder() -> Path:
    return run_folder.shared("gate")


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
    "bad input of the caller": ([node("b", "picky"), node("c", "echo", "b")], 400, "node 'b': "),
    "bad input of a node": (
        [node("a", "one"), node("b", "picky", "a")],
        502,
        "node 'b' cannot take the output of node 'a': ",
    ),
    "no route": (
        [node("a", route={"implementation": {"kfservice": "echo"}}), node("b", "echo", "a")],
        502,
        "node 'a': its router named no nodes",
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
    answer = served.ask_known(name)
    assert answer.code == code, answer.said
    assert answer.said["error"].startswith(text)
    assert list(answer.said) == ["error"], "and gets nothing else"
    assert ("retry-after" in answer.headers) == (code == 503)
    v1 = served.ask_v1(name, {"x": 1.0}, {"x": 2.0})
    assert (v1.code, v1.said["error"][: len(text)]) == (code, text)


def test_a_process_that_ends_is_one_failure(served: Graphs) -> None:
    served.serve("ends", node("a", "echo"), node("b", "broken", "a"))
    code, text = served.ask("ends", 666).failure
    assert (code, text[:9]) == (502, "node 'b':")
    planes.wait_until(lambda: served.ask("ends").failure[1].endswith("nothing works"), "there is another")


def test_members_of_other_shapes_are_both_named(served: Graphs) -> None:
    with graphs.service(lambda asked: Reply(outputs(1.0, 2.0, 3.0, name="x"))) as there:
        served.serve("unlike", node("a", "echo"), there.node("b"), node("m", "", "a", "b", merge=MEAN))
        code, text = served.ask("unlike").failure
        assert (code, text[:9]) == (502, "node 'm':")
        assert all(word in text for word in ("'a'", "'b'", "[2]", "[3]"))


def test_a_slow_node_has_its_own_time(served: Graphs, gate: Gate) -> None:
    served.serve("slow", node("a", "echo"), node("b", "gated", "a", timeoutMs=200), timeoutMs=50_000)
    code, text = served.ask("slow").failure
    assert (code, text[:9]) == (504, "node 'b':")
    assert gate.calls
    served.serve("slow-chain", node("a", "echo"), node("b", "gated", "a"))
    late = served.ask("slow-chain", headers={"mizzen-timeout-ms": "1000"})
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
        served.serve(
            "rest-of-two", node("a", "echo"), there.node("b", onError="skip"), node("m", "", "a", "b", merge=MEAN)
        )
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


# Stragglers

DEADLINE = 1.5
WEIGHTS = {**{f"m{number}": 1 for number in range(10)}, **{f"m{number}": 2 for number in range(10, 15)}, "m15": 4}
MEMBERS = [node(f"m{number}", "echo" if number < 10 else "one") for number in range(15)]


def ensemble(**more: Any) -> list[dict[str, Any]]:
    """Of 16, the last of which waits at the gate."""
    return [*MEMBERS, node("m15", "gated"), node("all", "", *WEIGHTS, merge={"ensemble": more})]


def test_an_ensemble_of_16_does_without_a_straggler(served: Graphs, gate: Gate) -> None:
    default = [{"name": "x", "datatype": "FP64", "shape": [1], "data": [-1.0]}]
    limit = round(DEADLINE * 1000)
    served.serve("fifteen", *ensemble(partial=True), timeoutMs=limit)
    served.serve("weighed", *ensemble(partial=True, weights=WEIGHTS), timeoutMs=limit)
    served.serve("sixteen", *ensemble(), timeoutMs=limit)
    served.serve("instead", node("b", "gated"), timeoutMs=limit, defaultOutput=default)
    served.serve("implied", *ensemble(), timeoutMs=limit, defaultOutput=default)
    names = ("fifteen", "weighed", "sixteen", "instead", "implied")

    def timed(name: str) -> tuple[graphs.Answer, float]:
        began = time.monotonic()
        return served.ask(name), time.monotonic() - began

    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(timed, names))
    assert not (gate.folder / "open").exists(), "all were answered while the straggler was at it"
    assert min(seconds for _, seconds in found) >= DEADLINE
    answers = dict(zip(names, (answer for answer, _ in found), strict=True))
    for name, mean, confidence in (("fifteen", 1 / 3, 0.9375), ("weighed", 0.5, 20 / 24), ("implied", 1 / 3, 0.9375)):
        answer = answers[name]
        assert answer.code == 200, answer.said
        assert answer.outputs["x"] == pytest.approx([1 + mean, 2 + mean])
        assert answer.parameters["confidence"] == pytest.approx(confidence)
        assert "default" not in answer.parameters
    code, text = answers["sixteen"].failure
    assert (code, text[:11]) == (504, "node 'm15':")
    assert answers["instead"].outputs == {"x": [-1.0, -1.0]}, "one row is that of all"
    said = answers["instead"].parameters
    assert (said["default"], said["default_reason"]) == (True, "no answer within the deadline")
    gate.open()
    whole = served.ask("fifteen")
    assert whole.parameters["confidence"] == 1.0
    assert whole.outputs["x"] == pytest.approx([1 + 5 / 16, 2 + 5 / 16])


def test_what_cannot_come_is_told_in_headers_of_v1(served: Graphs, gate: Gate) -> None:
    members = (node("a", "echo"), node("b", "gated"), node("m", "", "a", "b", merge={"ensemble": {"partial": True}}))
    default = [{"name": "x", "datatype": "FP64", "shape": [1], "data": [-1.0]}]
    served.serve("half", *members, timeoutMs=1000)
    served.apply("nobody-there", node("a", "nobody"), defaultOutput=default)
    answer = served.ask_v1("half", {"x": 1.0})
    assert (answer.said, answer.headers["mizzen-confidence"]) == ({"predictions": [1.0]}, "0.5")
    planes.wait_until(lambda: served.ask("nobody-there").code == 200, "gateways know it")
    answer = served.ask_v1("nobody-there", {"x": 1.0})
    assert answer.said == {"predictions": [-1.0]}
    assert (answer.headers["mizzen-default"], answer.headers["mizzen-default-reason"]) == ("true", "no ready model")


# A caller who leaves


def test_who_leaves_stops_all_that_was_asked_for_them(served: Graphs, gate: Gate) -> None:
    left: list[str] = []

    def behave(asked: Asked) -> Reply:
        if asked.left():
            left.append(asked.path)
        return Reply(outputs(1.0))

    with graphs.service(behave) as there, ThreadPoolExecutor(1) as pool:
        slow = [there.node("b", path="/b"), there.node("c", path="/c"), node("d", "gated")]
        served.serve("left", *slow, node("m", "", "b", "c", "d", merge=MEAN))
        served.serve("left-chain", node("a", "echo"), there.node("b", "a", path="/chain"), node("c", "echo", "b"))
        before = gate.calls
        blocker = pool.submit(served.ask, "gated")
        planes.wait_until(lambda: gate.calls == before + 1, "somebody is at the gate")
        graphs.send_and_leave(served.plane, "left", lambda: len(there.calls) == 2)
        graphs.send_and_leave(served.plane, "left-chain", lambda: len(there.calls) == 3)
        planes.wait_until(lambda: sorted(left) == ["/b", "/c", "/chain"], "all their connections were closed")
        with grpcs.calling(served.plane.grpc_address) as call:
            message = grpcs.request_of("left", [1.0], "x")
            asked = call.begun(message)
            planes.wait_until(lambda: len(there.calls) == 5, "the request is on its way")
            asked.cancel()
            planes.wait_until(lambda: len(left) == 5, "the same over gRPC")
        gate.open()
        assert blocker.result().code == 200
        assert served.ask("gated").code == 200
        assert gate.calls == before + 2, "what waited for its turn was never run"
