"""GET /graph/{name} and /graph/{name}/state: what is told of a graph, and to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mizzen.graph.table_types import Policy
from mizzen.kinds.graph.spec import MLGraphStatus
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts, write
from mizzen.selection import state_db
from mizzen.selection.state_db import Credit, FeedbackEntry, Quality, Score
from mizzen.selection.state_reader import StateReader
from mizzen.server.admin.usage import quality_by_version
from mizzen.usage.inventory import Inventory, ServedVersion
from mizzen.usage.rates import ProcessUsage
from mizzen.usage.sampler import Sampler
from tests.support.server.harness import Harness, serving

SPEC: dict[str, Any] = {
    "dag": [
        {"name": "a", "route": {"split": {"traffic": {"b": 90, "c": 10}, "shadow": ["s"]}}},
        {"name": "b", "dependencies": ["a"], "implementation": {"kfservice": "iris:1"}},
        {"name": "c", "dependencies": ["a"], "implementation": {"svc": "other.host:8080"}},
        {"name": "s", "dependencies": ["a"], "implementation": {"kfservice": "iris@next"}},
        {"name": "m", "dependencies": ["b", "c"], "merge": {"ensemble": {}}, "route": {"mab": {"egreedy": 0.1}}},
        {"name": "x", "dependencies": ["m"], "implementation": {"kfservice": "rose"}},
        {"name": "y", "dependencies": ["m"], "implementation": {"kfservice": "rose"}},
    ]
}
KEY = ("default", "iris", "1")
KNOWN = Inventory(
    {KEY: ServedVersion(("iris-1",), 1, 1)},
    feedback_targets={("u", "b"): ("default", "iris"), ("v", ""): ("default", "iris")},
)


class Steady:
    def read_usage(self) -> Mapping[str, ProcessUsage]:
        return {f"gateway-{n}": ProcessUsage(n + 1, "a", 3.0, 1000) for n in (0, 1)}

    def restarts(self) -> Mapping[str, int]:
        return {}


def nodes(step: int) -> list[GraphNodeCounts]:
    """Ten requests a second, nine of them by way of `b`."""

    def node(name: str, **more: Any) -> GraphNodeCounts:
        return GraphNodeCounts(namespace="default", graph="g", node=name, **more)

    return [
        node("a", ran=20 * step, chosen={"b": 18 * step, "c": 2 * step}),
        node("b", ran=18 * step, answered=18 * step, seconds=0.036 * step),
        node("c", ran=2 * step, answered=step, seconds=0.01 * step, codes={502: step}),
        node("s", shadowed={200: 20 * step}, shadow_seconds=0.2 * step, agreed=15 * step, differed=5 * step),
        node("m", ran=20 * step, chosen={"x": 20 * step, "y": 0}, disagreed=[("b", "c", 4 * step, 1.0 * step)]),
        node("x", ran=20 * step, answered=20 * step, seconds=0.02 * step),
        node("y"),
        GraphNodeCounts(namespace="lab", graph="g", node="a", ran=999 * step),
    ]  # fmt: skip


def sampled(folder: Path) -> Sampler:
    clock = [1_800_000_000.0]
    sampler = Sampler(folder, Steady(), lambda: KNOWN, clock=lambda: clock[0])
    for step in range(8):
        for gateway in (0, 1):
            write(
                folder,
                Counts(f"gateway-{gateway}", gateway + 1, 0.0, clock[0], 1.0, 1, [], [], {}, graphs=nodes(step)),
            )
        sampler.sample()
        clock[0] += 2
    clock[0] -= 2
    return sampler


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Harness]:
    (tmp_path / "counts").mkdir()
    more = {"usage": sampled(tmp_path / "counts"), "feedback_state": StateReader(tmp_path / "state.db")}
    with serving(tmp_path, more=more) as harness:
        yield harness


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path, anonymous=False) as harness:
        yield harness


def make(
    plane: Harness, spec: Mapping[str, Any] = SPEC, *, away: str = "", status: MLGraphStatus | None = None
) -> Resource:
    """The graph `g`, ready but for one of its nodes."""

    async def write() -> Resource:
        made = await plane.store.create(Resource("MLGraph", Meta("g"), spec), "admin")
        states = [
            {"name": node["name"], "ready": node["name"] != away, "reason": "no server" if node["name"] == away else ""}
            for node in spec["dag"]
        ]
        told = status or _status(
            _condition("Accepted"),
            _condition("Ready", "False" if away else "True"),
            url="http://x/v2/models/g",
            nodes=states,
            serving={"generation": 1, "spec": dict(spec)},
        )
        return await plane.store.update_status(made.with_status(told), "system")

    return plane.run(write())


def _condition(type_: str, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": "Because", "message": f"{type_} is {status}"}


def _status(*conditions: dict[str, str], **more: Any) -> MLGraphStatus:
    return MLGraphStatus.model_validate({"conditions": list(conditions), **more})


def learn(folder: Path, uid: str) -> None:
    policy = Policy(name="egreedy", epsilon=0.1, per_user=True)
    given = [
        FeedbackEntry(
            uid, str(number), b"", number / 10, 1.0,
            (Credit("m", policy, ("x", "y"), "x", 0.9, "ann" if number == 9 else ""),),
            (Score("b", "1", number / 10, 1.0 if number > 4 else None), Score("x", "2", number / 10, None)),
        )
        for number in range(10)
    ]  # fmt: skip
    with closing(state_db.open_db(folder / "state.db")) as connection:
        state_db.record_feedback(connection, given, Random(1))


def test_nodes_are_told_with_what_they_call_and_how_they_do(plane: Harness) -> None:
    make(plane, away="c")
    told = plane.client(token=None).get("/graph/g").json()
    assert {key: told[key] for key in ("name", "namespace", "generation", "wanted", "serving", "ready", "seconds")} == {
        "name": "g", "namespace": "default", "generation": 1, "wanted": 1, "serving": 1, "ready": False,
        "seconds": 10.0,
    }  # fmt: skip
    assert told["message"] == "Ready is False"
    a, b, c, s, m, x, y = told["nodes"]
    assert b == {
        "name": "b", "ready": True, "reason": "", "merge": None, "route": None, "shadow": False,
        "calls": [{"role": "implementation", "kind": "served", "name": "iris:1"}], "messagesPerSecond": 18.0,
        "errorsPerSecond": 0.0, "meanMs": 2.0, "selection": None, "disagreement": [], "shadowing": None,
    }  # fmt: skip
    assert (a["calls"], a["route"], a["meanMs"]) == ([], "split", None)
    assert a["selection"]["shares"] == {"b": 0.9, "c": 0.1}
    assert a["selection"]["entropy"] == pytest.approx(0.468996)
    assert (c["ready"], c["reason"], c["errorsPerSecond"], c["meanMs"]) == (False, "no server", 1.0, 10.0)
    assert c["calls"] == [{"role": "implementation", "kind": "service", "name": "other.host:8080"}]
    assert (s["shadow"], s["calls"][0]["name"], s["meanMs"]) == (True, "iris@next", 10.0)
    assert s["shadowing"] == {"agreed": 210, "differed": 70, "agreement": 0.75}
    assert (m["merge"], m["route"]) == ("mean", "egreedy")
    assert m["selection"] == {"shares": {"x": 1.0, "y": 0.0}, "entropy": 0.0}
    assert m["disagreement"] == [{"one": "b", "other": "c", "count": 56, "mean": 0.25}]
    assert (x["messagesPerSecond"], y["messagesPerSecond"], y["meanMs"]) == (20.0, 0.0, None)


def test_edges_are_told_with_what_passes(plane: Harness) -> None:
    make(plane)
    edges = plane.client().get("/graph/g").json()["edges"]
    assert [(edge["from"], edge["to"], edge["shadow"], edge["traffic"], edge["perSecond"]) for edge in edges] == [
        ("a", "b", False, 90, 18.0), ("a", "c", False, 10, 2.0), ("a", "s", True, None, 20.0),
        ("b", "m", False, None, 18.0), ("c", "m", False, None, 2.0),
        ("m", "x", False, None, 20.0), ("m", "y", False, None, 0.0),
    ]  # fmt: skip


def test_a_graph_that_is_not_accepted_is_told_as_it_answers(plane: Harness) -> None:
    before = {"dag": [{"name": "old", "implementation": {"kfservice": "iris"}}]}
    answers = {"generation": 1, "spec": before}
    refused = _status(_condition("Accepted", "False"), _condition("Ready"), serving=answers)
    make(plane, status=refused)
    told = plane.client().get("/graph/g").json()
    assert ([node["name"] for node in told["nodes"]], told["generation"]) == (["old"], 1)


def test_a_graph_that_never_was_accepted_has_no_nodes(plane: Harness) -> None:
    make(plane, {"dag": [{"name": "a", "dependencies": 7}]}, status=_status(_condition("Accepted", "False")))
    told = plane.client().get("/graph/g").json()
    assert (told["nodes"], told["edges"], told["serving"], told["ready"]) == ([], [], None, False)
    assert plane.client().get("/graph/g/state").json()["nodes"] == []


def test_nothing_learnt_yet_is_told_as_such(plane: Harness) -> None:
    make(plane)
    told = plane.client().get("/graph/g/state").json()
    assert told == {
        "name": "g", "namespace": "default", "user": "", "feedback": 0, "quality": [],
        "nodes": [{
            "node": "m", "policy": "egreedy", "parameters": {"epsilon": 0.1}, "perUser": False, "own": False,
            "users": 0, "feedback": 0,
            "arms": [
                {"arm": name, "count": 0, "mean": None, "interval": [0.0, 1.0], "weight": 1.0, "best": False}
                for name in "xy"
            ],
        }],
    }  # fmt: skip


def test_what_was_learnt_is_told(plane: Harness) -> None:
    learn(plane.folder, make(plane).meta.uid)
    told = plane.client().get("/graph/g/state").json()
    [node] = told["nodes"]
    assert (told["feedback"], node["users"], node["feedback"], node["own"]) == (10, 1, 9, False)
    x, y = node["arms"]
    assert (x["arm"], x["count"], x["mean"], x["best"]) == ("x", 9, 0.4, True)
    assert 0 < x["interval"][0] < 0.4 < x["interval"][1] < 1
    assert (y["count"], y["mean"], y["best"]) == (0, None, False)
    assert told["quality"] == [
        {"node": "b", "version": "1", "rewards": 10, "rewardMean": 0.45, "truths": 5, "accuracy": 1.0},
        {"node": "x", "version": "2", "rewards": 10, "rewardMean": 0.45, "truths": 0, "accuracy": None},
    ]


def test_one_user_may_be_asked_for(plane: Harness) -> None:
    learn(plane.folder, make(plane).meta.uid)
    [own] = plane.client().get("/graph/g/state", params={"user": "ann"}).json()["nodes"]
    assert (own["own"], own["arms"][0]["count"]) == (True, 10)
    [shared] = plane.client().get("/graph/g/state", params={"user": "bob"}).json()["nodes"]
    assert (shared["own"], shared["arms"][0]["count"]) == (False, 9)


@pytest.mark.parametrize(
    ("mab", "parameters"),
    [
        ({"ucb1": {}}, {"c": 2.0}),
        ({"thompson": {}}, {}),
        ({"exp3": {"eta": 0.5}}, {"eta": 0.5, "gamma": 0.05, "share": 0.001}),
        ({"exp4": {}}, {"eta": 0.1, "share": 0.01}),
    ],
)
def test_every_policy_tells_its_parameters(plane: Harness, mab: dict[str, Any], parameters: dict[str, float]) -> None:
    arms = [{"name": name, "dependencies": ["a"], "implementation": {"kfservice": "iris"}} for name in "bc"]
    make(plane, {"dag": [{"name": "a", "route": {"mab": mab}}, *arms]})
    [node] = plane.client().get("/graph/g/state").json()["nodes"]
    assert (node["policy"], node["parameters"]) == (next(iter(mab)), parameters)


def test_a_state_that_cannot_be_read_is_no_fault_of_others(plane: Harness) -> None:
    make(plane)
    (plane.folder / "state.db").write_bytes(b"no database" * 100)
    answer = plane.client().get("/graph/g/state")
    assert answer.status_code == 503
    assert "cannot be read" in answer.json()["message"]
    assert plane.client().get("/graph/g").status_code == 200
    assert plane.client().get("/usage").json()["models"][0]["accuracy"] is None


def test_what_is_not_there_is_said(plane: Harness) -> None:
    make(plane)
    for path in ("/graph/h", "/graph/h/state"):
        answer = plane.client().get(path)
        assert answer.status_code == 404
        assert "MLGraph/h" in answer.json()["message"]
    assert plane.client().get("/graph/g?namespace=lab").status_code == 404
    assert plane.client().get("/graph/g?user=x").status_code == 400
    assert plane.client().get("/graph/g/state?node=x").status_code == 400


def test_only_who_may_read_the_graph_is_told(closed: Harness) -> None:
    make(closed)
    closed.permit("ann", "read", subjects=["ann"], model="g")
    closed.permit("bob", "predict", subjects=["bob"], model="g")
    ann, bob, nobody = closed.client(closed.user("ann")), closed.client(closed.user("bob")), closed.client(token=None)
    for path in ("/graph/g", "/graph/g/state"):
        assert [client.get(path).status_code for client in (ann, bob, nobody)] == [200, 403, 401], path
    assert bob.get("/graph/h").status_code == 403


def test_feedback_is_told_of_the_version_that_answered(plane: Harness) -> None:
    learn(plane.folder, "u")
    [iris] = plane.client().get("/usage").json()["models"]
    assert (iris["accuracy"], iris["reward"]) == (1.0, 0.45)


def test_feedback_of_all_that_call_a_version_counts_together() -> None:
    told = [
        ("u", Quality("b", "1", 2, 1.0, 1, 0.0)), ("v", Quality("", "1", 2, 2.0, 1, 1.0)),
        ("v", Quality("", "2", 1, 0.5, 0, 0.0)), ("u", Quality("x", "1", 9, 9.0, 9, 9.0)),
    ]  # fmt: skip
    found = quality_by_version(told, KNOWN)
    assert {key: tuple(each[2:]) for key, each in found.items()} == {
        KEY: (4, 3.0, 2, 1.0), ("default", "iris", "2"): (1, 0.5, 0, 0.0),
    }  # fmt: skip
