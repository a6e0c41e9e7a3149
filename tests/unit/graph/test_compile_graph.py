"""MLGraphs as gateways get them: each form of a node, of a route, of a merge and of what is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mizzen.graph import table_types
from mizzen.graph.compile.graph import MAX_DEPTH, NestingFault, compile_graph, find_nesting_faults
from mizzen.graph.compile.table import compile_table
from mizzen.graph.table_types import (
    Callee,
    CompiledGraph,
    GraphInput,
    Merging,
    Node,
    Policy,
    RecordLimits,
    Routing,
    Service,
)
from mizzen.kinds import catalog
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.schema.resource import Resource
from tests.support.controllers.objects import inference_model, meta, model, workload
from tests.unit.kinds.graphs import dag, merged, node, routed

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted([*EXAMPLES.glob("mlgraph/*.yaml"), *EXAMPLES.glob("seeds/mlgraph/*.yaml")])


def graph(spec: dict[str, Any], name: str = "g", **status: Any) -> Resource:
    return Resource("MLGraph", meta(name), spec, status)


def compiled(spec: dict[str, Any], found: dict[str, Resource] | None = None, **more: Any) -> CompiledGraph:
    return both(spec, found, **more)[0]


def both(
    spec: dict[str, Any], found: dict[str, Resource] | None = None, **more: Any
) -> tuple[CompiledGraph, tuple[Service, ...]]:
    resource = graph(spec)
    return compile_graph(resource, MLGraphSpec.of(resource), found or {}, **more)


def named(spec: dict[str, Any], name: str) -> Node:
    [found] = [one for one in compiled(spec).nodes if one.name == name]
    return found


def served(spec: dict[str, Any], name: str = "g", generation: int = 1, **more: Any) -> Resource:
    return graph(spec, name, serving={"generation": generation, "spec": spec, **more})


def answering(name: str, *states: str, protocol: str = "", port: int = 7000, **spec: Any) -> Resource:
    """The Workload of a container."""
    one = workload(name, *states, purpose="answer", model="c", **spec)
    replicas = [
        {**replica, "address": f"http://127.0.0.1:{port + index}", "protocol": protocol}
        for index, replica in enumerate(one.status["replicas"])
    ]
    return replace(one, status={**one.status, "replicas": replicas})


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": ["python", "serve.py"], **fields}


def custom(*containers: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"spec": {"containers": list(containers)}, **fields}]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.stem}")
def test_every_example_compiles(file: Path) -> None:
    spec = yaml.safe_load(file.read_text("utf-8"))["spec"]
    if catalog.find("mlgraph").examine("g", spec).faults:
        assert file.match("seeds/mlgraph/pipeline.yaml")  # names a container that is not there
        return
    found, services = both(spec)
    names = [one["name"] for one in ([spec["dag"]] if isinstance(spec["dag"], dict) else spec["dag"])]
    assert sorted(one.name for one in found.nodes) == sorted(names)
    for place, one in enumerate(found.nodes):
        assert all(on < place for on in one.dependencies)
        assert all(place in found.nodes[child].dependencies for child in one.children)
    ids = {service.id for service in services}
    callees = [callee for one in found.nodes for callee in calls(one)]
    assert all(callee.name or callee.service in ids for callee in callees)
    assert ids == {callee.service for callee in callees} - {""}
    table = compile_table((), (), (), 1, graphs=[served(spec)])
    assert table_types.decode(table_types.encode(table)) == table
    [route] = table.routes
    assert route.plan.graph == found


def calls(one: Node) -> list[Callee]:
    called = (one.call, one.merge.call if one.merge else None, one.route.call if one.route else None)
    return [callee for callee in called if callee is not None]


def test_the_three_seeds_with_served_models() -> None:
    experiment = yaml.safe_load((EXAMPLES / "seeds/mlgraph/experiment.yaml").read_text("utf-8"))["spec"]
    a, *others = compiled(experiment).nodes
    assert a == Node(name="a", children=(1, 2, 3), route=Routing(kind="split", children=(1, 2, 3)))
    assert [one.call for one in others] == [Callee(name=f"kf{letter}") for letter in "bcd"]
    egreedy = yaml.safe_load((EXAMPLES / "seeds/mlgraph/egreedy.yaml").read_text("utf-8"))["spec"]
    route = named(egreedy, "a").route
    assert route == Routing(kind="mab", children=(1, 2, 3), policy=Policy(name="egreedy", epsilon=0.1))
    ensemble = yaml.safe_load((EXAMPLES / "seeds/mlgraph/ensemble.yaml").read_text("utf-8"))["spec"]
    assert named(ensemble, "d") == Node(name="d", dependencies=(0, 1, 2), merge=Merging(kind="mean"))


def test_nodes_stand_behind_what_they_depend_on_and_dependencies_as_listed() -> None:
    found = compiled(dag(node("m", "b", "a", merge={"ensemble": {}}), node("a"), node("b", "a")))
    assert [one.name for one in found.nodes] == ["a", "b", "m"]
    assert found.nodes[2].dependencies == (1, 0)
    assert found.nodes[0].children == (1, 2)


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (None, None),
        ({}, None),
        ({"split": None}, Routing(kind="split", children=(1, 2, 3))),
        ({"split": {"traffic": {"c": 30, "b": 70}}}, Routing(kind="split", children=(1, 2, 3), weights=(70, 30, 0))),
        ({"split": {"key": "user", "shadow": ["c"]}},
         Routing(kind="split", children=(1, 3), key="user", shadows=(2,))),
        ({"split": {"key": "header:X-Group"}}, Routing(kind="split", children=(1, 2, 3), key="header:x-group")),
        ({"mab": {"ucb1": None, "perUser": True}},
         Routing(kind="mab", children=(1, 2, 3), policy=Policy(name="ucb1", c=2.0, per_user=True))),
        ({"mab": {"thompson": {}}}, Routing(kind="mab", children=(1, 2, 3), policy=Policy(name="thompson"))),
        ({"mab": {"egreedy": 0}}, Routing(kind="mab", children=(1, 2, 3), policy=Policy(name="egreedy"))),
        ({"mab": {"exp3": {"gamma": 0.2, "eta": 1, "share": 0}}},
         Routing(kind="mab", children=(1, 2, 3), policy=Policy(name="exp3", gamma=0.2, eta=1.0, share=0.0))),
        ({"implementation": {"kfservice": "r@best"}},
         Routing(kind="call", children=(1, 2, 3), call=Callee(name="r", version="best"))),
    ],
)  # fmt: skip
def test_routes(route: Any, expected: Routing | None) -> None:
    found = named(dag(node("a", route=route), *(node(child, "a") for child in "bcd")), "a")
    assert (found.route, found.lacking) == (expected, "")


def test_routes_without_children_choose_nothing_but_a_router_is_called() -> None:
    assert named(dag(node("a", route={"split": {}})), "a").route is None
    assert named(dag(node("a", route={"mab": {"ucb1": {}}})), "a").route is None
    route = named(dag(node("a", route={"implementation": {"kfservice": "r"}})), "a").route
    assert route == Routing(kind="call", children=(), call=Callee(name="r"))


CASCADE = {"cascade": {"edge": "b", "cloud": "c", "hardExample": {"name": "Random"}}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (routed(CASCADE, "b", "c"), "route.cascade is not run by this release"),
        (routed({"mab": {"exp4": {}}}, "b", "c"), "route.mab.exp4 is not run by this release"),
        (dag(node("a", implementation={"inline": {"kfspec": {}}})),
         "implementation.inline.kfspec is not run by this release"),
        (dag(node("a"), node("m", "a", merge={"implementation": {"inline": {"kfspec": {}}}})),
         "merge.implementation.inline.kfspec is not run by this release"),
        (dag(node("a", implementation={"ref": {"custom": {"kind": "Knative", "name": "x"}}})),
         "implementation.ref.custom of this kind is not run by this release"),
    ],
)  # fmt: skip
def test_what_is_not_run_here_is_said_by_the_node(spec: dict[str, Any], said: str) -> None:
    found, services = both(spec)
    assert [one.lacking for one in found.nodes if one.lacking] == [said]
    assert services == ()


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        (None, None),
        ({}, None),
        ({"ensemble": None}, Merging(kind="mean")),
        ({"ensemble": {"weights": {"b": 3, "a": 1}}}, Merging(kind="mean", weights=(1.0, 3.0))),
        ({"ensemble": {"method": "vote", "partial": True}}, Merging(kind="vote", partial=True)),
        ({"ensemble": {"threshold": 0.5}}, Merging(kind="mean", threshold=0.5)),
        ({"implementation": {"kfservice": "j"}}, Merging(kind="call", call=Callee(name="j"))),
        ({"implementation": {"kfservice": "j:v2", "mode": "incremental"}},
         Merging(kind="call", call=Callee(name="j", version="2"), incremental=True)),
        ({"ensemble": {"implementation": {"kfservice": "j"}}}, Merging(kind="call", call=Callee(name="j"))),
    ],
)  # fmt: skip
def test_merges(merge: Any, expected: Merging | None) -> None:
    assert named(merged(merge, "a", "b"), "m").merge == expected


def test_a_merge_of_nothing_merges_nothing() -> None:
    assert named(dag(node("m", merge={"ensemble": {}})), "m").merge is None
    spec = dag(node("m", merge={"implementation": {"name": "m"}}), custom=custom(container("m")))
    assert both(spec)[0].nodes[0] == Node(name="m")


def test_a_default_output_implies_partial_merges() -> None:
    answer = [{"name": "y", "datatype": "INT64", "shape": [1], "data": [0]}]
    for said, partial in ((None, True), (False, False), (True, True)):
        ensemble = {} if said is None else {"partial": said}
        merge = named(merged({"ensemble": ensemble}, "a", "b", defaultOutput=answer), "m").merge
        assert merge is not None
        assert merge.partial is partial


def test_what_the_graph_says_of_requests() -> None:
    inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    one = node("a", timeoutMs=5, onError="skip")
    found = compiled(dag(one, timeoutMs=9, inputs=inputs, headers=["X-Trace", "x-trace"]), generation=4)
    assert (found.uid, found.generation, found.timeout_ms, found.headers) == ("uid-g", 4, 9, ("x-trace",))
    assert found.inputs == (GraphInput(name="x", datatype="FP32", shape=(-1, 4)),)
    assert (found.nodes[0].timeout_ms, found.nodes[0].skip) == (5, True)


def test_a_container_of_the_nodes_name_runs_it_unless_its_merge_or_route_calls_it() -> None:
    merging = {"merge": {"implementation": {"name": "m"}}}
    routing = {"route": {"implementation": {"name": "r"}}}
    spec = {
        "custom": custom(container("a"), container("m"), container("r")),
        "dag": [{"name": "a"}, {"name": "m", "dependencies": ["a"], **merging}, {"name": "r", **routing}],
    }
    found, services = both(spec)
    a, m, r = (next(one for one in found.nodes if one.name == name) for name in "amr")
    assert a.call == Callee(service="default/g/a")
    assert (m.call, m.merge) == (None, Merging(kind="call", call=Callee(service="default/g/m")))
    assert (r.call, r.route) == (None, Routing(kind="call", children=(), call=Callee(service="default/g/r")))
    assert [service.id for service in services] == ["default/g/a", "default/g/m", "default/g/r"]


def test_one_container_for_several_nodes_is_one_service() -> None:
    called = {"name": "c", "protocol": "v1"}
    spec = dag(node("a", implementation=called), node("b", implementation={"name": "c"}), custom=custom(container("c")))
    found, services = both(spec, {"c": answering("g.c", "ready", "starting", "failed")})
    assert [one.call for one in found.nodes] == [Callee(service="default/g/c")] * 2
    assert services == (
        Service(
            id="default/g/c", addresses=("http://127.0.0.1:7000", "http://127.0.0.1:7001"),
            path="/v1/models/c:predict", protocol="v1",
        ),
    )  # fmt: skip


def test_what_a_container_speaks_is_what_it_said() -> None:
    spec = dag(node("a", implementation={"name": "c"}), custom=custom(container("c")))
    paths = {"": "/v2/models/c/infer", "v2": "/v2/models/c/infer", "v1": "/v1/models/c:predict", "seldon": "/predict"}
    for protocol, path in paths.items():
        [service] = both(spec, {"c": answering("g.c", "ready", protocol=protocol)})[1]
        assert (service.protocol, service.path) == (protocol or "v2", path)


def test_seldon_has_a_path_for_each_use() -> None:
    seldon = {"name": "c", "protocol": "seldon"}
    both_ = {"merge": {"implementation": seldon}, "implementation": seldon, "route": {"implementation": seldon}}
    spec = dag(node("a"), {"name": "m", "dependencies": ["a"], **both_}, custom=custom(container("c")))
    found, services = both(spec, {"c": answering("g.c", "ready")})
    assert {service.id: service.path for service in services} == {
        "default/g/c": "/predict", "default/g/c#merge": "/aggregate", "default/g/c#route": "/route",
    }  # fmt: skip
    assert found.nodes[1].call == Callee(service="default/g/c")


@pytest.mark.parametrize(
    ("one", "replicas", "missing"),
    [
        ({"name": "c", "image": "x:1"}, 1, "container 'c' has an image, and this engine runs no containers"),
        (
            {"name": "c", "image": "x:1", "args": ["y"]},
            1,
            "container 'c' has an image, and this engine runs no containers",
        ),
        ({"name": "c"}, 1, "container 'c' has no command to run"),
        (container("c"), 0, "replicas of container 'c' is 0"),
        (container("c"), 1, "container 'c' is not started yet"),
    ],
)
def test_why_nobody_answers_for_a_container(one: dict[str, Any], replicas: int, missing: str) -> None:
    spec = dag({"name": "c"}, custom=custom(one, replicas=replicas))
    [service] = both(spec)[1]
    assert (service.addresses, service.missing) == ((), missing)
    if replicas == 0:
        [service] = both(spec, {"c": answering("g.c", "stopping", replicas=0)})[1]
        assert (service.addresses, service.missing) == ((), missing)


def test_later_forms() -> None:
    pod = {"containers": [container("side"), container("a")]}
    spec = dag(
        node("a", implementation={"inline": {"podspec": pod}}),
        node("b", implementation={"inline": {"podspec": pod}}),
        node("c", implementation={"ref": {"kfservice": "kfc"}}),
        node("d", implementation={"ref": {"custom": "x"}}),
        node("e", implementation={"ref": {"uri": "scorer"}}),
        inline=[{"podspec": {"containers": [container("x")]}}],
    )
    found, services = both(spec, {"a.implementation": answering("g.a.implementation", "ready")})
    assert [one.call for one in found.nodes] == [
        Callee(service="default/g/a.implementation"), Callee(service="default/g/b.implementation"),
        Callee(name="kfc"), Callee(service="default/g/x"),
        Callee(service="svc:http://scorer:80/v2/models/scorer/infer#v2"),
    ]  # fmt: skip
    by_id = {service.id: service for service in services}
    assert by_id["default/g/a.implementation"].path == "/v2/models/a/infer"
    assert by_id["default/g/b.implementation"].path == "/v2/models/side/infer", "none has the name of the node"


@pytest.mark.parametrize(
    ("svc", "protocol", "host", "path"),
    [
        ("scorer.team.svc", None, "http://scorer.team.svc:80", "/v2/models/scorer/infer"),
        ("scorer:9000", "v1", "http://scorer:9000", "/v1/models/scorer:predict"),
        ("10.0.0.1", "v1", "http://10.0.0.1:80", "/v1/models/a:predict"),
        ("localhost:9000", "v2", "http://localhost:9000", "/v2/models/a/infer"),
        ("https://Scorer/own/path", "v2", "https://scorer:443", "/own/path"),
        ("scorer", "seldon", "http://scorer:80", "/predict"),
    ],
)
def test_services_of_others(svc: str, protocol: str | None, host: str, path: str) -> None:
    said = {"svc": svc, **({"protocol": protocol} if protocol else {})}
    found, [service] = both(dag(node("a", implementation=said)))
    spoken = protocol or "v2"
    assert service == Service(id=f"svc:{host}{path}#{spoken}", addresses=(host,), path=path, protocol=spoken)  # type: ignore[arg-type]
    assert found.nodes[0].call == Callee(service=service.id)


def test_services_speak_what_they_were_found_to() -> None:
    spec = dag(
        node("a", route={"implementation": {"svc": "s"}}),
        node("b", "a", implementation={"svc": "s"}),
        node("c", "b", implementation={"svc": "s", "protocol": "v1"}),
    )
    services = both(spec, protocols={"s": "seldon"})[1]
    assert [service.id for service in services] == [
        "svc:http://s:80/predict#seldon", "svc:http://s:80/route#seldon", "svc:http://s:80/v1/models/s:predict#v1",
    ]  # fmt: skip


def test_a_table_has_what_is_served_and_not_what_is_asked_for() -> None:
    old, new = dag(node("a", implementation={"kfservice": "x"})), dag(node("b", implementation={"kfservice": "y"}))
    resource = replace(served(old, generation=3), spec=new)
    table = compile_table((), (), (), 7, graphs=[resource, graph(new, "never"), graph(new, "odd", serving={"spec": 1})])
    [route] = table.routes
    assert (route.namespace, route.name, route.version, route.model) == ("default", "g", "3", "")
    assert route.versions == {"3": route.plan}
    assert route.plan.graph == compiled(old, generation=3)
    assert route.plan.kept is None


def test_a_table_finds_the_workloads_that_the_status_names() -> None:
    spec = dag({"name": "c"}, custom=custom(container("c")))
    workloads = [answering("g.c", "ready"), answering("g.c-2", "ready", port=8000)]
    resource = served(spec, workloads={"c": "g.c-2"}, protocols={"other": "klingon"})
    [service] = compile_table((), (), workloads, 7, graphs=[resource]).services
    assert service.addresses == ("http://127.0.0.1:8000",)


def test_a_graph_takes_its_name_from_a_model() -> None:
    models = [model("g", current="1"), model("other", current="1")]
    table = compile_table(models, [inference_model("g-1", serving="1", model_name="g")], (), 7,
                          graphs=[served(dag(node("a")))])  # fmt: skip
    assert [(route.name, route.plan.graph is not None) for route in table.routes] == [
        ("g", True), ("g-1", False), ("other", False),
    ]  # fmt: skip


def test_a_graph_that_is_being_deleted_or_cannot_be_is_left_out() -> None:
    deleting = replace(served(dag(node("a"))), meta=meta("g", deleting=True))
    cyclic = served(dag(node("a", "b"), node("b", "a")), "cyclic")
    nowhere = served(dag(node("a", implementation={"name": "gone"})), "nowhere")
    broken = served({"dag": 7}, "broken")
    whole = served(dag(node("a")), "whole")
    table = compile_table((), (), (), 7, graphs=[deleting, cyclic, nowhere, broken, whole])
    assert [route.name for route in table.routes] == ["whole"]


def test_records_are_kept_for_bandits_and_who_asks() -> None:
    def kept(spec: dict[str, Any]) -> RecordLimits | None:
        [route] = compile_table((), (), (), 7, graphs=[served(spec)]).routes
        return route.plan.kept

    default = RecordLimits(uid="uid-g", max_bytes=256 << 20, max_seconds=86400.0)
    assert kept(routed({"mab": {"egreedy": 0.1}}, "b", "c")) == default
    assert kept(routed({"split": {}}, "b", "c")) is None
    assert kept(dag(node("a"), feedback=None)) == default
    own = RecordLimits(uid="uid-g", max_bytes=5, max_seconds=90.0)
    assert kept(routed({"mab": {"ucb1": {}}}, "b", "c") | {"feedback": {"maxBytes": 5, "maxAge": "1m30s"}}) == own


def test_records_are_kept_for_models_that_ask() -> None:
    with_it = inference_model("a", serving="1", feedback={})
    without = inference_model("b", serving="1")
    table = compile_table([model(current="1")], [with_it, without], [workload("a.1", "ready")], 7)
    kept = {route.name: route.plan.kept and route.plan.kept.uid for route in table.routes}
    assert kept == {"a": "uid-a", "b": None, "iris": "uid-a"}


def test_the_default_answer_of_a_graph() -> None:
    answer = [{"name": "y", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2]]}]
    [route] = compile_table((), (), (), 7, graphs=[served(dag(node("a"), defaultOutput=answer))]).routes
    [constant] = route.plan.default
    assert (constant.name, constant.data, constant.each_row) == ("y", [1, 2], True)


def test_graphs_that_call_each_other_in_a_cycle_are_named_in_order() -> None:
    found = find_nesting_faults({"c": ["a", "iris"], "a": ["b"], "b": ["c"], "outside": ["a"], "alone": ["iris"]})
    assert found == {
        "a": NestingFault("graphs call each other in a cycle: a -> b -> c -> a"),
        "b": NestingFault("graphs call each other in a cycle: b -> c -> a -> b"),
        "c": NestingFault("graphs call each other in a cycle: c -> a -> b -> c"),
    }
    assert find_nesting_faults({"a": ["a", "b"], "b": []}) == {"a": NestingFault("graph 'a' calls itself")}


def test_graphs_go_so_deep_and_no_deeper() -> None:
    chain = {f"g{place}": [f"g{place + 1}"] for place in range(MAX_DEPTH)}
    assert find_nesting_faults({**chain, f"g{MAX_DEPTH - 1}": ["a-model"]}) == {}
    found = find_nesting_faults({**chain, f"g{MAX_DEPTH}": []})
    way = " -> ".join(f"g{place}" for place in range(MAX_DEPTH + 1))
    said = f"graphs call each other {MAX_DEPTH + 1} levels deep; at most {MAX_DEPTH} are allowed: {way}"
    assert found == {"g0": NestingFault(said, too_deep=True)}


NAMES = st.sampled_from([f"g{number}" for number in range(7)])


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3)))
def test_exactly_those_that_reach_themselves_are_in_a_cycle(calling: dict[str, list[str]]) -> None:
    def reached(name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for on in calling[waiting.pop()]:
                if on in calling and on not in found:
                    found.add(on)
                    waiting.append(on)
        return found

    at_fault = {name for name, fault in find_nesting_faults(calling).items() if not fault.too_deep}
    assert at_fault == {name for name in calling if name in reached(name)}
