"""mizzen graph show, explain and state; and what describe and top tell of graphs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import mizzen
from mizzen.cli.models import graph_views
from mizzen.cli.models.graphs import _screen
from mizzen.cli.objects import describe
from mizzen.cli.plane import top
from mizzen.cli.plane.top import Sort
from tests.component.cli.test_top import model, screen, usage
from tests.support.answers import Answers, answering
from tests.support.cli.command import Done, failed
from tests.support.cli.command import mizzen as command
from tests.support.golden import Golden


def node(name: str, calls: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "ready": True, "reason": "", "merge": None, "route": None, "shadow": False,
        "calls": [{"role": "implementation", "kind": "served", "name": calls}] if calls else [],
        "messagesPerSecond": 0.0, "errorsPerSecond": 0.0, "meanMs": None, "selection": None, "disagreement": [],
        "shadowing": None, **more,
    }  # fmt: skip


def edge(source: str, target: str, rate: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"from": source, "to": target, "shadow": False, "traffic": None, "perSecond": rate, **more}


def view(nodes: list[dict[str, Any]], edges: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "name": "g", "namespace": "default", "generation": 3, "wanted": 3, "serving": 3, "ready": True, "message": "",
        "url": "http://x", "seconds": 10.0, "nodes": nodes, "edges": edges, **more,
    }  # fmt: skip


BUSY = view(
    [
        node("a", route="split", messagesPerSecond=10.0,
             selection={"shares": {"b": 0.9, "c": 0.1}, "entropy": 0.469}),
        node("b", "iris:1", meanMs=2.14, messagesPerSecond=9.0),
        node("c", "iris:2", ready=False, reason="no server of 'iris' version 2 is ready", errorsPerSecond=1.0),
        node("s", "iris:3", shadow=True, meanMs=120.0, shadowing={"agreed": 3, "differed": 1, "agreement": 0.75}),
    ],
    [edge("a", "b", 9.0, traffic=90), edge("a", "c", 1.0, traffic=10), edge("a", "s", 10.0, shadow=True)],
    ready=False,
)  # fmt: skip

SHOWN = """\
g · generation 3 · not ready · 10.0 requests/s

               ╭───────╮
               │ ✓ a   │
               │ split │
               ╰───┬───╯
     ╭─────────────┼─────────────╮
     ▼ 9.0/s       ▼ 1.0/s       ▼ shadow 10.0/s
╭─────────╮  ╭───────────╮  ╭┄┄┄┄┄┄┄┄┄╮
│ ✓ b     │  │ ✗ c       │  ┆ ✓ s     ┆
│ iris:1  │  │ iris:2    │  ┆ iris:3  ┆
│ 2.1 ms  │  │ 1.0 err/s │  ┆ 120 ms  ┆
╰─────────╯  ╰───────────╯  ╰┄┄┄┄┄┄┄┄┄╯

a chose b 90%, c 10%; entropy 0.47
✗ c: no server of 'iris' version 2 is ready
s would have given the same answer in 75% of requests
"""


@pytest.fixture
def plane() -> Iterator[Answers]:
    with answering() as answers:
        answers.give["GET", "/"] = 200, {"inference": answers.url}
        yield answers


def asked(plane: Answers, folder: Path, *words: str, **environ: str) -> Done:
    place = {"MIZZEN_URL": plane.url, "MIZZEN_TOKEN": "t", "COLUMNS": "100", **environ}
    return command("graph", *words, cwd=folder, environ=place)


def test_a_graph_is_drawn_with_what_passes(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g"] = 200, BUSY
    done = asked(plane, tmp_path, "show", "g", "-n", "lab")
    assert done.stdout == SHOWN
    assert plane.asked[-1].path == "/graph/g?namespace=lab"


def test_what_is_drawn_is_told_as_data_too(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g"] = 200, BUSY
    assert json.loads(asked(plane, tmp_path, "show", "g", "-o", "json").stdout) == BUSY
    assert yaml.safe_load(asked(plane, tmp_path, "show", "g", "-o", "yaml", "--watch").stdout) == BUSY
    assert asked(plane, tmp_path, "show", "g", "--watch").stdout == SHOWN, "once, where nobody looks"


LISTED = """\
g · generation 3 · not ready · 10.0 requests/s

✓ a  split
  ✓ b  iris:1  2.1 ms  ← a 9.0/s
  ✗ c  iris:2  1.0 err/s  ← a 1.0/s
  ✓ s  iris:3  120 ms  ← a shadow 10.0/s
"""


def test_a_narrow_terminal_gets_a_list(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g"] = 200, BUSY
    assert asked(plane, tmp_path, "show", "g", COLUMNS="30").stdout.startswith(LISTED)


def test_a_wide_graph_is_listed_with_few_words(golden: Golden) -> None:
    members = [node(f"m{at}", "iris:1") for at in range(28)]
    wide = view(
        [node("a"), *members, node("z", merge="mean")],
        [edge("a", each["name"]) for each in members] + [edge(each["name"], "z") for each in members],
    )
    lines = list(graph_views.render_graph(wide, 120))
    assert lines[:3] == ["g · generation 3 · ready", "", "✓ a  passes on"]
    assert lines[3] == "  ✓ m0  iris:1  ← a"
    golden.check(lines[-1])
    assert len(lines) == 32


def test_without_traffic_what_is_to_pass_is_told() -> None:
    idle = view([node("a", route="split"), node("b", "x"), node("c", "y")],
                [edge("a", "b", traffic=90), edge("a", "c", traffic=10)])  # fmt: skip
    assert any(line.split() == ["▼", "90%", "▼", "10%"] for line in graph_views.render_graph(idle, 80))


@pytest.mark.parametrize(
    ("more", "does"),
    [
        ({"merge": "vote", "route": "egreedy"}, "vote · iris · egreedy"),
        ({"calls": [{"role": "merge", "kind": "container", "name": "joiner"}], "merge": "call"}, "merged by joiner"),
        ({"calls": [{"role": "route", "kind": "service", "name": "h:80"}], "route": "call"}, "routed by h:80"),
    ],
)
def test_what_a_node_does_is_told(more: dict[str, Any], does: str) -> None:
    [box] = graph_views.boxes_of(view([node("a", "iris") | more], []))
    assert box.lines == ("✓ a", does)


def test_which_spec_is_shown_is_told(golden: Golden) -> None:
    golden.check(graph_views.format_headline(view([], [], serving=2)))
    refused = view([], [], generation=2, serving=2)
    assert graph_views.format_headline(refused).endswith("generation 2 answers · generation 3 is not accepted")
    golden.check(list(graph_views.render_graph(view([], [], serving=None, ready=False), 80))[-1])


def test_members_that_differ_are_told(golden: Golden) -> None:
    pairs = [{"one": "b", "other": "c", "count": 7, "mean": 0.25}]
    told = list(graph_views.render_graph(view([node("m", disagreement=pairs)], []), 80))
    golden.check(told[-1])


def test_it_is_drawn_again_and_again_until_interrupted(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g"] = 200, BUSY
    with screen(plane, tmp_path, "graph", "show", "g", "--watch") as shown:
        shown.until("10.0 requests/s")
        plane.give["GET", "/graph/g"] = 0, b""
        shown.until("waiting for it")
        plane.give["GET", "/graph/g"] = 200, view([node("alone", "rose:1")], [])
        shown.until("alone")
        assert shown.press(b"\x03") == 130
        assert "Traceback" not in shown.seen


def test_nobody_watches_what_is_not_there(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/h"] = 404, {"kind": "Status", "reason": "NotFound", "message": "MLGraph/h is not there"}
    with screen(plane, tmp_path, "graph", "show", "h", "--watch") as shown:
        shown.until("error: MLGraph/h is not there")
        assert shown.press(b"") == 1


def test_the_screen_goes_on_with_what_was_known() -> None:
    text = str(_screen(BUSY, "nothing answers; waiting for it", 100))
    assert text.startswith("nothing answers; waiting for it\ng · generation 3")
    assert str(_screen(None, "away", 100)) == "away"


# explain

TENSOR = {"name": "sum", "datatype": "FP64", "shape": [1, 2], "data": [3.0, 4.0]}
EXPLAINED = {
    "answer": {"model_name": "g", "model_version": "3", "id": "x1", "parameters": {"nodes": "a,b", "confidence": 0.5},
               "outputs": [TENSOR]},
    "parameters": {"nodes": "a,b"}, "took_ms": 10.0, "taken": ["a", "b"],
    "routing": [{"node": "a", "chosen": ["b"], "probability": 0.9}],
    "nodes": [
        {"node": "a", "phase": "route", "began_ms": 0.0, "took_ms": 5.0, "code": 200, "outputs": []},
        {"node": "b", "phase": "implementation", "began_ms": 5.0, "took_ms": 4.0, "code": 200, "outputs": [TENSOR]},
    ],
}  # fmt: skip
TOLD = """\
g version 3, request x1 · 10.0 ms
taken   a, b
chosen  a → b (probability 0.9)

a (route)  ███████████████···············    5.0 ms
b          ···············████████████···    4.0 ms
    sum: [[3.0, 4.0]]

answer
  sum: [[3.0, 4.0]]
  confidence 0.5
"""
V2 = '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP64", "data": [1]}]}'


def test_the_way_of_a_request_is_shown(plane: Answers, tmp_path: Path) -> None:
    plane.give["POST", "/v2/models/g/explain"] = 200, EXPLAINED
    (tmp_path / "request.json").write_text(V2)
    for data in (V2, "@request.json"):
        done = asked(plane, tmp_path, "explain", "g", "--data", data)
        assert (done.returncode, done.stdout) == (0, TOLD)
        assert plane.asked[-1].body == json.loads(V2)
    assert json.loads(asked(plane, tmp_path, "explain", "g", "-d", V2, "-o", "json").stdout) == EXPLAINED


def test_rows_are_sent_as_predict_sends_them(plane: Answers, tmp_path: Path) -> None:
    inputs = [{"name": "x", "datatype": "FP64", "shape": [-1, 2]}]
    plane.give["GET", "/v2/models/g"] = 200, {"name": "g", "versions": ["3"], "inputs": inputs, "outputs": []}
    plane.give["POST", "/v2/models/g/explain"] = 200, EXPLAINED
    assert asked(plane, tmp_path, "explain", "g", "-d", "[[1,2]]").returncode == 0
    assert plane.asked[-1].body["inputs"][0] == {"name": "x", "datatype": "FP64", "shape": [1, 2], "data": [1, 2]}


def test_of_a_failing_request_one_sees_how_far_it_came(plane: Answers, tmp_path: Path, golden: Golden) -> None:
    calls = [
        {"node": "a", "phase": "implementation", "began_ms": 0, "took_ms": 1, "code": 200, "outputs": [
            {"name": "big", "datatype": "FP64", "shape": [1000], "parameters": {"left_out_bytes": 8000}}]},
        {"node": "b", "phase": "implementation", "began_ms": 1, "took_ms": 1, "code": 500, "error": "it raised"},
    ]  # fmt: skip
    told = {"error": "node 'b': it raised", "code": 502, "took_ms": 2.0, "nodes": calls, "taken": ["a", "b"],
            "routing": []}  # fmt: skip
    plane.give["POST", "/v2/models/g/explain"] = 200, told
    done = asked(plane, tmp_path, "explain", "g", "-d", V2)
    assert done.returncode == 1
    golden.check(done.stderr)
    assert done.stdout.splitlines() == [
        "g · 2.0 ms",
        "taken   a, b",
        "",
        f"a  {'█' * 15}{'·' * 15}    1.0 ms",
        "    big: FP64 [1000], 8.0 KB",
        f"b  {'·' * 15}{'█' * 15}    1.0 ms  500",
        "    it raised",
    ]


def test_a_model_is_no_graph(plane: Answers, tmp_path: Path) -> None:
    plane.give["POST", "/v2/models/m/explain"] = 409, {"error": "'m' is no graph"}
    failed(asked(plane, tmp_path, "explain", "m", "-d", V2), "'m' is no graph")
    failed(asked(plane, tmp_path, "explain", "m", "-d", "{"), "--data is not valid JSON")


@pytest.mark.parametrize(
    ("began", "took", "whole"), [(0.0, 0.0, 0.0), (9.999, 0.001, 10.0), (10.0, 5.0, 10.0), (0.0, 10.0, 10.0)]
)
def test_bars_stay_in_their_columns(began: float, took: float, whole: float) -> None:
    found = graph_views.render_bar(began, took, whole)
    assert len(found) == 30
    assert "█" in found


# state

ARMS = [
    {"arm": "b", "count": 90, "mean": 0.9, "interval": [0.82, 0.945], "weight": 1.5, "best": True},
    {"arm": "c", "count": 0, "mean": None, "interval": [0.0, 1.0], "weight": 0.5, "best": False},
]
LEARNT = {
    "name": "g", "namespace": "default", "user": "", "feedback": 90,
    "nodes": [
        {"node": "a", "policy": "egreedy", "parameters": {"epsilon": 0.1}, "perUser": True, "own": False, "users": 2,
         "feedback": 90, "arms": ARMS},
        {"node": "x", "policy": "exp3", "parameters": {}, "perUser": False, "own": False, "users": 0, "feedback": 90,
         "arms": ARMS},
    ],
    "quality": [
        {"node": "b", "version": "7", "rewards": 90, "rewardMean": 0.9, "truths": 0, "accuracy": None},
    ],
}  # fmt: skip
STATE = """\
a: egreedy, epsilon 0.1 · 90 rewards · 2 users have separate states
ARM   COUNT   MEAN    95% INTERVAL
b *   90      0.900   0.820 ················━●━· 0.945
c     0       -       0.000 ━━━━━━━━━━━━━━━━━━━━ 1.000

x: exp3 · 90 rewards
ARM   COUNT   MEAN    95% INTERVAL                       WEIGHT
b *   90      0.900   0.820 ················━●━· 0.945   1.500
c     0       -       0.000 ━━━━━━━━━━━━━━━━━━━━ 1.000   0.500

by version
NODE   VERSION   REWARDS   MEAN    TRUTHS   ACCURACY
b      7         90        0.900   0        -
"""


def test_what_bandits_have_learnt_is_shown(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g/state"] = 200, LEARNT
    assert asked(plane, tmp_path, "state", "g").stdout == STATE
    assert json.loads(asked(plane, tmp_path, "state", "g", "--user", "ann", "-o", "json").stdout) == LEARNT
    assert plane.asked[-1].path == "/graph/g/state?user=ann"


def test_a_graph_without_bandits_is_told_as_such(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/graph/g/state"] = 200, {**LEARNT, "nodes": [], "quality": []}
    done = asked(plane, tmp_path, "state", "g")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("g has no bandits and no feedback yet")


def test_a_graph_that_is_not_there_is_an_error(plane: Answers, tmp_path: Path) -> None:
    gone = {"kind": "Status", "reason": "NotFound", "message": "MLGraph/h is not there"}
    for verb, path in (("show", "/graph/h"), ("state", "/graph/h/state")):
        plane.give["GET", path] = 404, gone
        failed(asked(plane, tmp_path, verb, "h"), "MLGraph/h is not there")


# Elsewhere


def test_the_sdk_has_a_graph(plane: Answers) -> None:
    plane.give["GET", "/graph/g"] = 200, BUSY
    plane.give["GET", "/graph/g/state"] = 200, LEARNT
    plane.give["POST", "/v2/models/g/explain"] = 200, EXPLAINED
    with mizzen.connect(plane.url, "t") as connected:
        graph = connected.graph("g")
        assert repr(graph) == "<mizzen.Graph g>"
        assert (graph.show(), graph.state("ann")) == (BUSY, LEARNT)
        assert graph.explain(json.loads(V2), timeout_ms=50) == EXPLAINED
    assert plane.asked[-1].body["parameters"] == {"timeout": 50_000}


def test_describe_says_which_node_is_not_ready_and_why() -> None:
    nodes = [
        {"name": "a", "ready": True, "reason": "", "protocol": "v2"},
        {"name": "b", "ready": False, "reason": "nothing called 'iris' is served", "protocol": ""},
    ]
    resource = {
        "kind": "MLGraph",
        "metadata": {"name": "g"},
        "spec": {},
        "status": {"phase": "Pending", "nodes": nodes},
    }
    told = list(describe.describe_lines(resource, []))
    at = told.index("Nodes: 1 of 2 ready")
    assert told[at - 2 : at] == ["Status", "  phase: Pending"]
    assert told[at + 1 :] == ["  ✓ a (v2)", "  ✗ b: nothing called 'iris' is served"]


def test_top_tells_what_feedback_says_where_there_was_any() -> None:
    found = usage(model("iris", accuracy=0.9321, reward=None), model("rose", accuracy=None, reward=None))
    [(_, rows), _] = top.build_tables(found, Sort.NAME)
    assert [row[-2:] for row in rows] == [("CPU", "ACCURACY"), ("0%", "0.932"), ("0%", "-")]
    [(_, rows), _] = top.build_tables(usage(model("iris", accuracy=0.5, reward=0.25)), Sort.NAME)
    assert [row[-2:] for row in rows] == [("ACCURACY", "REWARD"), ("0.500", "0.250")]
    [(_, rows), _] = top.build_tables(usage(model("iris")), Sort.NAME)
    assert rows[0][-1] == "CPU"
