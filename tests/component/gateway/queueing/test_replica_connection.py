"""Replicas that come, go, drain and die, while clients ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.protocol.frames import framing, msgpack
from tests.support.gateway.harness import (
    LIMITS,
    Gateway,
    Runtime,
    body_of,
    infer_request,
    publish,
    request,
    table_of,
    until,
)
from tests.support.golden import Golden


def test_calls_of_a_lost_replica_are_sent_again_each_alone(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with gateway.client() as first, gateway.client() as second:
        first.send(infer_request([0.0]))
        until(lambda: runtime.items == 1)
        second.send(b"".join(infer_request([float(n)]) for n in range(1, 4)))
        until(lambda: _queued(gateway) == 3)
        runtime.down()
        runtime.release()
        runtime.up()
        assert first.answer().sums == [0.0]
        assert [second.answer().sums for _ in range(3)] == [[1.0], [2.0], [3.0]]
    assert [len(batch) for batch in runtime.batches] == [1, 1, 3]
    assert gateway.figure("mizzen_retried_total") == 1


def test_a_poisonous_request_ends_alone(gateway: Gateway, runtime: Runtime, golden: Golden) -> None:
    runtime.held = True
    poison = request("POST", "/v2/models/m/infer", body_of([9.0], name="poison"))
    with gateway.client() as first, gateway.client() as second:
        first.send(infer_request([0.0]))
        until(lambda: runtime.items == 1)
        second.send(infer_request([1.0]) + poison + infer_request([2.0]))
        until(lambda: _queued(gateway) == 3)
        runtime.release()
        assert first.answer().sums == [0.0]
        assert second.answer().sums == [1.0]
        lost = second.answer()
        assert lost.status == 502
        golden.check(lost.error)
        assert second.answer().sums == [2.0]
    assert [len(batch) for batch in runtime.batches] == [1, 3, 1, 1, 1]


def test_what_must_not_run_twice_is_502(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address, idempotent=False))
    gateway = start_gateway()
    gateway.wait_ready()
    answer = gateway.ask("POST", "/v2/models/m/infer", body_of([1.0], name="poison"))
    assert answer.status == 502
    assert runtime.items == 1


def test_requests_wait_for_a_lost_replica(gateway: Gateway, runtime: Runtime) -> None:
    runtime.down()
    a_request_waits_for(runtime, gateway)


def test_after_the_hold_they_get_503(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path, golden: Golden
) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(replace(LIMITS, hold_seconds=0.3))
    gateway.wait_ready()
    with gateway.client() as client:
        runtime.held = True
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        runtime.down()
        answer = client.answer()
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    golden.check(answer.error)
    assert gateway.infer([1.0]).status == 503
    runtime.release()
    runtime.up()
    gateway.wait_ready()
    assert gateway.infer([1.0]).sums == [1.0]


def test_a_new_gateway_waits_for_its_first_replica(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    runtime = start_runtime()
    runtime.down()
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    a_request_waits_for(runtime, gateway)


def a_request_waits_for(runtime: Runtime, gateway: Gateway) -> None:
    until(lambda: gateway.ask("GET", "/v2/models/m/ready").status == 503)
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: _queued(gateway) == 1)
        runtime.up()
        assert client.answer().sums == [1.0]


def test_a_draining_replica_answers_what_it_owes_and_gets_no_more(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    leaving, staying = start_runtime("a"), start_runtime("b")
    publish(folder / "table.json", table_of(leaving.address, staying.address))
    gateway = start_gateway()
    until(lambda: gateway.figure("mizzen_replicas_ready") == 2)
    leaving.held = staying.held = True
    with gateway.client() as one, gateway.client() as two:
        one.send(infer_request([1.0]))
        until(lambda: leaving.items + staying.items == 1)
        two.send(infer_request([2.0]))
        until(lambda: leaving.items == staying.items == 1)
        leaving.drain()
        staying.release()
        until(lambda: gateway.figure("mizzen_replicas_ready") == 1)
        for n in range(10):
            assert gateway.infer([float(n)]).sums == [n]
        assert leaving.items == 1
        assert leaving.connections == 1
        leaving.release()
        assert {*one.answer().sums, *two.answer().sums} == {1.0, 2.0}
    until(lambda: leaving.connections == 0, "the gateway closes once nothing is owed")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        framing.encode(framing.REPLY, 7, msgpack.pack([1, [[0, b"[]"]]])),
        framing.encode(framing.REPLY, 1, b"\xc1"),
        framing.encode(99, 0),
        framing.encode(framing.HELLO, 0, msgpack.pack([])),
        framing.encode(framing.REPLY, 1, msgpack.pack([1, [[9, b"[]"]]])),
        framing.encode(framing.REPLY, 1, msgpack.pack([1, [[0, b"[]"]]]), flags=0),
    ],
)
def test_nonsense_from_a_replica_costs_it_the_connection(gateway: Gateway, runtime: Runtime, nonsense: bytes) -> None:
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        runtime.say(nonsense)
        until(lambda: runtime.items == 2, "it connects and asks again")
        runtime.release()
        assert client.answer().sums == [1.0]


def test_a_replica_with_the_files_of_another_version_gets_nothing_until_it_has_the_right_ones(
    gateway: Gateway, runtime: Runtime, folder: Path
) -> None:
    runtime.hello["files"] = "new"
    publish(folder / "table.json", table_of(runtime.address, serial=2, files="old"))
    until(lambda: gateway.figure("mizzen_replicas_ready") == 0)
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: _queued(gateway) == 1, "it waits")
        assert runtime.items == 0
        publish(folder / "table.json", table_of(runtime.address, serial=3, version="2", files="new"))
        assert client.answer().json["model_version"] == "2", "what waited is answered by what its name stands for now"
    runtime.hello["files"] = "old"
    publish(folder / "table.json", table_of(runtime.address, serial=4, version="1", files="old"))
    until(lambda: gateway.infer([1.0]).json["model_version"] == "1")


def test_a_replica_that_does_not_say_what_it_has_is_taken_at_its_word(
    gateway: Gateway, runtime: Runtime, folder: Path
) -> None:
    publish(folder / "table.json", table_of(runtime.address, serial=2, version="2", files="any"))
    until(lambda: gateway.infer([1.0]).json["model_version"] == "2")


def test_a_connection_stays_with_its_version_when_the_replica_is_given_another(
    gateway: Gateway, runtime: Runtime, folder: Path
) -> None:
    """As a runtime does: it greets with what is new, and answers the others as before."""
    runtime.hello["files"] = "old"
    publish(folder / "table.json", table_of(runtime.address, serial=2, files="old"))
    until(lambda: gateway.infer([1.0]).status == 200)
    runtime.hello["files"] = "new"
    assert gateway.infer([1.0]).json["model_version"] == "1"
    publish(folder / "table.json", table_of(runtime.address, serial=3, version="2", files="new"))
    until(lambda: gateway.infer([1.0]).json["model_version"] == "2")
    until(lambda: runtime.connections == 1, "the old connection is closed, and with it goes the old model")


def test_a_large_request_reaches_the_replica_whole(gateway: Gateway, runtime: Runtime) -> None:
    row = [float(number) for number in range(30_000)]
    assert gateway.infer(row).sums == [sum(row)]
    assert gateway.infer(row, Connection="close").sums == [sum(row)]


def test_an_answer_of_the_wrong_length_is_nonsense_too(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        runtime.say(framing.encode(framing.REPLY, 1, msgpack.pack([1, [[0, b"[]"], [0, b"[]"]]])))
        until(lambda: runtime.items == 2)
        runtime.release()
        assert client.answer().sums == [1.0]


def test_restarts_under_load_fail_no_request(gateway: Gateway, runtime: Runtime) -> None:
    failures: list[object] = []
    stop = threading.Event()

    def ask(offset: int) -> None:
        with gateway.client() as client:
            n = 0
            while not stop.is_set():
                n += 1
                client.send(infer_request([float(n), float(offset)]))
                if (answer := client.answer()).status != 200 or answer.sums != [n + offset]:
                    failures.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            _wait_for_more(runtime)
            runtime.drain()
            until(lambda: runtime.connections == 0)
            runtime.up()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


def _wait_for_more(runtime: Runtime) -> None:
    seen = runtime.items
    until(lambda: runtime.items > seen + 50)


def _queued(gateway: Gateway) -> int:
    lines = gateway.ask("GET", "/metrics").body.decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("mizzen_queue_length{"))
