"""The paths that are not hot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mizzen
from mizzen.gateway.http.read_api import OPENAPI_FILE
from mizzen.graph.table_types import Table
from tests.support.gateway.harness import LIMITS, Gateway, Runtime, body_of, publish, request, table_of, until

EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]
HELLO: dict[str, Any] = {
    "framework": "sklearn",
    "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 2]}],
    "outputs": [{"name": "sum", "datatype": "FP64", "shape": [-1]}],
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2", {"name": "mizzen", "version": mizzen.__version__, "extensions": EXTENSIONS}),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True, "live": True}),
        ("/v2/models", {"models": [{"name": "m", "version": "1", "ready": True}]}),
        ("/v2/models/m/ready", {"name": "m", "ready": True}),
        ("/v2/models/m/versions/1/ready", {"name": "m", "ready": True}),
        ("/ns/default/v2/models/m/ready", {"name": "m", "ready": True}),
        ("/ns/other/v2/models", {"models": []}),
        ("/ns/other/v2/health/live", {"live": True}),
        ("/healthz", {"status": "ok"}),
    ],
)
def test_what_can_be_read(gateway: Gateway, path: str, body: Any) -> None:
    with gateway.client() as client:
        client.send(request("GET", path) + request("HEAD", path) + request("GET", path + "?x=1"))
        got, head, with_query = client.answer(), client.answer(head=True), client.answer()
        assert (got.status, got.json) == (200, body)
        assert got.headers["content-type"] == "application/json"
        assert head.status == 200
        assert head.headers["content-length"] == str(len(got.body))
        assert with_query.json == body


def test_the_root_links_to_what_exists(gateway: Gateway) -> None:
    for link in gateway.ask("GET", "/").json["links"]:
        assert gateway.ask("GET", link).status == 200


def test_the_document_is_sent_to_those_who_do_not_have_it(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.send(request("GET", "/openapi.json"))
        got = client.answer()
        assert (got.status, got.headers["content-type"], got.body) == (
            200,
            "application/json",
            OPENAPI_FILE.read_bytes(),
        )
        tag = got.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            client.send(request("GET", "/openapi.json", If_None_Match=known))
            again = client.answer()
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
            assert "content-length" not in again.headers
        client.send(request("GET", "/openapi.json", If_None_Match='"other"'))
        assert client.answer().body == got.body
    assert gateway.ask("POST", "/openapi.json").status == 405


def test_metadata_comes_from_the_replica(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    runtime = start_runtime(hello=HELLO)
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    gateway.wait_ready()
    expected = {
        "name": "m",
        "versions": ["1"],
        "platform": "sklearn",
        "inputs": HELLO["inputs"],
        "outputs": HELLO["outputs"],
    }
    assert gateway.ask("GET", "/v2/models/m").json == expected
    runtime.down()
    assert gateway.ask("GET", "/v2/models/m/versions/1").json == expected


def test_a_model_without_replicas_is_not_ready(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(f"unix:{folder}/none.sock"))
    gateway = start_gateway(replace(LIMITS, hold_seconds=0.1))
    for path in ("/v2/models/m/ready", "/v2/models/m"):
        answer = gateway.ask("GET", path)
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.error == "no replica of 'm' version 1 is ready"
    assert gateway.ask("GET", "/v2/models").json["models"] == [{"name": "m", "version": "1", "ready": False}]


@pytest.mark.parametrize("path", ["/v2/models/m", "/v2/models/m/versions/1"])
def test_metadata_waits_for_the_first_replica_as_infer_does(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path, path: str
) -> None:
    runtime = start_runtime(hello=HELLO)
    runtime.down()
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    with gateway.client() as client:
        client.send(request("GET", path) + request("GET", "/healthz"))
        assert gateway.ask("GET", "/v2/models/m/ready").status == 503
        assert gateway.ask("PUT", path).status == 405
        with gateway.client() as leaving:
            leaving.send(request("GET", path))
        runtime.up()
        assert client.answer().json["inputs"] == HELLO["inputs"]
        assert client.answer().json == {"status": "ok"}


def test_metadata_waits_no_more_when_nothing_is_expected(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(f"unix:{folder}/none.sock"))
    gateway = start_gateway()
    with gateway.client() as scaled, gateway.client() as removed:
        scaled.send(request("GET", "/v2/models/m"))
        publish(folder / "table.json", table_of(serial=2))
        assert scaled.answer().status == 503
        publish(folder / "table.json", table_of(f"unix:{folder}/none.sock", serial=3, version="2"))
        until(lambda: gateway.ask("GET", "/v2/models").json["models"][0]["version"] == "2")
        removed.send(request("GET", "/v2/models/m"))
        publish(folder / "table.json", Table(serial=4))
        assert removed.answer().status == 404


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/v2/", "/v2/models/", "/v2/models/m/", "/v2/models/m/infer/x", "/v2/models/m/versions", "/v1",
     "/ns/default", "/ns//v2", "/ns/default/healthz", "/v2/models/x", "/v2/models/m/versions/9/ready", "//"],
)  # fmt: skip
def test_unknown_paths_are_404(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert answer.status == 404
    assert answer.error


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v2/models/m/infer", "POST"),
        ("DELETE", "/v2/models/m/infer", "POST"),
        ("POST", "/v2/health/live", "GET, HEAD"),
        ("PUT", "/v2/models/m", "GET, HEAD"),
        ("OPTIONS", "/metrics", "GET, HEAD"),
    ],
)
def test_wrong_methods_are_405(gateway: Gateway, method: str, path: str, allow: str) -> None:
    answer = gateway.ask(method, path)
    assert answer.status == 405
    assert answer.headers["allow"] == allow
    assert answer.error


def test_another_namespace_has_its_own_names(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    here, there = table_of(start_runtime("a").address), table_of(start_runtime("b").address, id="team/m")
    route = msgspec.structs.replace(
        there.routes[0], namespace="team", version="7", versions={"7": there.routes[0].plan}
    )
    publish(
        folder / "table.json",
        msgspec.structs.replace(here, servers=here.servers + there.servers, routes=(*here.routes, route)),
    )
    gateway = start_gateway()
    gateway.wait_ready()
    path = "/ns/team/v2/models/m/infer"
    for spelled in (path, path + "?x=1", "/ns/team/v2/models/m/versions/7/infer"):
        assert gateway.ask("POST", spelled, body_of([1.0])).json["model_version"] == "7"
    assert gateway.infer([1.0]).json["model_version"] == "1"


def test_metrics_are_prometheus_text(gateway: Gateway) -> None:
    for n in range(3):
        gateway.infer([float(n)])
    gateway.ask("POST", "/v2/models/m/infer", body_of([1.0], name="fail"))
    gateway.ask("POST", "/v2/models/nobody/infer", body_of([1.0]))
    answer = gateway.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    labels = 'gateway="gateway-0",namespace="default",model="m",version="1"'
    assert f'mizzen_requests_total{{{labels},code="200"}} 3' in lines
    assert f'mizzen_requests_total{{{labels},code="500"}} 1' in lines
    assert f'mizzen_request_seconds_bucket{{{labels},le="+Inf"}} 4' in lines
    assert f"mizzen_request_seconds_count{{{labels}}} 4" in lines
    assert f"mizzen_requests_in_flight{{{labels}}} 0" in lines
    of = 'gateway="gateway-0",server="default/m",namespace="default",model="m",version="1"'
    assert f"mizzen_batch_size_sum{{{of}}} 4" in lines
    assert f"mizzen_queue_wait_seconds_count{{{of}}} 4" in lines
    assert 'mizzen_refused_total{gateway="gateway-0",code="404"} 1' in lines
    assert any(line.startswith('process_resident_memory_bytes{gateway="gateway-0"} ') for line in lines)
    assert any(line.startswith('process_cpu_seconds_total{gateway="gateway-0"} ') for line in lines)
