from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text import addresses
from mizzen.kinds.text.addresses import Address
from tests.unit.kinds.graphs import dag, examined, found, node, pods

BARE: dict[str, Any] = {"implementation": None}
"""Fields of a node that says nothing of what it runs."""


def test_an_empty_graph_is_refused() -> None:
    assert found({"dag": []}) == ["spec.dag: must have at least one node"]
    assert found({}) == ["spec.dag: required"]
    assert found({"dag": None}) == ["spec.dag: must be a list"]


def test_names_are_labels_and_unique() -> None:
    assert found(dag(node("a"), node("b"), node("a"))) == ["spec.dag[2].name: 'a' is already the name of another node"]
    (fault,) = examined(dag({"name": "modelA", "implementation": {"kfservice": "a"}})).faults
    assert fault.path == "spec.dag[0].name"
    assert "lower-case" in fault.message
    assert found(dag({"implementation": {"kfservice": "a"}})) == ["spec.dag[0].name: required"]


def test_dependencies_exist_and_are_named_once() -> None:
    spec = dag(node("first"), node("second", "frist", "second", "first", "first"), node("third", "zzz"))
    assert found(spec) == [
        "spec.dag[1].dependencies[0]: no node 'frist'; did you mean 'first'?",
        "spec.dag[1].dependencies[1]: node 'second' depends on itself",
        "spec.dag[1].dependencies[3]: 'first' is given twice",
        "spec.dag[2].dependencies[0]: no node 'zzz'; nodes are first, second",
    ]
    assert found(dag({**node("a"), "dependencies": None})) == []


def test_cycles_are_named_in_order() -> None:
    spec = dag(node("in"), node("a", "in", "c"), node("b", "a"), node("c", "b"), node("out", "c"), node("x", "y"),
               node("y", "x"))  # fmt: skip
    assert found(spec) == [
        "spec.dag: nodes depend on each other in a cycle: a -> b -> c -> a",
        "spec.dag: nodes depend on each other in a cycle: x -> y -> x",
    ]


@pytest.mark.parametrize(
    "implementation",
    [
        {"name": "box"}, {"kfservice": "iris"}, {"kfservice": "iris:v2"}, {"kfservice": "iris@stable"},
        {"svc": "scorer"}, {"svc": "scorer.ns.svc.cluster.local:8080/v2"},
        {"svc": "https://scorer/x", "protocol": "v1"},
        {"ref": {"kfservice": "iris"}}, {"ref": {"custom": "box"}}, {"ref": {"uri": "http://external.org/model"}},
        {"ref": {"custom": {"apiVersion": "serving.ml.org/v1", "kind": "MLServer", "name": "sklearnServer"}}},
        {"inline": {"kfspec": {"default": {"sklearn": {"modelUri": "gs://x"}}}}},
        {"inline": {"podspec": {"containers": [{"name": "c", "image": "i"}]}, "replicas": 0}},
        {"name": "box", "protocol": "seldon"},
    ],
)  # fmt: skip
def test_implementations(implementation: dict[str, Any]) -> None:
    assert found(dag(node("a", implementation=implementation), custom=pods("box"))) == []


AT = "spec.dag[0].implementation"


@pytest.mark.parametrize(
    ("implementation", "faults"),
    [
        ({}, [f"{AT}: one of name, kfservice, svc, ref, inline is required"]),
        ({"protocol": "v2"}, [f"{AT}: one of name, kfservice, svc, ref, inline is required"]),
        ({"kfservice": "a", "svc": "b"},
         [f"{AT}: only one of name, kfservice, svc, ref, inline may be set, not kfservice and svc"]),
        ({"kfservce": "a"}, [f"{AT}: unknown field 'kfservce'; did you mean 'kfservice'?"]),
        ({"kfservice": 5}, [f"{AT}.kfservice: must be a text; quote it: '5'"]),
        ({"kfservice": "a", "protocol": "v3"}, [f"{AT}.protocol: 'v3' is not a valid value; values are v2, v1, "
        f"seldon"]),
        ({"ref": {}}, [f"{AT}.ref: one of kfservice, custom, uri is required"]),
        ({"ref": {"kfservice": "a", "uri": "b"}},
         [f"{AT}.ref: only one of kfservice, custom, uri may be set, not kfservice and uri"]),
        ({"ref": {"custom": "bax"}}, [f"{AT}.ref.custom: no container 'bax' in spec.custom; containers are box"]),
        ({"inline": {"replicas": 1}}, [f"{AT}.inline: one of kfspec, podspec is required"]),
        ({"inline": {"kfspec": {}, "replicas": -1}}, [f"{AT}.inline.replicas: must be at least 0, not -1"]),
        ({"name": "boxx"}, [f"{AT}.name: no container 'boxx' in spec.custom; did you mean 'box'?"]),
    ],
)  # fmt: skip
def test_what_is_no_implementation(implementation: dict[str, Any], faults: list[str]) -> None:
    assert found(dag(node("a", implementation=implementation), custom=pods("box"))) == faults


@pytest.mark.parametrize("reference", ["", "Iris", "iris:", "iris@", "iris:latest", "a:b:c d", "iris@7"])
def test_what_is_no_reference(reference: str) -> None:
    (fault,) = examined(dag(node("a", implementation={"kfservice": reference}))).faults
    assert fault.path == f"{AT}.kfservice"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("scorer", Address("scorer")),
        ("scorer:8080", Address("scorer", 8080)),
        ("Scorer.ns.svc./v2/models/x", Address("scorer.ns.svc", 80, "/v2/models/x")),
        ("http://10.0.0.1:1", Address("10.0.0.1", 1)),
        ("https://scorer/", Address("scorer", 443, "/", "https")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert addresses.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/x",
        "ftp://a",
        "a:0",
        "a:65536",
        "a:b",
        "u:p@host",
        "http://",
        "a b",
        "a?x=1",
        "a#x",
        "-a",
        "a..b",
        "a\n",
        "a" * 64,
    ],
)
def test_what_is_no_address(text: str) -> None:
    (fault,) = examined(dag(node("a", implementation={"svc": text}))).faults
    assert fault.path == f"{AT}.svc"


def test_a_node_without_implementation_is_its_container_or_passes_through() -> None:
    assert found(dag({"name": "box"}, custom=pods("box"))) == []
    assert found(dag({"name": "a", "route": {"split": None}}, node("b", "a"))) == []
    assert found(dag(node("a"), {"name": "b", "dependencies": ["a"], "merge": {"ensemble": None}})) == []
    assert found(dag({"name": "lonely"}, custom=pods("box"))) == [
        "spec.dag[0]: node 'lonely' has nothing to run, and spec.custom has no container of that name; "
        "give it an implementation, a route or a merge"
    ]
    assert found(dag({"name": "clasifier"}, custom=pods("classifier"))) == [
        "spec.dag[0]: node 'clasifier' has nothing to run, and spec.custom has no container of that name; "
        "did you mean 'classifier'?"
    ]
    assert found(dag({"name": "a", "implementaton": {"kfservice": "x"}})) == [
        "spec.dag[0]: unknown field 'implementaton'; did you mean 'implementation'?"
    ]


def test_a_container_that_the_merge_calls_is_not_also_the_implementation() -> None:
    spec = MLGraphSpec.model_validate(
        dag({"name": "box"}, {"name": "m", "merge": {"implementation": {"name": "m"}}}, custom=pods("box", "m"))
    )
    assert [one.container({"box", "m"}) for one in spec.dag] == ["box", None]


def test_containers_have_one_name_each() -> None:
    spec = dag({"name": "x"}, custom=[*pods("x", "y"), *pods("z")], inline=[{"podspec": pods("y")[0]["spec"]}])
    assert found(spec) == ["spec.inline[0].podspec.containers[0].name: 'y' is already the name of another container"]
    assert found(dag({"name": "x"}, custom=pods("x", "x"))) == [
        "spec.custom[0].spec.containers[1].name: 'x' is already the name of another container"
    ]


def test_pods_of_both_names_count_alike_and_zero_replicas_are_zero() -> None:
    spec = dag({"name": "x"}, {"name": "y"}, custom=[{**pods("x")[0], "replicas": 0}],
               inline=[{"podspec": pods("y")[0]["spec"]}])  # fmt: skip
    assert found(spec) == []
    assert [pod.replicas for pod in MLGraphSpec.model_validate(spec).pods()] == [0, 1]
    assert found(dag({"name": "x"}, custom=[{**pods("x")[0], "replicas": -1}])) == [
        "spec.custom[0].replicas: must be at least 0, not -1"
    ]
    assert found(dag(node("a"), custom=None, inline=None)) == []


def test_images_are_warned_of_once_for_all_nodes_that_need_them() -> None:
    shared = dag(
        node("a", implementation={"name": "box"}),
        node("b", "a", implementation={"inline": {"podspec": {"containers": [{"name": "c", "image": "i"}]}}}),
        node("m", "a", "b", merge={"implementation": {"name": "box"}}),
        custom=[*pods("box", "sidecar"), *pods("plain", image=None)],
    )
    assert found(shared) == []
    assert found(shared, Context()) == [
        "spec.dag[1].implementation.inline.podspec.containers[0].image: this engine runs no container images; "
        "node 'b' stays not ready",
        "spec.custom[0].spec.containers[0].image: this engine runs no container images; "
        "nodes 'a', 'm' stay not ready",
        "spec.custom[0].spec.containers[1].image: this engine runs no container images; "
        "it is not started, and no node calls it",
    ]  # fmt: skip


def test_time_limits_and_errors() -> None:
    assert found(dag(node("a", timeoutMs=10, onError="skip", implementation={"kfservice": "x"}), timeoutMs=10)) == []
    assert found(dag(node("a", timeoutMs=11, implementation={"kfservice": "x"}), timeoutMs=10)) == [
        "spec.dag[0].timeoutMs: longer than the graph's 10, which takes precedence"
    ]
    assert found(
        dag(node("a", timeoutMs=0, onError="ignore", implementation={"kfservice": "x"}), timeoutMs=60_001)
    ) == [
        "spec.dag[0].timeoutMs: must be at least 1, not 0",
        "spec.dag[0].onError: 'ignore' is not a valid value; values are fail, skip",
        "spec.timeoutMs: must be at most 60000, not 60001",
    ]


def test_fields_of_the_graph() -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1]}
    full = dag(
        node("a"), inputs=[tensor], defaultOutput=[{**tensor, "data": [0.5]}], headers=["X-Tenant"], feedback=None
    )
    assert found(full) == []
    assert MLGraphSpec.model_validate(full).feedback is not None
    assert MLGraphSpec.model_validate(dag(node("a"))).feedback is None
    bad = dag(
        node("a"), inputs=[tensor, tensor], defaultOutput=[{**tensor, "data": []}], headers=["a b", "Content-Length"]
    )
    assert [fault.path for fault in examined(bad).faults] == [
        "spec.inputs[1].name", "spec.headers[0]", "spec.headers[1]", "spec.defaultOutput[0].data",
    ]  # fmt: skip


def test_all_faults_at_once() -> None:
    spec = dag(
        node("a", "b"), node("b", "a", implementation={}), node("c", "d", route={"split": {"traffic": {"x": 5}}}),
        timeoutMs="1", nonsense=1,
    )  # fmt: skip
    assert {fault.path for fault in examined(spec).faults} == {
        "spec", "spec.timeoutMs", "spec.dag", "spec.dag[1].implementation", "spec.dag[2].dependencies[0]",
        "spec.dag[2].route.split.traffic", "spec.dag[2].route.split.traffic.x",
    }  # fmt: skip


def test_status_survives_the_wire() -> None:
    wire = {"phase": "Pending", "url": "http://x", "nodes": [{"name": "a", "ready": False, "reason": "no kfb"}]}
    status = MLGraphStatus.of(Resource("MLGraph", Meta("g"), {}, wire))
    assert status.nodes[0].reason == "no kfb"
    assert MLGraphStatus.of(Resource("MLGraph", Meta("g"), {}, status.wire())) == status


def test_joins_without_a_merge_do_not_multiply_beyond_all_bounds() -> None:
    def diamonds(count: int, **more: Any) -> dict[str, Any]:
        nodes = [node("a0")]
        for at in range(count):
            nodes += [node(f"b{at}", f"a{at}"), node(f"c{at}", f"a{at}")]
            nodes.append({**node(f"a{at + 1}", f"b{at}", f"c{at}"), **more})
        return dag(*nodes)

    assert found(diamonds(9)) == []
    (fault,) = found(diamonds(30))
    assert fault.startswith("spec.dag[30]: node 'a10' runs once for each arrival, up to 1024 times for one request")
    assert found(diamonds(30, merge={"ensemble": {}})) == []
    wide = dag(
        *(node(f"in{at}") for at in range(300)),
        *(node(f"out{at}", *(f"in{on}" for on in range(300))) for at in range(40)),
    )
    (fault,) = found(wide)
    assert fault.startswith("spec.dag: nodes may run 12300 times for one request")
