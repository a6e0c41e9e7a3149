"""Which way a request takes through a graph: routers of one's own, shares of a split, shadows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import graphs, planes
from tests.support.graphs import Asked, Graphs, Reply, node, outputs

MODELS = """
def two(inputs):
    return {"x": next(iter(inputs.values())) + 2}


def three(inputs):
    return {"x": next(iter(inputs.values())) + 3}


class router:
    # Its route stands for the first value of what it is asked about.
    inputs = (
        {"name": "x", "datatype": "FP64", "shape": [-1]},
        {"name": "routable_nodes", "datatype": "BYTES", "shape": [-1]},
    )

    def predict(self, inputs):
        assert list(inputs["routable_nodes"]) == ["b", "c"], inputs
        value = int(inputs["x"][0])
        if value == 9:
            return {"route": ["c"], "y": inputs["x"] * 100}
        routes = {0: [], 1: ["b"], 2: ["c"], 3: ["c", "b"], 4: ["*"], 5: ["nowhere"]}
        return {"route": routes[value]}
"""
BY_MODEL = {"implementation": {"kfservice": "router"}}


@pytest.fixture(scope="module")
def served(plane: planes.TestPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    graphs.deploy(plane, tmp_path_factory.mktemp("models"), MODELS, ("two", "three", "router"))
    with graphs.graphs_of(plane) as found:
        yield found


def test_a_model_of_ones_own_says_where_a_request_goes(served: Graphs) -> None:
    served.serve("own", node("a", route=BY_MODEL), node("b", "two", "a"), node("c", "three", "a"))
    found = {value: served.ask("own", value) for value in (0, 1, 2, 3, 4, 9)}
    assert {value: answer.parameters["routing"] for value, answer in found.items()} == {
        0: "a=", 1: "a=b", 2: "a=c", 3: "a=b,c", 4: "a=b,c", 9: "a=c"
    }  # fmt: skip
    assert {value: answer.nodes for value, answer in found.items()} == {
        0: "a", 1: "a,b", 2: "a,c", 3: "a,b,c", 4: "a,b,c", 9: "a,c"
    }  # fmt: skip
    assert found[0].outputs == {"x": [0.0, 1.0]}, "nobody is taken: the node itself answers"
    assert found[1].outputs == {"x": [3.0, 4.0]}
    assert found[3].outputs == {"b.x": [5.0, 6.0], "c.x": [6.0, 7.0]}
    assert found[9].outputs == {"x": [903.0, 1003.0]}, "what a router gives replaces the message"
    assert served.ask("own", 5).failure == (502, "node 'a': its router chose 'nowhere', which is not one of b, c")


def test_a_join_behind_a_router_waits_for_those_who_were_taken(served: Graphs) -> None:
    join = node("m", "", "b", "c", merge={"ensemble": {}})
    served.serve("joined", node("a", route=BY_MODEL), node("b", "two", "a"), node("c", "three", "a"), join)
    assert served.ask("joined", 1).outputs == {"x": [3.0, 4.0]}
    assert served.ask("joined", 4).outputs == {"x": [6.5, 7.5]}
    assert served.ask("joined", 4).nodes == "a,b,c,m"
    assert served.ask("joined", 0).outputs == {"x": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("header", "routing"), [("b", "a=b"), ("c, b", "a=b,c"), ("*", "a=b,c"), ("", "a="), ("d", None), (None, None)]
)
def test_a_service_says_it_in_a_header(served: Graphs, header: str | None, routing: str | None) -> None:
    def behave(asked: Asked) -> Reply:
        return Reply(b"", headers={} if header is None else {"MLGraph-Route": header})

    with graphs.service(behave) as there:
        route = {"implementation": {"svc": there.svc, "protocol": "v2"}}
        served.serve("header", node("a", route=route), node("b", "two", "a"), node("c", "three", "a"))
        answer = served.ask("header")
        [asked] = there.calls
        assert asked.headers["mlgraph-routable-nodes"] == "b,c"
        assert asked.body["parameters"]["routable_nodes"] == "b,c"
        if routing is None:
            assert answer.code == 502
            assert answer.said["error"].startswith("node 'a': its router ")
        else:
            assert answer.parameters["routing"] == routing


def test_a_service_may_say_it_in_a_parameter_and_change_the_message(served: Graphs) -> None:
    with graphs.service(lambda asked: Reply(outputs(50.0, parameters={"route": "c"}))) as there:
        route = {"implementation": {"svc": there.svc, "protocol": "v2"}}
        served.serve("parameter", node("a", route=route), node("b", "two", "a"), node("c", "three", "a"))
        assert served.ask("parameter").outputs == {"x": [53.0]}


# Shares


def test_a_split_gives_each_child_its_share(served: Graphs) -> None:
    traffic = {"b": 30, "c": 70}
    served.serve("shares", node("a", route={"split": {"traffic": traffic}}), *arms())
    served.serve("never", node("a", route={"split": {"traffic": {"b": 0, "c": 100}}}), *arms())
    served.serve("even", node("a", route={"split": {}}), *arms("d"))
    taken = Counter(served.ask("shares").nodes for _ in range(600))
    assert chi_square(taken, {f"a,{name}": share / 100 for name, share in traffic.items()}) < 25
    taken = Counter(served.ask("even").nodes for _ in range(600))
    assert chi_square(taken, {f"a,{name}": 1 / 3 for name in ("b", "c", "d")}) < 30
    assert {served.ask("never").nodes for _ in range(300)} == {"a,c"}


def arms(*more: str) -> list[dict[str, Any]]:
    return [node("b", "two", "a"), *(node(name, "three", "a") for name in ("c", *more))]


def chi_square(seen: Counter[str], shares: dict[str, float]) -> float:
    assert seen.keys() <= shares.keys()
    expected = {name: share * seen.total() for name, share in shares.items()}
    return sum((seen[name] - wanted) ** 2 / wanted for name, wanted in expected.items())


# Shadows


def shadowed(served: Graphs, name: str, shadow: dict[str, Any]) -> None:
    split = {"split": {"traffic": {"b": 100}, "shadow": ["s"]}}
    served.serve(name, node("a", route=split), node("b", "two", "a"), {**shadow, "name": "s", "dependencies": ["a"]})


def compared(served: Graphs, name: str) -> tuple[float, float]:
    agreed, differed = (
        served.metrics("mizzen_graph_shadow_compared_total", graph=name, node="s", result=result)
        for result in ("agreed", "differed")
    )
    return agreed, differed


def test_answers_of_shadows_are_compared_and_dropped(served: Graphs) -> None:
    shadowed(served, "same", node("s", "two"))
    shadowed(served, "other", node("s", "three"))
    for name in ("same", "other"):
        for value in range(4):
            answer = served.ask(name, value)
            assert (answer.outputs, answer.nodes) == ({"x": [value + 2.0, value + 3.0]}, "a,b")
            assert answer.parameters["routing"] == "a=b"
        assert served.ask_v1(name, {"x": 1.0}).said == {"predictions": [3.0]}
    planes.wait_until(lambda: compared(served, "same") == (5, 0), "all agree")
    planes.wait_until(lambda: compared(served, "other") == (0, 5), "none does")


def test_a_shadow_that_is_broken_slow_or_missing_changes_nothing(served: Graphs) -> None:
    released = threading.Event()

    def slow(asked: Asked) -> Reply:
        released.wait(graphs.LIMIT)
        return Reply(outputs(1.0))

    with graphs.service(slow) as slow_one, graphs.service(lambda asked: Reply({}, code=500)) as broken_one:
        shadows = {"slow": slow_one.node("s"), "broken": broken_one.node("s"), "missing": node("s", "nobody")}
        for kind, shadow in shadows.items():
            name = f"shadow-{kind}"
            shadowed(served, name, shadow)
            answers = [served.ask(name) for _ in range(3)]
            assert {(answer.code, answer.nodes) for answer in answers} == {(200, "a,b")}
            assert answers[0].outputs == {"x": [3.0, 4.0]}
        planes.wait_until(lambda: len(slow_one.calls) == 3, "all three were copied")
        released.set()

    def failed(kind: str, code: str) -> float:
        return served.metrics("mizzen_graph_shadow_calls_total", graph=f"shadow-{kind}", node="s", code=code)

    planes.wait_until(lambda: failed("broken", "500") == 3, "its failures are counted")
    planes.wait_until(lambda: failed("missing", "503") == 3, "and so are these")
