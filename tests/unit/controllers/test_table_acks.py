"""A process counts as ready when all gateways go by a Table that names it, and ends when none does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mizzen.controllers.table_acks import ACK_TIMEOUT, GatewayTraffic
from mizzen.graph.compile.plans import graph_mark
from mizzen.graph.table_types import CompiledGraph, Plan, Route, Server, Service, Table
from mizzen.protocol.gateway_files import table_acks
from mizzen.protocol.gateway_files.table_acks import TableAck
from tests.support import pids


class World:
    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.folder = folder
        self.traffic = GatewayTraffic(folder, clock=lambda: self.now)

    def publish(self, serial: int, *addresses: str) -> None:
        server = Server(id="default/m", model="m", version="1", addresses=addresses)
        self.traffic.on_published(Table(serial=serial, servers=(server,)))

    def take(self, gateway: str, serial: int, pid: int | None = None) -> None:
        table_acks.write(self.folder, TableAck(gateway, pid or os.getpid(), serial))

    def reached(self, *addresses: str) -> bool:
        return self.traffic.reaches(addresses)

    def over(self, *addresses: str) -> bool:
        return self.traffic.has_left(addresses)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_only_when_every_living_gateway_has_a_table_without_it(world: World) -> None:
    world.publish(10, "old")
    world.take("gateway-0", 10)
    world.take("gateway-1", 10)
    assert not world.over("old")
    world.publish(12, "new")
    assert not world.over("old")
    world.take("gateway-0", 12)
    assert not world.over("old"), "the other one may still send there"
    world.publish(14, "new", "newer")
    world.take("gateway-1", 14)
    assert world.over("old"), "a later Table is as good"
    assert not world.over("new")
    assert not world.over("old", "new"), "one of them is named"


def test_it_is_reached_when_every_living_gateway_has_a_table_with_it(world: World) -> None:
    world.take("gateway-0", 10)
    world.take("gateway-1", 10)
    assert not world.reached("new"), "no Table names it"
    world.publish(12, "new")
    world.take("gateway-0", 12)
    assert not world.reached("new"), "the other one does not know it yet"
    world.publish(14, "new", "newer")
    world.take("gateway-1", 13)
    assert world.reached("new"), "a later Table is as good"
    assert not world.reached("newer")
    assert world.reached("new", "newer"), "one of them is enough"
    world.now += ACK_TIMEOUT
    assert world.reached("newer"), "who is stuck is not waited for any more"
    assert not world.reached("old")


def test_a_dead_gateway_is_not_waited_for(world: World) -> None:
    world.publish(10, "old")
    world.take("gateway-0", 10, pid=pids.DEAD)
    world.publish(12, "new")
    assert world.over("old")


def test_one_that_is_stuck_is_waited_for_a_while(world: World) -> None:
    world.take("gateway-0", 10)
    world.publish(10, "old")
    world.publish(12, "new")
    world.now += ACK_TIMEOUT / 2
    world.publish(13, "new", "newer")
    assert not world.over("old")
    world.now += ACK_TIMEOUT / 2
    assert world.over("old")
    world.publish(14, "new")
    assert world.over("old"), "long gone"
    assert not world.over("newer"), "each has its own time"


def test_before_a_table_is_published_nobody_can_have_left(world: World) -> None:
    assert not world.over("old")


def test_what_left_before_the_plane_was_started_again(world: World) -> None:
    world.take("gateway-0", 10)
    world.publish(11, "new")
    assert not world.over("old"), "the gateway has not looked since"
    world.take("gateway-0", 11)
    assert world.over("old")


def test_one_that_comes_back_has_to_leave_again(world: World) -> None:
    world.publish(10, "a")
    world.publish(11, "b")
    world.take("gateway-0", 11)
    assert world.over("a")
    world.publish(12, "a")
    assert not world.over("a")
    world.publish(13, "b")
    assert not world.over("a")
    world.take("gateway-0", 13)
    assert world.over("a")


def test_nothing_is_kept_of_what_left_long_ago(world: World) -> None:
    for serial in range(100):
        world.publish(serial, f"address-{serial}")
        world.now += ACK_TIMEOUT
    assert len(world.traffic._gone) <= 2


def test_services_and_graphs_are_known_as_processes_are(world: World) -> None:
    def publish(serial: int, generation: int, *addresses: str) -> None:
        graph = Plan(graph=CompiledGraph(uid="u", generation=generation, nodes=()))
        route = Route(namespace="default", name="g", version=str(generation), plan=graph)
        service = Service(id="default/g/c", addresses=addresses, path="/predict")
        world.traffic.on_published(Table(serial=serial, services=(service,), routes=(route,)))

    publish(10, 1, "http://old")
    world.take("gateway-0", 10)
    assert world.reached(graph_mark("u", 1))
    assert world.reached("http://old")
    publish(12, 2, "http://new")
    assert not world.reached(graph_mark("u", 2))
    assert not world.over("http://old")
    world.take("gateway-0", 12)
    assert world.reached(graph_mark("u", 2))
    assert world.over("http://old")
