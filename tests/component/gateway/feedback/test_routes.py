"""Feedback to whole gateways: what one has answered, any of them may be told of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mizzen.graph import table_types
from mizzen.selection import state_db
from tests.support.gateway.harness import Gateway, Response, Runtime, listening, publish, until

UID = "11111111-2222-3333-4444-555555555555"


def table(address: str) -> table_types.Table:
    """The graph `g`: a bandit before `one` and `two`, which both are the same runtime; and `one` keeps records, too."""
    servers = tuple(
        table_types.Server(id=f"default/{name}", model=name, version="1", addresses=(address,)) for name in MODELS
    )
    mab = table_types.Routing(kind="mab", children=(1, 2), policy=table_types.Policy(name="egreedy", epsilon=0.5))
    nodes = (
        table_types.Node(name="choose", children=(1, 2), route=mab),
        *(
            table_types.Node(name=f"arm-{name}", dependencies=(0,), call=table_types.Callee(name=name))
            for name in MODELS
        ),
    )
    graph = table_types.Plan(graph=table_types.CompiledGraph(uid=UID, generation=1, nodes=nodes), kept=kept(UID))
    plans = {name: table_types.Plan(servers=(f"default/{name}",), kept=kept(name)) for name in MODELS} | {"g": graph}
    routes = tuple(
        table_types.Route(namespace="default", name=name, version="1", plan=each, versions={"1": each})
        for name, each in plans.items()
    )
    return table_types.Table(serial=1, servers=servers, routes=routes)


MODELS = ("one", "two")


def kept(uid: str) -> table_types.RecordLimits:
    return table_types.RecordLimits(uid=uid, max_bytes=1 << 20, max_seconds=3600.0)


@pytest.fixture
def gateways(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Iterator[list[Gateway]]:
    publish(folder / "table.json", table(runtime.address))
    with listening() as first, listening() as second:
        both = [start_gateway(listener=at, name=f"gateway-{n}") for n, at in enumerate((first, second))]
        for gateway in both:
            gateway.wait_ready("g")
        yield both


def judge(gateway: Gateway, name: str, **body: Any) -> Response:
    return gateway.ask("POST", f"/v2/models/{name}/feedback", json.dumps(body).encode())


@pytest.mark.parametrize("name", ["g", "one"])
def test_what_one_gateway_answered_another_is_told_of(gateways: list[Gateway], name: str) -> None:
    first, second = gateways
    answer = first.infer([1.0, 2.0], name)
    id_ = answer.headers["mizzen-request-id"]
    assert answer.json["id"] == id_
    told = judge(second, name, id=id_, truth=[2.5])
    assert (told.status, told.json) == (200, {"id": id_, "reward": 0.5, "counted": True})
    assert judge(first, name, id=id_, truth=[2.5]).json["counted"] is False
    assert judge(first, name, id=id_, reward=0.1).status == 409
    until(lambda: first.figure("mizzen_feedback_total") == second.figure("mizzen_feedback_total") == 1)
    assert judge(second, "two", id=id_, reward=1).status == 404, "it is not its own"


def test_the_arm_that_answered_is_credited(gateways: list[Gateway], folder: Path) -> None:
    given = {"arm-one": 0, "arm-two": 0}
    for number in range(10):
        answer = gateways[number % 2].infer([float(number)], "g")
        routing = answer.json["parameters"]["routing"]
        arm = routing.removeprefix("choose=")
        given[arm] += 1
        told = judge(gateways[0], "g", id=answer.json["id"], reward=0.5, routing=routing)
        assert told.status == 200, told
    connection = state_db.open_db(folder / "state.db")
    state = state_db.read_state(connection, UID, "choose", "")
    connection.close()
    assert state is not None
    assert {name: arm.count for name, arm in state.arms.items()} == given


def test_an_id_of_the_clients_own_is_found_by_all(gateways: list[Gateway]) -> None:
    body = {"id": "z\u00fc 1", "inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [1.0]}]}
    assert gateways[0].ask("POST", "/v2/models/g/infer", json.dumps(body).encode()).status == 200
    assert judge(gateways[1], "g", id="z\u00fc 1", reward=1).json["counted"] is True
    assert judge(gateways[0], "g", id="z%C3%BC%201", reward=1).json["counted"] is False


def test_answers_of_v1_can_be_judged(gateways: list[Gateway]) -> None:
    answer = gateways[0].ask("POST", "/v1/models/one:predict", b'{"instances": [[1, 2]]}')
    assert answer.status == 200
    told = judge(gateways[1], "one", id=answer.headers["mizzen-request-id"], truth=3)
    assert told.json["reward"] == 1.0
