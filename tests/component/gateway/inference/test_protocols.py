"""The binary extension of V2, and V1, through both ways in: the hot one and the app."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mizzen.graph.table_types import Plan, Route, Server, Table
from mizzen.protocol import tensors
from tests.support.gateway.harness import Gateway, Response, Runtime, publish, request, table_of, until
from tests.support.gateway.models import Counting, ModelRuntime

V2, V1 = "/v2/models/m/infer", "/v1/models/m:predict"
both_ways = pytest.mark.parametrize("query", ["", "?by=asgi"])


def packed(array: Any, *, raw: Any = True, datatype: str = "FP64", **more: Any) -> tuple[bytes, dict[str, str]]:
    """A body, and the headers that belong to it."""
    data = np.asarray(array, tensors.DATATYPES[datatype].dtype).tobytes()
    shape = list(np.shape(array))
    said = {
        "inputs": [{"name": "x", "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(data)}}]
    }
    if raw is True:
        said["parameters"] = {"binary_data_output": True}  # type: ignore[assignment]
    text = json.dumps(said | more).encode()
    return text + data, {"Inference_Header_Content_Length": str(len(text))}


def read(answer: Response) -> dict[str, list[Any]]:
    """The outputs, whichever way they came."""
    assert answer.status == 200, answer
    length = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    rest = answer.body[length:]
    found = {}
    for output in json.loads(answer.body[:length])["outputs"]:
        if "data" in output:
            found[output["name"]] = output["data"]
            continue
        size = output["parameters"]["binary_data_size"]
        values = tensors.decode_raw(output["datatype"], output["shape"], rest[:size]).tolist()
        found[output["name"]] = [value.decode() if isinstance(value, bytes) else value for value in values]
        rest = rest[size:]
    assert rest == b""
    return found


@both_ways
@pytest.mark.parametrize("datatype", ["FP64", "FP32", "FP16", "INT8"])
def test_bytes_in_and_out(serve_model: Callable[..., Gateway], query: str, datatype: str) -> None:
    gateway = serve_model(Counting())
    body, headers = packed([[1, 2], [3, 4]], datatype=datatype, id="a")
    answer = gateway.ask("POST", V2 + query, body, **headers)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["mizzen-request-id"] == "a"
    assert read(answer) == {"sum": [3.0, 7.0]}


@both_ways
def test_some_outputs_as_bytes_and_some_not(serve_model: Callable[..., Gateway], query: str) -> None:
    gateway = serve_model(Counting())
    outputs = [{"name": "text", "parameters": {"binary_data": True}}, {"name": "sum"}]
    body, headers = packed([[1, 2]], raw=None, outputs=outputs)
    answer = gateway.ask("POST", V2 + query, body, **headers)
    assert read(answer) == {"text": ["1"], "sum": [3.0]}
    assert b'"data":[3.0]' in answer.body
    assert answer.body.endswith(struct.pack("<I", 1) + b"1")
    body, headers = packed([[1, 2]], raw=None)
    answer = gateway.ask("POST", V2 + query, body, **headers)
    assert answer.headers["content-type"] == "application/json"
    assert "inference-header-content-length" not in answer.headers
    assert read(answer) == {"sum": [3.0]}


def test_json_in_bytes_out(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting())
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}
    body = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    assert read(gateway.ask("POST", V2, body)) == {"sum": [3.0]}


def test_a_head_that_is_known_tells_the_length_of_the_json(serve_model: Callable[..., Gateway]) -> None:
    """Two requests with one head, byte for byte; then one with another length of its JSON."""
    gateway = serve_model(Counting())
    first, headers = packed([[1, 2]])
    second, _ = packed([[5, 6]])
    spaced = first.replace(b'{"inputs"', b'{ "inputs"', 1)
    other = {"Inference_Header_Content_Length": str(int(headers["Inference_Header_Content_Length"]) + 1)}
    with gateway.client() as client:
        for body, head, sums in ((first, headers, 3), (second, headers, 11), (first, headers, 3), (spaced, other, 3)):
            client.send(request("POST", V2, body, **head))
            assert read(client.answer()) == {"sum": [sums]}
        client.send(request("POST", V2, first, **other))
        assert client.answer().status == 400
        client.send(request("POST", V1, b'{"instances": [[1, 2]]}') * 3)
        assert [client.answer().json for _ in range(3)] == [{"predictions": [3.0]}] * 3


@both_ways
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"instances": [[1, 2], [3, 4]]}, {"predictions": [3.0, 7.0]}),
        ({"instances": [{"x": [1, 2]}]}, {"predictions": [3.0]}),
        ({"inputs": {"x": [[1, 2]]}}, {"outputs": [3.0]}),
    ],
)
def test_v1(serve_model: Callable[..., Gateway], query: str, body: Any, answer: Any) -> None:
    gateway = serve_model(Counting())
    got = gateway.ask("POST", V1 + query, json.dumps(body).encode())
    assert (got.status, got.json) == (200, answer)
    assert got.headers["mizzen-request-id"]


def test_versions_and_labels(folder: Path, start_gateway: Callable[..., Gateway]) -> None:
    """A label is an alias and only that, also where a version has its name."""
    plans = {version: Plan(servers=(f"default/m-{version}",)) for version in ("1", "2")}
    runtimes = {
        version: ModelRuntime(str(folder / f"{version}.sock"), Counting(framework=f"v{version}")) for version in plans
    }
    route = Route(
        namespace="default", name="m", version="2", plan=plans["2"], versions=plans, aliases={"stable": "1", "2": "1"}
    )
    servers = tuple(
        Server(id=f"default/m-{version}", model="m", version=version, addresses=(runtime.address,))
        for version, runtime in runtimes.items()
    )
    try:
        publish(folder / "table.json", Table(servers=servers, routes=(route,)))
        gateway = start_gateway()
        gateway.wait_ready()
        body = b'{"instances": [[1, 2]]}'
        for prefix in ("", "/ns/default"):
            for place, version in (
                ("", "2"), ("/versions/1", "1"), ("/versions/2", "2"), ("/versions/stable", "1"),
                ("/labels/stable", "1"), ("/labels/2", "1"),
            ):  # fmt: skip
                for query in ("", "?by=asgi"):
                    before = {name: runtime.items for name, runtime in runtimes.items()}
                    answer = gateway.ask("POST", f"{prefix}/v1/models/m{place}:predict{query}", body)
                    assert answer.json == {"predictions": [3.0]}
                    assert [name for name in runtimes if runtimes[name].items > before[name]] == [version]
                status = gateway.ask("GET", f"{prefix}/v1/models/m{place}").json["model_version_status"]
                assert {
                    "version": version,
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                } in status
                assert len(status) == (1 if place else 2)
                told = gateway.ask("GET", f"{prefix}/v1/models/m{place}/metadata").json
                assert told["model_spec"] == {"name": "m", "signature_name": "", "version": version}
        for place in ("/versions/3", "/labels/1", "/labels/x"):
            for query in ("", "?by=asgi"):
                answer = gateway.ask("POST", f"/v1/models/m{place}:predict{query}", body)
                assert answer.status == 404
                assert f"'{place.rpartition('/')[2]}' of 'm'" in answer.error
        assert gateway.ask("POST", "/v1/models/nobody:predict", body).status == 404
        assert gateway.ask("GET", V1).status == 405
        assert gateway.ask("POST", "/v1/models/m:explain", body).status == 404
    finally:
        for runtime in runtimes.values():
            runtime.close()


def test_what_waited_for_a_version_is_answered_in_its_own_words_by_the_next(
    folder: Path, start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway]
) -> None:
    old, new = start_runtime("old"), start_runtime("new")
    publish(folder / "table.json", table_of(old.address))
    gateway = start_gateway()
    gateway.wait_ready()
    old.held = True
    with gateway.client() as first, gateway.client() as second:
        first.send(request("POST", V1, b'{"instances": [[1, 2]]}'))
        until(lambda: old.items == 1)
        second.send(request("POST", V1, b'{"instances": [[3, 4]]}'))
        until(lambda: gateway.figure("mizzen_queue_length") == 1)
        publish(folder / "table.json", table_of(new.address, serial=2, version="2"))
        assert second.answer().json == {"predictions": [7]}
        old.release()
        assert first.answer().json == {"predictions": [3]}
    assert new.batches == [[[b'{"instances": [[3, 4]]}']]]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "x-gzip", "identity", "GZIP", "bare deflate"])
def test_bodies_may_be_packed(serve_model: Callable[..., Gateway], encoding: str) -> None:
    gateway = serve_model(Counting())
    machine = zlib.compressobj(wbits=-15)
    pack: dict[str, Callable[[bytes], bytes]] = {
        "identity": bytes,
        "deflate": zlib.compress,
        "bare deflate": lambda body: machine.compress(body) + machine.flush(),
    }
    body, headers = packed([[1, 2]])
    sent = pack.get(encoding, gzip.compress)(body)
    for _ in range(2):  # a head that were remembered would be taken for an unpacked one
        answer = gateway.ask("POST", V2, sent, Content_Encoding=encoding.rpartition(" ")[2], **headers)
        assert read(answer) == {"sum": [3.0]}


@pytest.mark.parametrize(
    ("encoding", "body", "code", "error"),
    [
        ("br", b"x", 415, "header Content-Encoding: 'br' is not supported; expected gzip or deflate"),
        ("gzip, gzip", b"x", 415, "'gzip, gzip' is not supported"),
        ("gzip", b"{}", 400, "the body is not valid gzip"),
        ("deflate", b"{}", 400, "the body is not valid deflate"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-3], 400, "the body is not valid gzip: it is truncated"),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"x", 400, "the body is not valid gzip: data follows its end"),
        ("gzip", b"", 400, "the body is empty"),
        ("gzip", gzip.compress(b" " * (1 << 20) + b"{}", mtime=0), 413, "larger than 1048576 bytes"),
        ("deflate", zlib.compress(bytes(16 << 20)), 413, "larger than 1048576 bytes"),
    ],
)
def test_what_cannot_be_unpacked(
    serve_model: Callable[..., Gateway], encoding: str, body: bytes, code: int, error: str
) -> None:
    model = Counting()
    answer = serve_model(model).ask("POST", V2, body, Content_Encoding=encoding)
    assert answer.status == code
    assert error in answer.error
    assert model.calls == []


def test_whatever_the_type_is_called_it_is_read_as_json(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting())
    body = b'{"instances": [[1, 2]]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/octet-stream", "nonsense", ""):
        assert gateway.ask("POST", V1, body, Content_Type=kind).json == {"predictions": [3.0]}
