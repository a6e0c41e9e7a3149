"""A new Table is taken whole and at once; a bad one changes nothing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mizzen.graph.table_types import Plan, Route, Server, Table
from tests.support.gateway.harness import (
    Gateway,
    Response,
    Runtime,
    body_of,
    infer_request,
    publish,
    request,
    table_of,
    until,
)


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_before_the_first_good_table_no_name_is_known_to_be_missing(
    start_gateway: Callable[..., Gateway], runtime: Runtime, folder: Path, content: bytes | None
) -> None:
    if content is not None:
        (folder / "table.json").write_bytes(content)
    gateway = start_gateway()
    until(lambda: gateway.ask("GET", "/healthz").status == 200)
    assert gateway.ask("GET", "/v2/models").json == {"models": []}
    for answer in (gateway.infer([1.0]), gateway.ask("GET", "/v2/models/m"), gateway.ask("GET", "/v2/models/m/ready")):
        assert (answer.status, answer.error) == (503, "the table cannot be read yet")
        assert answer.headers["retry-after"] == "1"
    publish(folder / "table.json", table_of(runtime.address))
    gateway.wait_ready()
    assert gateway.infer([1.0]).sums == [1.0]
    assert gateway.infer([1.0], name="n").status == 404


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"format": 99}', b'{"routes": 5}'])
def test_a_bad_table_is_reported_once_and_changes_nothing(
    gateway: Gateway, folder: Path, runtime: Runtime, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "table.json"
    with caplog.at_level(logging.WARNING, "mizzen.gateway.watched_file"):
        if content is None:
            os.unlink(path)
        else:
            path.with_suffix(".bad").write_bytes(content)
            os.replace(path.with_suffix(".bad"), path)
        until(lambda: caplog.records)
        for n in range(20):
            assert gateway.infer([float(n)]).sums == [n]
        assert len(caplog.records) == 1
    publish(path, table_of(runtime.address, version="2", serial=2))
    until(lambda: gateway.infer([1.0]).json.get("model_version") == "2")


def test_a_plan_that_names_a_stranger_is_a_bad_table(
    gateway: Gateway, folder: Path, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    good = table_of(runtime.address)
    stranger = Route(namespace="default", name="n", version="1", plan=Plan(servers=("default/stranger",)))
    publish(folder / "table.json", msgspec.structs.replace(good, routes=(*good.routes, stranger)))
    until(lambda: any("default/stranger" in record.getMessage() for record in caplog.records))
    assert gateway.infer([1.0]).sums == [1.0]
    assert gateway.infer([1.0], name="n").status == 404


def test_a_server_that_stays_keeps_its_connection(gateway: Gateway, folder: Path, runtime: Runtime) -> None:
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        publish(folder / "table.json", table_of(runtime.address, serial=2, batch_size=1))
        publish(folder / "table.json", _with_alias(table_of(runtime.address, serial=3)))
        until(lambda: gateway.ask("GET", "/v2/models/alias/ready").status == 200)
        assert runtime.connections == 1
        runtime.release()
        assert client.answer().sums == [1.0]
        client.send(infer_request([2.0], model="alias"))
        assert client.answer().json["model_name"] == "alias"


def test_a_version_that_is_gone(gateway: Gateway, folder: Path, runtime: Runtime) -> None:
    """What is in flight finishes; what waits for that very version gets 503; what waits for the name moves on."""
    runtime.held = True
    by_version = infer_request([2.0]).replace(b"/m/infer", b"/m/versions/1/infer")
    with gateway.client() as out, gateway.client() as waiting, gateway.client() as pinned:
        out.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        waiting.send(infer_request([3.0]))
        pinned.send(by_version)
        until(lambda: gateway.figure("mizzen_queue_length") == 2)
        other = Runtime(str(folder / "other.sock"))
        try:
            publish(folder / "table.json", table_of(other.address, serial=2, version="2"))
            refused = pinned.answer()
            assert refused.status == 503
            moved = waiting.answer()
            assert moved.sums == [3.0]
            assert moved.json["model_version"] == "2"
            assert runtime.connections == 1
            runtime.release()
            assert out.answer().json["model_version"] == "1"
            until(lambda: runtime.connections == 0)
            assert gateway.ask("POST", "/v2/models/m/versions/1/infer", body_of([1.0])).status == 404
            assert b"mizzen_requests_in_flight" in gateway.ask("GET", "/metrics").body
            assert _in_flight(gateway) == 0
            publish(folder / "table.json", table_of(other.address, serial=3, version="2"))
            until(lambda: b'version="1"' not in gateway.ask("GET", "/metrics").body, "version 1 is counted no more")
        finally:
            other.close()


def _aliased(table: Table, **aliases: str) -> Table:
    return msgspec.structs.replace(table, routes=(msgspec.structs.replace(table.routes[0], aliases=aliases),))


@pytest.mark.parametrize("query", ["", "?by=asgi"])
def test_an_alias_answers_with_the_version_it_stands_for(
    gateway: Gateway, folder: Path, runtime: Runtime, query: str
) -> None:
    def ask(alias: str) -> Response:
        return gateway.ask("POST", f"/v2/models/m/versions/{alias}/infer{query}", body_of([1.0, 2.0]))

    assert ask("prod").status == 404
    publish(folder / "table.json", _aliased(table_of(runtime.address, serial=2), prod="1", gone="7"))
    until(lambda: ask("prod").status == 200)
    answer = ask("prod")
    assert (answer.sums, answer.json["model_name"], answer.json["model_version"]) == ([3.0], "m", "1")
    assert ask("gone").status == 503, "the alias is there, and nobody behind it"
    assert "did you mean 'prod'?" in ask("prd").error
    assert gateway.ask("GET", "/v2/models/m/versions/prod").json["versions"] == ["1"]
    assert gateway.ask("GET", "/v2/models/m/versions/prod/ready").status == 200
    publish(folder / "table.json", table_of(runtime.address, serial=3))
    until(lambda: ask("prod").status == 404)


def test_who_waits_for_an_alias_goes_where_it_goes(
    gateway: Gateway, folder: Path, runtime: Runtime, start_runtime: Callable[..., Runtime]
) -> None:
    other = start_runtime("other")
    publish(folder / "table.json", _aliased(table_of(runtime.address, serial=2), prod="1"))
    until(lambda: gateway.ask("GET", "/v2/models/m/versions/prod/ready").status == 200)
    runtime.held = True
    by_alias = infer_request([2.0]).replace(b"/m/infer", b"/m/versions/prod/infer")
    with gateway.client() as out, gateway.client() as waiting:
        out.send(by_alias)
        until(lambda: runtime.items == 1)
        waiting.send(by_alias)
        until(lambda: gateway.figure("mizzen_queue_length") == 1)
        publish(folder / "table.json", _aliased(table_of(other.address, serial=3, version="2"), prod="2"))
        assert waiting.answer().json["model_version"] == "2"
        runtime.release()
        assert out.answer().json["model_version"] == "1"


@pytest.mark.parametrize("query", ["", "?by=asgi"])
def test_a_swap_while_a_body_comes_in(
    gateway: Gateway, folder: Path, start_runtime: Callable[..., Runtime], query: str
) -> None:
    other = start_runtime("other")
    asked = request("POST", f"/v2/models/m/infer{query}", body_of([1.0]))
    with gateway.client() as client:
        client.send(asked[:-5])
        publish(folder / "table.json", table_of(other.address, serial=2, version="2"))
        until(lambda: gateway.infer([1.0]).json.get("model_version") == "2")
        client.send(asked[-5:])
        answer = client.answer()
        assert answer.sums == [1.0]
        assert answer.json["model_version"] == "2"


def test_a_name_that_goes_while_a_body_comes_in(gateway: Gateway, folder: Path) -> None:
    asked = infer_request([1.0])
    with gateway.client() as client:
        client.send(asked[:-5])
        publish(folder / "table.json", Table(serial=2))
        until(lambda: gateway.infer([1.0]).status == 404)
        client.send(asked[-5:])
        assert client.answer().status == 503
        client.send(asked)
        assert client.answer().status == 404


def test_swaps_under_load_fail_no_request(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    runtimes = [start_runtime("a"), start_runtime("b")]
    path = folder / "table.json"
    publish(path, table_of(runtimes[0].address, version="0"))
    gateway = start_gateway()
    gateway.wait_ready()
    failures: list[object] = []
    versions: set[str] = set()
    stop = threading.Event()

    def ask(offset: int) -> None:
        with gateway.client() as client:
            n = 0
            while not stop.is_set():
                n += 1
                client.send(infer_request([float(n), float(offset)]) * 3)
                for answer in (client.answer(), client.answer(), client.answer()):
                    if answer.status != 200 or answer.sums != [n + offset]:
                        failures.append(answer)
                    else:
                        versions.add(answer.json["model_version"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for serial in range(1, 9):
            publish(path, table_of(runtimes[serial % 2].address, version=str(serial), serial=serial))
            _wait_for_version(versions, str(serial))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert versions >= {str(serial) for serial in range(1, 9)}


def test_the_least_busy_server_answers(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    one, two = start_runtime("a"), start_runtime("b")
    plan = Plan(servers=("default/a", "default/b"))
    servers = tuple(
        Server(id=f"default/{name}", model="m", version="1", addresses=(runtime.address,))
        for name, runtime in (("a", one), ("b", two))
    )
    route = Route(namespace="default", name="m", version="1", plan=plan, versions={"1": plan})
    publish(folder / "table.json", Table(servers=servers, routes=(route,)))
    gateway = start_gateway()
    until(lambda: gateway.ask("GET", "/metrics").body.count(b'version="1"} 1\n') == 2, "both are ready")
    one.held = two.held = True
    with gateway.client() as first, gateway.client() as second:
        first.send(infer_request([1.0]))
        until(lambda: one.items + two.items == 1)
        second.send(infer_request([2.0]))
        until(lambda: one.items == two.items == 1)
        one.release()
        two.release()
        assert first.answer().sums == [1.0]
        assert second.answer().sums == [2.0]
    one.down()
    for n in range(5):
        assert gateway.infer([float(n)]).sums == [n]


def _with_alias(table: Table) -> Table:
    route = table.routes[0]
    return msgspec.structs.replace(table, routes=(route, msgspec.structs.replace(route, name="alias")))


def _wait_for_version(seen: set[str], version: str) -> None:
    until(lambda: version in seen, f"version {version} answers")


def _in_flight(gateway: Gateway) -> int:
    lines = gateway.ask("GET", "/metrics").body.decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("mizzen_requests_in_flight{"))
