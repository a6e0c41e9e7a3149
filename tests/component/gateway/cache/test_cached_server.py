"""A server with a cache, asked over real sockets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mizzen.graph.table_types import Plan, Route, Server, Table
from tests.support.gateway.harness import Client, Gateway, Response, Runtime, body_of, publish, request, table_of, until
from tests.support.gateway.models import Counting

ROW = [1.0, 2.0]
CACHE: dict[str, Any] = {"cache_bytes": 1 << 20}


@pytest.fixture
def gateway(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    """`m`, with a cache."""
    publish(folder / "table.json", table_of(runtime.address, **CACHE))
    gateway = start_gateway()
    gateway.wait_ready()
    return gateway


def cached(answer: Response) -> str | None:
    assert answer.status == 200, answer
    return answer.headers.get("mizzen-cache")


def waits(gateway: Gateway, calls: int) -> None:
    until(lambda: gateway.figure("mizzen_requests_in_flight") == calls, f"{calls} wait")


def in_force(folder: Path, serial: int) -> None:
    until(lambda: json.loads((folder / "tables" / "gateway-0.json").read_text())["serial"] == serial)


def lookups(gateway: Gateway) -> dict[str, float]:
    lines = gateway.ask("GET", "/metrics").body.decode().splitlines()
    found = [line for line in lines if line.startswith("mizzen_cache_lookups_total{")]
    return {line.split('result="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in found}


def test_the_second_of_two_equal_requests_does_not_reach_the_model(gateway: Gateway, runtime: Runtime) -> None:
    first, second, third = gateway.infer(ROW), gateway.infer(ROW), gateway.infer([3.0, 4.0])
    assert (first.sums, second.sums, third.sums) == ([3.0], [3.0], [7.0])
    assert (cached(first), cached(second), cached(third)) == (None, "hit", None)
    assert runtime.items == 2
    assert lookups(gateway) == {"hit": 1, "shared": 0, "miss": 2}
    assert gateway.figure("mizzen_cache_entries") == 2
    assert 0 < gateway.figure("mizzen_cache_bytes") < 2000
    [told] = gateway.ask("GET", "/v2/models/m/stats").json["model_stats"]
    assert (told["inference_count"], told["execution_count"]) == (3, 2)
    assert told["inference_stats"]["cache_hit"]["count"] == 1
    assert told["inference_stats"]["cache_hit"]["ns"] > 0
    assert told["inference_stats"]["cache_miss"] == {"count": 2, "ns": 0}


def test_everybody_is_answered_by_their_own_id(gateway: Gateway, runtime: Runtime) -> None:
    gateway.ask("POST", "/v2/models/m/infer", body_of(ROW, id="first"))
    mine = gateway.ask("POST", "/v2/models/m/infer", body_of(ROW, id="mine"))
    assert (cached(mine), mine.json["id"], mine.headers["mizzen-request-id"]) == ("hit", "mine", "mine")
    by_header = gateway.infer(ROW, Mizzen_Request_Id="theirs")
    assert (cached(by_header), by_header.json["id"]) == ("hit", "theirs")
    made = [gateway.infer(ROW).json["id"] for _ in range(2)]
    assert len({"first", "mine", *made}) == 4
    packed = gateway.ask("POST", "/v2/models/m/infer", gzip.compress(body_of(ROW)), Content_Encoding="gzip")
    assert (cached(packed), packed.sums) == ("hit", [3.0])
    assert runtime.items == 1


def test_a_body_that_is_known_whole_is_answered_like_others(gateway: Gateway, runtime: Runtime) -> None:
    path, body = "/v2/models/m/infer", body_of(ROW)
    answers = [gateway.ask("POST", path, body) for _ in range(4)]
    assert [cached(answer) for answer in answers] == [None, "hit", "hit", "hit"]
    assert len({answer.json.pop("id") for answer in answers}) == 4
    assert all(answer.json["outputs"] == answers[0].json["outputs"] for answer in answers)
    named = gateway.ask("POST", path, body, Mizzen_Request_Id='a"b')
    assert (cached(named), named.json["id"], named.headers["mizzen-request-id"]) == ("hit", 'a"b', 'a"b')
    for spelled in (b'"id"', b'"\\u0069d"'):
        given = body.replace(b"{", b"{" + spelled + b': "mine", ', 1)
        assert [gateway.ask("POST", path, given).json["id"] for _ in range(3)] == ["mine"] * 3
    assert gateway.ask("POST", path, body, Mizzen_Timeout_Ms="-1").status == 400
    assert gateway.ask("POST", path, body, Inference_Header_Content_Length="5").status == 400
    assert runtime.items == 1
    assert lookups(gateway) == {"hit": 10, "shared": 0, "miss": 1}


def test_each_protocol_is_answered_in_its_own(serve_model: Callable[..., Gateway]) -> None:
    model = Counting()
    gateway = serve_model(model, **CACHE)
    in_v1 = b'{"instances": [[1, 2], [3, 4]]}'
    raw = json.loads(body_of(ROW)) | {"parameters": {"binary_data_output": True}}
    for _ in range(2):
        v1 = gateway.ask("POST", "/v1/models/m:predict", in_v1)
        v2 = gateway.infer(ROW)
        binary = gateway.ask("POST", "/v2/models/m/infer", json.dumps(raw).encode())
        text = gateway.ask("POST", "/v2/models/m/infer", body_of(ROW, outputs=[{"name": "text"}]))
        assert v1.json == {"predictions": [3.0, 7.0]}
        assert v2.sums == [3.0]
        length = int(binary.headers["inference-header-content-length"])
        assert json.loads(binary.body[:length])["outputs"][0]["parameters"] == {"binary_data_size": 8}
        assert text.json["outputs"][0]["data"] == ["1"]
    assert [cached(each) for each in (v1, v2, binary, text)] == ["hit"] * 4
    assert len(model.calls) == 4


def test_equal_requests_in_flight_share_a_call(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    clients = [gateway.client() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(request("POST", "/v2/models/m/infer", body_of(ROW, id=f"caller {number}")))
    waits(gateway, 5)
    runtime.release()
    answers = [client.answer() for client in clients]
    assert [answer.json["id"] for answer in answers] == [f"caller {number}" for number in range(5)]
    assert {tuple(answer.sums) for answer in answers} == {(3.0,)}
    assert sorted(str(cached(answer)) for answer in answers) == ["None", *["shared"] * 4]
    assert (runtime.items, cached(gateway.infer(ROW))) == (1, "hit")
    assert lookups(gateway) == {"hit": 1, "shared": 4, "miss": 1}
    for client in clients:
        client.socket.close()


def asks(gateway: Gateway, **headers: str) -> Client:
    client = gateway.client()
    client.send(request("POST", "/v2/models/m/infer", body_of(ROW), **headers))
    return client


def test_the_call_goes_on_for_those_who_still_wait(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    first = asks(gateway)
    until(lambda: runtime.items == 1)
    with asks(gateway) as second, asks(gateway, Mizzen_Timeout_Ms="50") as hasty:
        waits(gateway, 3)
        first.socket.close()
        assert hasty.answer().status == 504
        waits(gateway, 1)
        runtime.release()
        assert second.answer().sums == [3.0]
    assert runtime.items == 1


def test_it_outlives_the_deadline_of_who_began_it(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with asks(gateway, Mizzen_Timeout_Ms="100") as hasty:
        until(lambda: runtime.items == 1)
        with asks(gateway) as patient:
            assert hasty.answer().status == 504
            runtime.release()
            answer = patient.answer()
            assert (answer.sums, cached(answer)) == ([3.0], "shared")
    assert runtime.items == 1


def test_an_answer_that_nobody_waited_for_is_kept(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with asks(gateway, Mizzen_Timeout_Ms="50") as hasty:
        assert hasty.answer().status == 504
    runtime.release()
    until(lambda: gateway.figure("mizzen_cache_entries") == 1)
    assert (cached(gateway.infer(ROW)), runtime.items) == ("hit", 1)


def test_errors_are_shared_and_not_kept(gateway: Gateway, runtime: Runtime) -> None:
    for name, code in (("fail", 500), ("x", 400)):
        body = body_of(ROW, name) if name == "fail" else body_of(ROW).replace(b"[1, 2]", b"[1, 3]")
        before = runtime.items
        runtime.held = True
        clients = [gateway.client() for _ in range(3)]
        for client in clients:
            client.send(request("POST", "/v2/models/m/infer", body))
        waits(gateway, 3)
        runtime.release()
        assert [client.answer().status for client in clients] == [code] * 3
        assert runtime.items == before + 1
        assert gateway.ask("POST", "/v2/models/m/infer", body).status == code
        assert runtime.items == before + 2
        for client in clients:
            client.socket.close()
    assert gateway.figure("mizzen_cache_entries") == 0


def test_a_process_that_takes_the_place_of_another_is_asked_anew(gateway: Gateway, runtime: Runtime) -> None:
    gateway.infer(ROW)
    runtime.down()
    until(lambda: gateway.figure("mizzen_replicas_ready") == 0)
    assert cached(gateway.infer(ROW)) == "hit", "nobody else answers yet"
    runtime.up()
    gateway.wait_ready()
    assert cached(gateway.infer(ROW)) is None
    assert (cached(gateway.infer(ROW)), runtime.items) == ("hit", 2)


def test_names_and_aliases_share_and_namespaces_do_not(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    one, other = start_runtime("one"), start_runtime("other")
    here, there = Plan(servers=("default/m",)), Plan(servers=("lab/m",))
    servers = [
        Server(id=id_, model="m", version="1", addresses=(each.address,), files="same", cache_bytes=1 << 20)
        for id_, each in (("default/m", one), ("lab/m", other))
    ]
    routes = (
        Route(namespace="default", name="m", version="1", plan=here, versions={"1": here}, aliases={"prod": "1"}),
        Route(namespace="default", name="second", version="1", model="m", plan=here),
        Route(namespace="lab", name="m", version="1", plan=there),
    )
    publish(folder / "table.json", Table(serial=1, servers=tuple(servers), routes=routes))
    gateway = start_gateway()
    gateway.wait_ready()
    until(lambda: gateway.ask("GET", "/ns/lab/v2/models/m/ready").status == 200)
    paths = ("/v2/models/m", "/v2/models/m/versions/1", "/v2/models/m/versions/prod", "/v2/models/second")
    answers = [gateway.ask("POST", f"{path}/infer", body_of(ROW)) for path in paths]
    assert [cached(answer) for answer in answers] == [None, "hit", "hit", "hit"]
    assert [answer.json["model_name"] for answer in answers] == ["m", "m", "m", "second"]
    assert cached(gateway.ask("POST", "/ns/lab/v2/models/m/infer", body_of(ROW))) is None
    assert (one.items, other.items) == (1, 1)


def test_a_cache_can_be_switched_on_and_off(gateway: Gateway, runtime: Runtime, folder: Path) -> None:
    def take(serial: int, **server: Any) -> None:
        publish(folder / "table.json", table_of(runtime.address, serial=serial, **server))
        in_force(folder, serial)

    gateway.infer(ROW)
    take(2)
    assert [cached(gateway.infer(ROW)) for _ in range(2)] == [None, None]
    take(3, **CACHE)
    assert [cached(gateway.infer(ROW)) for _ in range(2)] == [None, "hit"]
    take(4, cache_bytes=100)
    assert [cached(gateway.infer(ROW)) for _ in range(2)] == [None, None]
    assert (gateway.figure("mizzen_cache_entries"), gateway.figure("mizzen_cache_evictions_total")) == (0, 2)


def test_a_version_is_never_answered_by_another(
    gateway: Gateway, folder: Path, start_runtime: Callable[..., Runtime]
) -> None:
    assert [cached(gateway.infer(ROW)) for _ in range(2)] == [None, "hit"]
    fresh = start_runtime("fresh")
    for serial, server in enumerate(({"version": "2"}, {"version": "2", "files": "other"}), 2):
        publish(folder / "table.json", table_of(fresh.address, serial=serial, **CACHE, **server))
        in_force(folder, serial)
        answer = gateway.infer(ROW)
        assert (cached(answer), answer.json["model_version"]) == (None, "2")
        assert cached(gateway.infer(ROW)) == "hit"
    assert fresh.items == 2
