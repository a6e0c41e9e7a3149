"""What is decided for a graph: its conditions, what answers, and what runs for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mizzen.controllers.graphs.callees import CalledObjects
from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.facts import GraphFacts, ProbeResult
from mizzen.controllers.graphs.metadata_propagation import ENDS_AFTER, PROPAGATED
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Resource, format_time
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.controller import Decision
from tests.support.controllers.graphs import (
    after,
    conditions,
    container,
    custom,
    decide,
    graph,
    reasons,
    running,
    status,
)
from tests.support.controllers.objects import NOW, inference_model, model, ready
from tests.support.golden import Golden
from tests.unit.kinds.graphs import dag, node

ONE = dag(node("c", implementation={"name": "c"}), custom=custom(container()))


def around(*resources: Resource) -> CalledObjects:
    servers: dict[str, tuple[Resource, ...]] = {}
    for one in resources:
        if one.kind == "InferenceModel":
            name = one.spec["modelName"]
            servers[name] = (*servers.get(name, ()), one)
    return CalledObjects({one.ref: one for one in resources}, servers)


def server(name: str, *, serving: str | None = "1", of: str = "iris", why: str = "") -> Resource:
    condition = ready("False", "Starting", message=why) if why else ready()
    return inference_model(name, serving=serving, model_name=of, ready=condition)


def calling(*names: str, **fields: Any) -> dict[str, Any]:
    return dag(*(node(f"n{place}", implementation={"kfservice": name}) for place, name in enumerate(names)), **fields)


def told(resource: Resource, **fields: Any) -> Resource:
    return replace(resource, status={**resource.status, **fields})


def test_the_first_spec_answers_at_once_and_says_what_is_missing() -> None:
    decision = decide(GraphFacts(graph(calling("kfa", "kfb")), called_objects=around(server("kfa"))))
    found = status(decision)
    assert (found.phase, found.url) == ("Pending", "http://x/v2/models/g")
    assert [(one.name, one.ready, one.reason) for one in found.nodes] == [
        ("n0", True, ""), ("n1", False, "nothing called 'kfb' is served here"),
    ]  # fmt: skip
    assert conditions(decision) == {
        "Accepted": ("True", "Accepted"), "NodesReady": ("False", "NodesNotReady"), "Ready": ("False", "NodesNotReady"),
    }  # fmt: skip
    [_, nodes, answers] = found.conditions
    assert nodes.message == answers.message == "node 'n1': nothing called 'kfb' is served here"
    assert found.serving is not None
    assert (found.serving.generation, found.serving.proven) == (1, False)
    assert decision.children == ()


def test_once_all_nodes_answer_the_graph_does() -> None:
    decision = decide(GraphFacts(graph(calling("kfa", "kfb")), called_objects=around(server("kfa"), server("kfb"))))
    found = status(decision)
    assert (found.phase, found.serving and found.serving.proven) == ("Running", True)
    assert conditions(decision) == {
        "Accepted": ("True", "Accepted"), "NodesReady": ("True", "AllReady"), "Ready": ("True", "Serving"),
    }  # fmt: skip
    assert decision.requeue_after is None


STARTING = server("s", serving=None, why="waiting for the first replica to become ready")
ALIASED = told(model("iris", current="1"), aliases={"best": "2"})
SECOND = told(model("flower"), aliasOf="iris")
FIXED = told(model("old-flower"), aliasOf="iris:1")
NESTED = told(
    graph(calling("x"), "s"),
    conditions=[ready("False", "NodesNotReady", message="node 'n0': no x").wire()],
    serving={"generation": 4, "spec": calling("x"), "proven": True},
)
ANSWERING = told(NESTED, conditions=[ready().wire()])


@pytest.mark.parametrize(
    ("called", "there", "reason"),
    [
        ("s", [], "nothing called 's' is served here"),
        ("s", [STARTING], "'s' is not ready: waiting for the first replica to become ready"),
        ("s", [server("s", why="it crashed")], "'s' is not ready: it crashed"),
        ("s", [told(server("s", why="the next one starts"), readyReplicas=1)], ""),
        ("s", [server("s")], ""),
        ("s:1", [server("s")], ""),
        ("s:2", [server("s")], "'s' serves version 1, not s:2"),
        ("s@best", [server("s")], "'s' serves version 1, not s@best"),
        ("s", [replace(server("s"), meta=replace(server("s").meta, deleted=NOW))], "nothing called 's' is served here"),
        ("iris", [model("iris"), server("a")], "nothing called 'iris' is served here"),
        ("iris", [model("iris", current="1")], "version 1 of 'iris' is not served"),
        ("iris", [model("iris", current="1"), server("a"), server("b", why="down")], ""),
        ("iris", [model("iris", current="1"), server("b", why="down")], "'b' is not ready: down"),
        ("iris:2", [model("iris", current="1"), server("a")], "version 2 of 'iris' is not served"),
        ("iris:2", [model("iris", current="1"), server("a", serving="2")], ""),
        ("iris@best", [ALIASED, server("a", serving="2")], ""),
        ("iris@worst", [ALIASED, server("a", serving="2")], "'iris' has no alias 'worst'"),
        ("iris@best", [ALIASED, server("iris"), server("a", serving="2")], ""),
        ("flower", [SECOND, ALIASED, server("a")], ""),
        ("flower@best", [SECOND, ALIASED, server("a")], "version 2 of 'iris' is not served"),
        ("flower", [SECOND], "nothing called 'flower' is served here"),
        ("old-flower", [FIXED, ALIASED, server("a")], ""),
        (
            "old-flower:2",
            [FIXED, ALIASED, server("a")],
            "'old-flower' is a second name of 'iris:1', so 'old-flower:2' does not exist",
        ),
        ("s", [NESTED], "'s' is not ready: node 'n0': no x"),
        ("s", [ANSWERING], ""),
        ("s:4", [ANSWERING], ""),
        ("s:3", [ANSWERING], "graph 's' serves generation 4, not 3"),
        ("s@best", [ANSWERING], "graph 's' has no alias 'best'; graphs cannot have aliases"),
        ("s", [graph(calling("x"), "s")], "'s' is not ready: its status is not known yet"),
    ],
)
def test_what_is_called_by_name(called: str, there: list[Resource], reason: str) -> None:
    assert reasons(decide(GraphFacts(graph(calling(called)), called_objects=around(*there)))) == {"n0": reason}


def test_a_node_that_may_be_skipped_is_not_waited_for() -> None:
    spec = dag(node("a", implementation={"kfservice": "kfa"}), node("b", onError="skip"))
    decision = decide(GraphFacts(graph(spec), called_objects=around(server("kfa"))))
    assert status(decision).phase == "Running"
    assert not status(decision).nodes[1].ready
    nodes = status(decision).condition("NodesReady")
    assert nodes is not None
    assert "only optional nodes are not ready: node 'b': nothing called 'b'" in nodes.message


def test_many_nodes_are_not_all_named_in_a_message() -> None:
    found = status(decide(GraphFacts(graph(calling(*(f"m{number}" for number in range(9)))))))
    [_, nodes, _] = found.conditions
    assert nodes.message.endswith("; node 'n4': nothing called 'm4' is served here; and 4 more")
    assert len(found.nodes) == 9


def test_a_later_spec_waits_for_its_nodes_and_the_one_before_goes_on(golden: Golden) -> None:
    old, new = calling("kfa"), calling("kfb")
    known = around(server("kfa"))
    first = graph(old)
    second = after(first, decide(GraphFacts(first, called_objects=known)), spec=new)
    decision = decide(GraphFacts(second, called_objects=known))
    found = status(decision)
    assert found.serving is not None
    assert (found.serving.generation, found.serving.spec, found.phase) == (1, old, "Running")
    assert conditions(decision)["NodesReady"] == ("False", "NodesNotReady")
    answers = found.condition("Ready")
    assert answers is not None
    golden.check(answers.message)
    assert reasons(decision) == {"n0": "nothing called 'kfb' is served here"}
    decision = decide(GraphFacts(after(second, decision), called_objects=around(server("kfa"), server("kfb"))))
    found = status(decision)
    assert found.serving is not None
    assert (found.serving.generation, found.serving.spec) == (2, new)
    assert [note.message for note in decision.notes] == ["switched from generation 1 to generation 2"]


def test_what_was_never_ready_is_replaced_at_once() -> None:
    first = graph(calling("kfa"))
    second = after(first, decide(GraphFacts(first)), spec=calling("kfb"))
    found = status(decide(GraphFacts(second)))
    assert found.serving is not None
    assert (found.serving.generation, found.serving.proven) == (2, False)


def test_what_cannot_be_accepted_changes_nothing() -> None:
    known = around(server("kfa"))
    first = graph(calling("kfa"))
    broken = after(first, decide(GraphFacts(first, called_objects=known)), spec={"dag": []})
    decision = decide(GraphFacts(broken, called_objects=known))
    found = status(decision)
    assert conditions(decision) == {
        "Accepted": ("False", "InvalidSpec"), "NodesReady": ("False", "InvalidSpec"), "Ready": ("True", "Serving"),
    }  # fmt: skip
    assert (found.phase, found.url, reasons(decision)) == ("Running", "http://x/v2/models/g", {"n0": ""})
    assert found.serving is not None
    assert found.serving.spec == first.spec


def test_what_never_was_accepted_has_failed_and_answers_nothing() -> None:
    decision = decide(GraphFacts(graph({"dag": []})))
    found = status(decision)
    assert (found.phase, found.url, found.serving, found.nodes) == ("Failed", None, None, ())
    assert conditions(decision)["Ready"] == ("False", "InvalidSpec")


def test_nulls_are_kept_in_what_answers() -> None:
    spec = dag(node("a", route={"split": None}), node("b", "a"))
    found = status(decide(GraphFacts(graph(spec))))
    assert found.serving is not None
    assert found.serving.spec == spec


def test_graphs_that_call_each_other_are_not_accepted(golden: Golden) -> None:
    first, second = graph(calling("b"), "a"), graph(calling("a"), "b")
    decision = decide(GraphFacts(first, called_objects=around(second)))
    assert conditions(decision)["Accepted"] == ("False", "GraphCycle")
    golden.check(status(decision).conditions[0].message)
    assert status(decision).phase == "Failed"
    assert conditions(decide(GraphFacts(graph(calling("g")))))["Accepted"] == ("False", "GraphCycle")


def test_a_cycle_counts_also_by_what_still_answers() -> None:
    """The other one does not call back any more, by its newest spec; but by that which answers it does."""
    serving = {"generation": 1, "spec": calling("a"), "proven": True}
    leaving = told(graph(calling("x"), "b", generation=2), serving=serving)
    first = graph(calling("b"), "a")
    assert conditions(decide(GraphFacts(first, called_objects=around(leaving))))["Accepted"] == ("False", "GraphCycle")
    assert conditions(decide(GraphFacts(leaving, called_objects=around(first))))["Accepted"] == ("True", "Accepted")


def test_graphs_may_go_so_deep() -> None:
    chain = [graph(calling(f"g{place + 1}"), f"g{place}") for place in range(1, 9)]
    decision = decide(GraphFacts(graph(calling("g2"), "g1"), called_objects=around(*chain[1:])))
    assert conditions(decision)["Accepted"] == ("True", "Accepted")
    decision = decide(GraphFacts(graph(calling("g1"), "g0"), called_objects=around(*chain)))
    assert conditions(decision)["Accepted"] == ("False", "TooDeep")


def test_a_container_is_a_workload_that_answers(golden: Golden) -> None:
    environment = [
        {"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "EMPTY"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]  # fmt: skip
    full = container(
        args=["--port", "$(PORT)"], env=environment, workingDir="/srv", image="x:1",
        resources={"limits": {"memory": "1Gi", "cpu": "odd"}},
    )  # fmt: skip
    called = {"name": "c", "protocol": "seldon"}
    spec = dag(node("a"), node("b", implementation=called), custom=custom(full, container("unused"), replicas=2))
    decision = decide(GraphFacts(graph(spec, labels={"team": "x"})))
    [workload] = decision.children
    assert (workload.kind, workload.meta.name) == ("Workload", "g.c")
    assert workload.spec == {
        "purpose": "answer", "command": ["serve", "--port", "$(PORT)"], "model": "c", "replicas": 2,
        "restart": "Always", "env": {"A": "2", "EMPTY": ""}, "secretEnv": {"KEY": {"name": "s", "key": "k"}},
        "resources": {"memory": "1Gi"}, "protocol": "seldon", "workingDir": "/srv",
    }  # fmt: skip
    assert workload.meta.labels == {MODEL_LABEL: "g", "team": "x"}
    assert catalog.of(workload).examine(workload.meta.name, workload.spec).faults == ()
    accepted = status(decision).condition("Accepted")
    assert accepted is not None
    assert "container 'c': variable 'POD' is not set: this engine only supports values from secrets" in accepted.message
    assert status(decision).serving is not None
    golden.check(reasons(decision)["b"])


def test_names_of_workloads_are_names_whatever_the_container_is_called() -> None:
    long = "c" * 63
    pod = {"containers": [container(long)]}
    spec = dag(node(long), node("b", implementation={"inline": {"podspec": pod}}), custom=custom(container(long)))
    del spec["dag"][0]["implementation"]
    decision = decide(GraphFacts(graph(spec, "g" * 63)))
    one, other = decision.children
    assert one.meta.name != other.meta.name == f"{'g' * 63}.b.implementation"
    for child in decision.children:
        assert catalog.of(child).examine(f"{child.meta.name}-01234567", child.spec).faults == ()


@pytest.mark.parametrize(
    ("one", "replicas", "reason"),
    [
        ({"name": "c", "image": "x:1"}, 1, "container 'c' has an image, and this engine runs no containers"),
        (container(), 0, "replicas of container 'c' is 0"),
    ],
)
def test_a_container_that_cannot_answer_says_why(one: dict[str, Any], replicas: int, reason: str) -> None:
    decision = decide(GraphFacts(graph(dag({"name": "c"}, custom=custom(one, replicas=replicas)))))
    assert reasons(decision) == {"c": reason}
    assert [child.spec["replicas"] for child in decision.children] == ([] if "image" in one else [0])


def test_a_container_that_starts_or_fails_says_why() -> None:
    [wanted] = decide(GraphFacts(graph(ONE))).children
    starting = decide(GraphFacts(graph(ONE), (running(wanted, "starting", message="it listens nowhere"),)))
    assert reasons(starting) == {"c": "container 'c' is not ready: it listens nowhere"}
    silent = decide(GraphFacts(graph(ONE), (running(wanted, "starting"),)))
    assert reasons(silent) == {"c": "container 'c' is not ready: it was started, but is not ready yet"}
    well = decide(GraphFacts(graph(ONE), (running(wanted, "ready"),)))
    assert (status(well).phase, reasons(well)) == ("Running", {"c": ""})


def changed(command: str, *, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return dag({"name": "c"}, custom=custom(container(command=[command]), replicas=replicas), **fields)


def served(spec: dict[str, Any]) -> tuple[Resource, Resource]:
    """A graph that answers, and its one Workload."""
    resource = graph(spec)
    [wanted] = decide(GraphFacts(resource)).children
    workload = running(wanted, *["ready"] * wanted.spec["replicas"])
    return after(resource, decide(GraphFacts(resource, (workload,)))), workload


def test_another_command_is_another_workload_beside_the_one_that_serves() -> None:
    resource, old = served(changed("one", timeoutMs=2000))
    second = replace(resource, spec=changed("two", replicas=2), meta=replace(resource.meta, generation=2))
    decision = decide(GraphFacts(second, (old,)))
    new, kept = decision.children
    assert (kept.meta.name, kept.spec) == ("g.c", old.spec)
    assert new.meta.name.startswith("g.c-")
    serving = status(decision).serving
    assert serving is not None
    assert (serving.generation, serving.workloads) == (1, {"c": "g.c"})
    # One of two replicas could not bear the load.
    half = decide(GraphFacts(after(second, decision), (old, running(new, "ready", "starting"))))
    assert len(half.children) == 2
    assert status(half).nodes[0].ready
    both = (old, running(new, "ready", "ready"))
    decision = decide(GraphFacts(after(second, half), both))
    serving = status(decision).serving
    assert serving is not None
    assert (serving.generation, serving.workloads) == (2, {"c": new.meta.name})
    # Requests that began with the old one end with it, however long that takes; then it goes.
    [_, ending] = decision.children
    assert ending.meta.annotations[ENDS_AFTER] == format_time(NOW + timedelta(seconds=2))
    assert decision.requeue_after == 0.05, "gateways are being told"
    third, marked = after(second, decision), replace(ending, status=old.status)

    def later(seconds: float, *left: str) -> Decision:
        facts = GraphFacts(third, (marked, both[1]), left=frozenset(left))
        return Graphs("http://x", Context()).decide(facts, NOW + timedelta(seconds=seconds))

    assert len(later(1.5, "g.c").children) == 2
    assert later(1.5, "g.c").requeue_after == 0.5
    assert len(later(3).children) == 2, "some gateway may still send to it"
    assert later(3).requeue_after == 0.05
    assert [child.meta.name for child in later(3, "g.c").children] == [new.meta.name]


def test_a_workload_that_is_wanted_again_does_not_end() -> None:
    resource, old = served(changed("one"))
    marked = replace(old, meta=replace(old.meta, annotations={ENDS_AFTER: format_time(NOW)}))
    [child] = decide(GraphFacts(resource, (marked,))).children
    assert child.meta.annotations == {}


def test_more_replicas_are_no_other_workload() -> None:
    resource, old = served(changed("one"))
    second = replace(resource, spec=changed("one", replicas=3), meta=replace(resource.meta, generation=2))
    [child] = decide(GraphFacts(second, (old,))).children
    assert (child.meta.name, child.spec["replicas"]) == ("g.c", 3)


def test_replicas_that_are_wanted_no_more_are_not_waited_for() -> None:
    resource, old = served(changed("one"))
    second = replace(resource, spec=changed("one", replicas=0), meta=replace(resource.meta, generation=2))
    decision = decide(GraphFacts(second, (old,)))
    serving = status(decision).serving
    assert serving is not None
    assert (serving.generation, serving.proven, status(decision).phase) == (2, True, "Pending")
    assert [child.spec["replicas"] for child in decision.children] == [0]


def test_a_workload_that_somebody_deleted_is_made_anew() -> None:
    resource, old = served(changed("one"))
    [child] = decide(GraphFacts(resource)).children
    assert (child.meta.name, child.spec) == ("g.c", old.spec)
    broken = replace(resource, spec={"dag": []}, meta=replace(resource.meta, generation=2))
    [child] = decide(GraphFacts(broken)).children
    assert (child.meta.name, child.spec) == ("g.c", old.spec)
    going = replace(old, meta=replace(old.meta, deleted=NOW))
    [child] = decide(GraphFacts(resource, (going,))).children
    assert child.meta.name.startswith("g.c-"), "its name is taken until it is gone"


def test_labels_and_annotations_are_passed_on_and_taken_back() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mizzen.dev/actor": "ann", "note": "n"}
    resource, _ = served(ONE)
    given = {"team": "a", "tier": "1", "mizzen.dev/model": "not this"}
    labelled = replace(resource, meta=replace(resource.meta, labels=given, annotations=applied))
    [child] = decide(GraphFacts(labelled)).children
    assert child.meta.labels == {MODEL_LABEL: "g", "team": "a", "tier": "1"}
    assert {key: value for key, value in child.meta.annotations.items() if key != PROPAGATED} == {"note": "n"}
    # Somebody else labels it, and the graph changes one, adds one and drops two.
    there = replace(child, meta=replace(child.meta, labels={**child.meta.labels, "theirs": "x", "team": "odd"}))
    moved = replace(resource, meta=replace(resource.meta, labels={"team": "b", "new": "y", "theirs": "mine"}))
    [child] = decide(GraphFacts(moved, (there,))).children
    assert child.meta.labels == {MODEL_LABEL: "g", "team": "b", "new": "y", "theirs": "x"}
    assert set(child.meta.annotations) == {PROPAGATED}
    assert child.spec == there.spec
    [bare] = decide(GraphFacts(resource, (child,))).children
    assert (bare.meta.labels, bare.meta.annotations) == ({MODEL_LABEL: "g", "theirs": "x"}, {})
    unread = replace(there, meta=replace(there.meta, annotations={PROPAGATED: "{"}))
    [child] = decide(GraphFacts(resource, (unread,))).children
    assert child.meta.labels == there.meta.labels, "nobody knows whose they are"


def test_services_are_ready_once_they_answered() -> None:
    spec = dag(node("a", implementation={"svc": "scorer:1"}))
    silent = decide(GraphFacts(graph(spec)))
    assert reasons(silent) == {"a": "service 'scorer:1' has not responded yet"}
    refused = decide(GraphFacts(graph(spec), probes={"scorer:1": ProbeResult(why="Connection refused")}))
    assert reasons(refused) == {"a": "service 'scorer:1' does not respond: Connection refused"}
    found = status(decide(GraphFacts(graph(spec), probes={"scorer:1": ProbeResult("seldon")})))
    assert (found.phase, found.nodes[0].protocol) == ("Running", "seldon")
    assert found.serving is not None
    assert found.serving.protocols == {"scorer:1": "seldon"}


def test_ready_is_said_once_gateways_know() -> None:
    resource = graph(calling("kfa"))
    known = around(server("kfa"))
    decision = decide(GraphFacts(resource, called_objects=known, reached=False))
    assert conditions(decision)["Ready"] == ("False", "Routing")
    assert (status(decision).phase, decision.requeue_after) == ("Pending", 0.05)
    decision = decide(GraphFacts(after(resource, decision), called_objects=known))
    assert conditions(decision)["Ready"] == ("True", "Serving")
    # As at a start of the plane, when nobody knows yet what gateways know.
    decision = decide(GraphFacts(after(resource, decision), called_objects=known, reached=False))
    assert conditions(decision)["Ready"] == ("True", "Serving")


def test_ready_speaks_of_the_generation_that_answers() -> None:
    def seen(decision: Decision) -> tuple[str, str, int]:
        said = status(decision).condition("Ready")
        assert said is not None
        return said.status, said.reason, said.observed_generation

    first = graph(calling("kfa"))
    decision = decide(GraphFacts(first, called_objects=around(server("kfa"))))
    assert seen(decision) == ("True", "Serving", 1)
    second = replace(after(first, decision), spec=calling("kfa", "kfb"), meta=replace(first.meta, generation=2))
    waiting = decide(GraphFacts(second, called_objects=around(server("kfa"))))
    assert seen(waiting) == ("True", "Serving", 1)
    both = around(server("kfa"), server("kfb"))
    switched = decide(GraphFacts(after(second, waiting), called_objects=both))
    assert seen(switched) == ("True", "Routing", 1), "what gateways know is the one before"
    unheard = decide(GraphFacts(after(second, switched), called_objects=both, reached=False))
    assert seen(unheard) == ("True", "Routing", 1)
    heard = decide(GraphFacts(after(second, switched), called_objects=both))
    assert seen(heard) == ("True", "Serving", 2)


def test_a_shadow_need_not_be_ready(golden: Golden) -> None:
    spec = dag(
        node("a", route={"split": {"traffic": {"b": 100}, "shadow": ["s"]}}),
        node("b", "a", implementation={"kfservice": "kfb"}),
        node("s", "a", implementation={"kfservice": "nobody"}),
    )
    decision = decide(GraphFacts(graph(spec), called_objects=around(server("kfb"))))
    golden.check(reasons(decision)["s"])
    assert conditions(decision)["Ready"] == ("True", "Serving")


def test_what_is_not_run_by_this_release_is_told() -> None:
    route = {"cascade": {"edge": "b", "cloud": "c", "hardExample": {"name": "Random"}}}
    spec = dag(node("a", route=route), node("b", "a"), node("c", "a"))
    decision = decide(GraphFacts(graph(spec), called_objects=around(server("b"), server("c"))))
    assert reasons(decision) == {"a": "route.cascade is not run by this release", "b": "", "c": ""}


def test_a_graph_that_is_being_deleted_is_left_alone() -> None:
    assert decide(GraphFacts(graph(ONE, deleting=True))) == Decision()


def test_decisions_come_to_rest() -> None:
    resource, workload = served(ONE)
    decision = decide(GraphFacts(resource, (workload,)))
    told_before = {**resource.status, "conditions": [one.wire() for one in status(decision).conditions]}
    assert status(decision).wire() == told_before
    [child] = decision.children
    assert (child.spec, child.meta.labels, child.meta.annotations) == (
        workload.spec, workload.meta.labels, workload.meta.annotations,
    )  # fmt: skip


def test_a_condition_says_so_in_a_persons_words() -> None:
    for one in status(decide(GraphFacts(graph(calling("x"))))).conditions:
        assert isinstance(one, Condition)
        assert one.true or one.message
