"""POST .../explain: what a graph does with one request, by whole gateways and real models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mizzen.access.policy import Binding
from mizzen.gateway.graphs import explain
from mizzen.graph import table_types
from mizzen.protocol.tensors import Array
from mizzen.runtime.signature import TensorSpec
from tests.support.gateway.guarded import bound, permit, token
from tests.support.gateway.harness import Gateway, Response, body_of, publish, until
from tests.support.gateway.models import Counting, ModelRuntime
from tests.support.golden import Golden

UID = "11111111-2222-3333-4444-555555555555"
Y = TensorSpec("y", "FP64", (-1,))


class Doubling(Counting):
    """Twice what it gets; a negative number is too much for it."""

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        if (inputs["y"] < 0).any():
            raise ArithmeticError("it is negative")
        return {"double": inputs["y"] * 2}


class Many(Counting):
    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        return {"sum": np.full((1, 20_000), inputs["x"].sum())}


def node(name: str, *dependencies: int, **more: Any) -> table_types.Node:
    return table_types.Node(name=name, dependencies=dependencies, **more)


def called(name: str) -> dict[str, table_types.Callee]:
    return {"call": table_types.Callee(name=name)}


SPLIT = table_types.Routing(kind="split", children=(2, 3), weights=(0.0, 100.0))
MAB = table_types.Routing(kind="mab", children=(1, 2), policy=table_types.Policy(name="egreedy", epsilon=0.0))
GRAPHS = {
    "chain": (node("first", children=(1,), **called("adds")), node("then", 0, **called("doubles"))),
    "split": (
        node("first", children=(1,), **called("adds")),
        node("by-chance", 0, children=(2, 3), route=SPLIT),
        node("left", 1, **called("doubles")),
        node("right", 1, **called("doubles")),
    ),
    "bandit": (
        node("pick", children=(1, 2), route=MAB),
        node("one", 0, **called("adds")),
        node("two", 0, **called("adds")),
    ),
    "large": (node("whole", **called("many")),),
}


def table(addresses: dict[str, str]) -> table_types.Table:
    servers = tuple(
        table_types.Server(id=f"default/{name}", model=name, version="7", addresses=(address,))
        for name, address in addresses.items()
    )
    kept = table_types.RecordLimits(uid=UID, max_bytes=1 << 20, max_seconds=3600.0)
    plans = {name: ("7", table_types.Plan(servers=(f"default/{name}",))) for name in addresses}
    for name, nodes in GRAPHS.items():
        graph = table_types.CompiledGraph(uid=UID if name == "bandit" else name, generation=3, nodes=nodes)
        plans[name] = "3", table_types.Plan(graph=graph, kept=kept if name == "bandit" else None)
    routes = tuple(
        table_types.Route(namespace="default", name=name, version=version, plan=each, versions={version: each})
        for name, (version, each) in plans.items()
    )
    return table_types.Table(serial=1, servers=servers, routes=routes)


@pytest.fixture
def addresses(folder: Path) -> Iterator[dict[str, str]]:
    models = {"adds": Counting(), "doubles": Doubling(inputs=(Y,), outputs=()), "many": Many(outputs=())}
    with ExitStack() as stack:
        runtimes = {name: ModelRuntime(str(folder / f"{name}.sock"), model) for name, model in models.items()}
        for runtime in runtimes.values():
            stack.callback(runtime.close)
        yield {name: runtime.address for name, runtime in runtimes.items()}


@pytest.fixture
def served(addresses: dict[str, str], start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    publish(folder / "table.json", table(addresses))
    gateway = start_gateway()
    for name in GRAPHS:
        gateway.wait_ready(name)
    return gateway


def explained(gateway: Gateway, name: str, row: list[float], path: str = "", **more: Any) -> Response:
    return gateway.ask("POST", f"/v2/models/{name}{path}/explain", body_of(row, **more))


def test_each_call_is_told_with_its_time_and_what_it_gave(served: Gateway) -> None:
    answer = explained(served, "chain", [1.0, 2.0], id="mine")
    assert answer.status == 200
    assert answer.headers["mizzen-request-id"] == "mine"
    told = answer.json
    assert told["answer"] == {
        "model_name": "chain", "model_version": "3", "id": "mine", "parameters": {"nodes": "first,then"},
        "outputs": [{"name": "double", "datatype": "FP64", "shape": [1], "data": [6.0]}],
    }  # fmt: skip
    assert told["parameters"] == {"nodes": "first,then"}
    assert (told["taken"], told["routing"]) == (["first", "then"], [])
    first, then = told["nodes"]
    assert {key: first[key] for key in ("node", "phase", "code")} == {
        "node": "first", "phase": "implementation", "code": 200,
    }  # fmt: skip
    assert first["outputs"] == [{"name": "sum", "datatype": "FP64", "shape": [1], "data": [3.0]}]
    assert then["outputs"] == told["answer"]["outputs"]
    assert 0 <= first["began_ms"] <= first["began_ms"] + first["took_ms"] <= then["began_ms"] + 0.002
    assert then["began_ms"] + then["took_ms"] <= told["took_ms"] + 0.002


def test_it_answers_what_infer_does(served: Gateway) -> None:
    for name in ("chain", "split", "bandit"):
        asked = served.infer([1.0, 2.0], name).json
        told = explained(served, name, [1.0, 2.0]).json["answer"]
        assert told["outputs"] == asked["outputs"]
        assert asked["parameters"].keys() == told["parameters"].keys()


def test_choices_are_told(served: Gateway) -> None:
    told = explained(served, "split", [1.0, 2.0], "/versions/3").json
    assert told["taken"] == ["first", "by-chance", "right"]
    assert told["routing"] == [{"node": "by-chance", "chosen": ["right"]}]
    assert [each["node"] for each in told["nodes"]] == ["first", "right"]
    picked = explained(served, "bandit", [1.0, 2.0]).json
    [choice] = picked["routing"]
    assert (choice["node"], choice["probability"]) == ("pick", 1.0)
    assert picked["parameters"]["routing"] == f"pick={choice['chosen'][0]}"


def test_one_sees_how_far_a_failing_request_came(served: Gateway) -> None:
    answer = explained(served, "chain", [1.0, -2.0])
    told = answer.json
    assert answer.status == 200
    assert told.keys() == {"error", "code", "took_ms", "nodes", "taken", "routing"}
    assert told["code"] == 502
    assert told["error"].startswith("node 'then': ")
    assert "it is negative" in told["error"]
    first, then = told["nodes"]
    assert (first["code"], first["outputs"][0]["data"]) == (200, [-1.0])
    assert then["code"] == 500
    assert "it is negative" in then["error"]
    assert "outputs" not in then


def test_what_does_not_fit_the_first_model_is_told_as_well(served: Gateway) -> None:
    told = explained(served, "chain", [1.0, 2.0, 3.0]).json
    assert (told["code"], told["nodes"]) == (400, [])


def test_what_cannot_be_read_is_refused(served: Gateway) -> None:
    answer = served.ask("POST", "/v2/models/chain/explain", b'{"inputs": []}')
    assert answer.status == 400
    assert "inputs" in answer.error
    assert served.ask("GET", "/v2/models/chain/explain").status == 405
    assert served.ask("POST", "/v2/models/nobody/explain", body_of([1.0])).status == 404


def test_a_model_is_no_graph(served: Gateway, golden: Golden) -> None:
    answer = explained(served, "adds", [1.0, 2.0])
    assert answer.status == 409
    golden.check(answer.error)


def test_outputs_are_json_whatever_is_asked_for(served: Gateway) -> None:
    told = explained(served, "chain", [1.0, 2.0], parameters={"binary_data_output": True}).json
    assert told["answer"]["outputs"][0]["data"] == [6.0]


def test_much_is_only_named(served: Gateway) -> None:
    told = explained(served, "large", [1.0, 2.0]).json
    assert told["nodes"][0]["outputs"] == [
        {"name": "sum", "datatype": "FP64", "shape": [1, 20_000], "parameters": {"left_out_bytes": 160_000}}
    ]
    assert len(told["answer"]["outputs"][0]["data"]) == 20_000
    assert explain.MAX_SHOWN_BYTES < 160_000


def test_it_counts_as_a_request_and_can_be_judged(served: Gateway) -> None:
    told = explained(served, "bandit", [1.0, 2.0]).json
    body = json.dumps({"id": told["answer"]["id"], "reward": 1}).encode()
    assert served.ask("POST", "/v2/models/bandit/feedback", body).json["counted"] is True

    def counted() -> bool:
        lines = served.ask("GET", "/metrics").body.decode().splitlines()
        asked = [line for line in lines if line.startswith("mizzen_requests_total") and 'model="bandit"' in line]
        return bool(asked) and float(asked[0].rpartition(" ")[2]) == 1

    until(counted)
    assert served.figure("mizzen_graph_routed_total") == 1
    assert served.figure("mizzen_graph_node_messages_total") == 2


def test_one_must_be_allowed_to_call_and_to_read(
    addresses: dict[str, str], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish(folder / "table.json", table(addresses))
    bindings: tuple[Binding, ...] = (
        bound("ann", "predict", "chain"), bound("eve", "read", "chain"),
        bound("bob", "predict", "chain"), bound("bob", "read", "chain"),
    )  # fmt: skip
    permit(folder, (token("ann"), token("bob"), token("eve")), bindings)
    gateway = start_gateway(anonymous=False)

    def asked(who: str, verb: str = "explain") -> int:
        headers = {"Authorization": f"Bearer {who}-token"} if who else {}
        return gateway.ask("POST", f"/v2/models/chain/{verb}", body_of([1.0, 2.0]), **headers).status

    until(lambda: asked("ann", "infer") == 200)
    assert [asked(who) for who in ("ann", "eve", "bob", "")] == [403, 403, 200, 401]
