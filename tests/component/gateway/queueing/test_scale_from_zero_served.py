"""What a gateway on a real socket says of a server that has no replicas while nobody asks, and how it gets one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mizzen.gateway.queueing.scale_from_zero import HoldLimits
from mizzen.graph.table_types import Plan, Route, Table
from mizzen.protocol.gateway_files import demand
from mizzen.protocol.gateway_files.demand import Demand, ServerDemand
from tests.support.gateway.harness import LIMITS, Gateway, Runtime, body_of, publish, request, table_of, until

ASLEEP: dict[str, Any] = {"scaled": True, "wakes": True, "phase": "scaled to zero"}


def asked(folder: Path) -> list[Demand]:
    return demand.read(folder / "demand")


def test_it_can_be_called_and_says_what_that_waits_for(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(**ASLEEP))
    gateway = start_gateway()
    gateway.wait_ready()
    said = gateway.ask("GET", "/v2/models/m/ready").json
    assert said == {"name": "m", "ready": True, "reason": "scaled to zero"}
    assert gateway.ask("GET", "/v2/models").json["models"] == [{"name": "m", "version": "1", "ready": True}]
    (indexed,) = gateway.ask("POST", "/v2/repository/index", b'{"ready": true}').json
    assert (indexed["state"], indexed["reason"]) == ("READY", "scaled to zero")
    assert gateway.ask("GET", "/v1/models/m").json["ready"] is True
    assert asked(folder) == [], "nobody was woken by who only looks"


def test_a_call_is_held_and_the_plane_is_told_at_once(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish(folder / "table.json", table_of(**ASLEEP))
    gateway = start_gateway(replace(LIMITS, held=HoldLimits(1, 1 << 20), hold_seconds=0.05))
    gateway.wait_ready()
    with gateway.client() as client:
        client.send(request("POST", "/v2/models/m/infer", body_of([1.0, 2.0])))
        until(lambda: [each.servers.get("default/m") for each in asked(folder)], "the plane can know")
        (told,) = asked(folder)
        assert (told.gateway, told.pid) == (gateway.name, os.getpid())
        assert told.servers["default/m"].awaited
        too_many = gateway.infer([1.0])
        assert (too_many.status, int(too_many.headers["retry-after"]) >= 1) == (503, True)
        assert gateway.figure("mizzen_held_requests") == 1
        runtime = start_runtime()
        publish(folder / "table.json", table_of(runtime.address, serial=2, **ASLEEP | {"phase": "one is starting"}))
        assert client.answer().sums == [3.0]
    assert gateway.ask("GET", "/v2/models/m/ready").json == {"name": "m", "ready": True}
    until(lambda: asked(folder)[0].servers.get("default/m", ServerDemand()).awaited is False, "nobody waits any more")


def test_who_waits_for_the_call_of_another_is_held_too(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(**ASLEEP, cache_bytes=1 << 20))
    gateway = start_gateway(replace(LIMITS, held=HoldLimits(2, 1 << 20)))
    gateway.wait_ready()
    with gateway.client() as first, gateway.client() as second:
        for client in (first, second):
            client.send(request("POST", "/v2/models/m/infer", body_of([1.0, 2.0])))
        until(lambda: gateway.figure("mizzen_held_requests") == 2)
        assert gateway.infer([1.0, 2.0]).status == 503


def test_what_only_a_replica_can_tell_wakes_one(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish(folder / "table.json", table_of(**ASLEEP))
    gateway = start_gateway()
    gateway.wait_ready()
    with gateway.client() as client:
        client.send(request("GET", "/v2/models/m"))
        until(lambda: asked(folder), "the plane can know")
        publish(folder / "table.json", table_of(start_runtime().address, serial=2, **ASLEEP))
        assert client.answer().json["name"] == "m"


def test_what_answers_is_asked_and_not_what_rests(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    runtime = start_runtime()
    (awake,), (resting,) = table_of(runtime.address, id="default/b").servers, table_of(id="default/a", **ASLEEP).servers
    plan = Plan(servers=("default/a", "default/b"))
    route = Route(namespace="default", name="m", version="1", plan=plan, versions={"1": plan})
    publish(folder / "table.json", Table(serial=1, servers=(resting, awake), routes=(route,)))
    gateway = start_gateway()
    until(lambda: gateway.figure("mizzen_replicas_ready") == 1, "one is connected")
    assert gateway.infer([1.0, 2.0]).sums == [3.0]
    assert asked(folder) == []


def test_what_is_asked_of_it_is_gone_with_the_gateway(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(**ASLEEP))
    gateway = start_gateway()
    gateway.wait_ready()
    with gateway.client() as client:
        client.send(request("POST", "/v2/models/m/infer", body_of([1.0])))
        until(lambda: asked(folder), "the plane can know")
        publish(folder / "table.json", table_of(serial=2))
        assert client.answer().status == 503, "it cannot be started any more"
    until(lambda: asked(folder)[0].servers == {}, "nobody asks what is not scaled")
    gateway.stop()
    until(lambda: asked(folder) == [], "its file went with it")
