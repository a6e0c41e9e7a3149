"""One version, several servers: the least busy one is asked, and what one leaves behind the others take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mizzen.graph.table_types import Plan, Route, Server, Table
from tests.support.gateway.harness import Client, Gateway, Runtime, infer_request, publish, until


@pytest.fixture
def two(start_runtime: Callable[..., Runtime]) -> tuple[Runtime, Runtime]:
    return start_runtime("a"), start_runtime("b")


@pytest.fixture
def gateway(two: tuple[Runtime, Runtime], folder: Path, start_gateway: Callable[..., Gateway]) -> Gateway:
    """`m`, with two servers behind it, each with one replica that takes one call at a time."""
    publish(folder / "table.json", of_two(*two))
    gateway = start_gateway()
    gateway.wait_ready()
    for server in ("default/m-1", "default/m-2"):
        until(lambda server=server: value(gateway, "mizzen_replicas_ready", server) == 1)  # type: ignore[misc]
    return gateway


def of_two(first: Runtime, second: Runtime, serial: int = 1) -> Table:
    plan = Plan(servers=("default/m-1", "default/m-2"))
    servers = tuple(
        Server(id=id_, model="m", version="1", addresses=(runtime.address,), batch_size=1)
        for id_, runtime in zip(plan.servers, (first, second), strict=True)
    )
    route = Route(namespace="default", name="m", version="1", plan=plan, versions={"1": plan})
    return Table(serial=serial, servers=servers, routes=(route,))


@pytest.fixture
def clients(gateway: Gateway) -> Iterator[Callable[[], Client]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(gateway.client())


def test_the_least_busy_server_is_asked(
    two: tuple[Runtime, Runtime], gateway: Gateway, clients: Callable[[], Client]
) -> None:
    for runtime in two:
        runtime.held = True
    waiting = []
    for number in range(12):
        waiting.append(clients())
        waiting[-1].send(infer_request([float(number)]))
        until(lambda least=number + 1: calls(gateway) == least)  # type: ignore[misc]
    shares = [each.items for each in two]
    assert shares == [1, 1], "each has one call out, and the others wait"
    two[0].release()
    until(lambda: two[0].items == 6, "it had half of them")
    before = two[0].items
    for number in range(20):
        assert gateway.infer([float(number)]).sums == [number]
    assert two[0].items == before + 20, "the other one is busy"
    two[1].release()
    assert [client.answer().sums for client in waiting] == [[number] for number in range(12)]


@pytest.mark.parametrize("end", ["down", "drain"])
def test_what_one_leaves_behind_the_other_takes(
    two: tuple[Runtime, Runtime], gateway: Gateway, clients: Callable[[], Client], end: str
) -> None:
    """Without waiting until it is back, which it never is."""
    for runtime in two:
        runtime.held = True
    waiting = []
    for number in range(12):
        waiting.append(clients())
        waiting[-1].send(infer_request([float(number)]))
        until(lambda least=number + 1: calls(gateway) == least)  # type: ignore[misc]
    getattr(two[0], end)()
    until(lambda: queued(gateway, "default/m-1") == 0, "nothing waits for it")
    two[1].release()
    if end == "drain":
        two[0].release()
    assert [client.answer().sums for client in waiting] == [[number] for number in range(12)]
    assert two[0].items == 1


def calls(gateway: Gateway) -> int:
    """Of both servers, waiting or out."""
    return sum(
        value(gateway, family, server)
        for family in ("mizzen_queue_length", "mizzen_calls_in_flight")
        for server in ("default/m-1", "default/m-2")
    )


def queued(gateway: Gateway, server: str) -> int:
    return value(gateway, "mizzen_queue_length", server)


def value(gateway: Gateway, family: str, server: str) -> int:
    lines = gateway.ask("GET", "/metrics").body.decode().splitlines()
    [line] = [line for line in lines if line.startswith(f"{family}{{") and f'server="{server}"' in line]
    return int(float(line.split()[-1]))
