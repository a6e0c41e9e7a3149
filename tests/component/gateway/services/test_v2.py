"""Services that speak V2."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.services import v2
from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import TensorRequest as Asking
from mizzen.gateway.services.response_mapping import outcome_of
from mizzen.graph import messages
from mizzen.protocol import plain_elements
from tests.component.gateway.services.world import Asked, World, entry, good, http, json_entry, played
from tests.support.golden import Golden


@played
async def test_a_call_is_one_post_and_its_outputs_come_back_raw(world: World) -> None:
    server = await world.server(good(4.25))
    pool = world.pool(server.address())
    call = await world.ask(pool, Asked([entry("x", "FP32", [1, 2], [1.5, 2.0]), entry("n", "INT64", [1], [7])]))
    assert call.outputs == {"y": ("FP64", [1], [4.25])}
    (request,) = server.requests
    assert request.line == "POST /v2/models/m/infer HTTP/1.1"
    assert request.json == {
        "id": "r-1",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.0]},
            {"name": "n", "datatype": "INT64", "shape": [1], "data": [7]},
        ],
    }
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["mizzen-request-id"] == "r-1"
    assert request.headers["mizzen-timeout-ms"] == "30000"
    assert (pool.busy, pool.in_flight, pool.counts.sent) == (0, 0, 1)


@played
async def test_json_goes_on_as_it_came_and_flat(world: World) -> None:
    server = await world.server()
    call = Asked([json_entry("a", "INT32", [2, 2], [[1, 2], [3, 4]]), json_entry("s", "BYTES", [2], ["[", "b"])])
    assert (await world.ask(world.pool(server.address()), call)).code == 200
    assert [tensor["data"] for tensor in server.requests[0].json["inputs"]] == [[1, 2, 3, 4], ["[", "b"]]


@played
async def test_outputs_may_be_wanted_as_text(world: World) -> None:
    server = await world.server(
        http({"outputs": [{"name": "y", "datatype": "INT8", "shape": [2, 1], "data": [[1], [2]]}]})
    )
    call = await world.ask(world.pool(server.address()), Asked([entry("x", "FP64", [1], [1.0])], raw=None))
    assert json.loads(call.ends[0][1]) == [{"name": "y", "datatype": "INT8", "shape": [2, 1], "data": [1, 2]}]


@played
async def test_outputs_are_asked_for_by_name_and_only_those_are_answered(world: World) -> None:
    tensors = [{"name": name, "datatype": "BOOL", "shape": [1], "data": [True]} for name in "abc"]
    server = await world.server(http({"outputs": tensors}))
    call = await world.ask(world.pool(server.address()), Asked([entry("x", "FP64", [1], [1.0])], ["c", "a"]))
    assert list(call.outputs) == ["c", "a"]
    assert server.requests[0].json["outputs"] == [{"name": "c"}, {"name": "a"}]
    missing = await world.ask(world.pool(server.address()), Asked([entry("x", "FP64", [1], [1.0])], ["z"]))
    assert (missing.code, missing.text) == (
        502,
        "'scorer' answered 200, but there is no output 'z'; available: 'a', 'b', 'c'",
    )


@played
async def test_what_json_cannot_carry_goes_as_bytes_behind_it(world: World) -> None:
    server = await world.server()
    call = Asked([
        entry("x", "FP32", [2], [math.nan, 1.0]),
        entry("plain", "INT64", [1], [3]),
        entry("s", "BYTES", [1], [b"\xff\xfe"]),
    ])  # fmt: skip
    assert (await world.ask(world.pool(server.address()), call)).code == 200
    request = server.requests[0]
    length = int(request.headers["inference-header-content-length"])
    assert request.headers["content-type"] == "application/octet-stream"
    first, plain, last = json.loads(request.body[:length])["inputs"]
    assert first["parameters"] == {"binary_data_size": 8}
    assert plain["data"] == [3]
    assert last["parameters"] == {"binary_data_size": 6}
    assert request.body[length:] == plain_elements.pack("FP32", [math.nan, 1.0]) + b"\x02\0\0\0\xff\xfe"


@played
async def test_answers_may_have_bytes_behind_them(world: World) -> None:
    text = json.dumps({"outputs": [
        {"name": "a", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
        {"name": "b", "datatype": "INT64", "shape": [1], "data": [5]},
        {"name": "c", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}},
    ]}).encode()  # fmt: skip
    body = text + plain_elements.pack("FP32", [math.inf, 2.0]) + b"\x01\0\0\0z"
    header = f"Inference-Header-Content-Length: {len(text)}"
    server = await world.server(http(body, "200 OK", header, kind="application/octet-stream"))
    call = await world.ask(world.pool(server.address()))
    assert call.outputs == {
        "a": ("FP32", [2], [math.inf, 2.0]),
        "b": ("INT64", [1], [5]),
        "c": ("BYTES", [1], [b"z"]),
    }


@pytest.mark.parametrize("reply", [http(), http(b"", "204 No Content"), http({}), http({"outputs": []})])
@played
async def test_an_answer_of_a_router_or_a_merge_may_be_empty(world: World, reply: Any) -> None:
    server = await world.server(reply, reply)
    pool = world.pool(server.address())
    call = Asked([entry("x", "FP64", [1], [1.0])])
    call.asks = {"pending_requests": "2"}
    assert (await world.ask(pool, call)).outputs == {}
    assert call.route is None
    other = await world.ask(pool)
    assert (other.code, other.text[-21:]) == (502, ", but gave no outputs")


@played
async def test_routers_are_told_what_there_is_and_answer_by_header_or_parameter(world: World, golden: Golden) -> None:
    server = await world.server(
        http(b"", "200 OK", "MLGraph-Route: b, c"),
        http({"parameters": {"route": "*"}, "outputs": []}),
        http({"parameters": {"route": ""}}),
        http({"parameters": {"route": "c"}}, "200 OK", "MLGraph-Route: c"),
        http({"parameters": {"route": "c"}}, "200 OK", "MLGraph-Route: b"),
        http({"parameters": {"route": 3}}),
    )
    pool = world.pool(server.address())
    routes = []
    for _ in range(6):
        call = Asked([entry("x", "FP64", [1], [1.0])])
        call.asks = {"routable_nodes": "b,c", "pending_requests": "2"}
        routes.append((await world.ask(pool, call)).route)
    assert routes == ["b,c", "*", "", "c", None, None]
    golden.check(call.text)
    request = server.requests[0]
    assert request.headers["mlgraph-routable-nodes"] == "b,c"
    assert request.headers["mlgraph-pending-requests"] == "2"
    assert request.json["parameters"] == {"routable_nodes": "b,c", "pending_requests": "2"}


@played
async def test_a_route_that_is_said_twice_and_differs_names_both(world: World) -> None:
    server = await world.server(http({"parameters": {"route": "c"}}, "200 OK", "MLGraph-Route: b"))
    call = await world.ask(world.pool(server.address()))
    assert call.code == 502
    assert "MLGraph-Route says 'b', and its parameter route says 'c'" in call.text


def tensor(**more: Any) -> dict[str, Any]:
    return {"outputs": [{"name": "y", "datatype": "FP64", "shape": [2], "data": [1.0, 2.0]} | more]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "the body is not JSON"),
        (b"[]", "the body: expected an object"),
        (tensor(data=[1.0]), "output 'y': data does not fit shape [2]: 1 elements, expected 2"),
        (tensor(data=[[1.0, 2.0]]), "output 'y': data does not fit shape [2]"),
        (tensor(data=["a", "b"]), "output 'y': data must hold numbers"),
        (tensor(data=None), "output 'y'"),
        (tensor(datatype="INT8", data=[1, 300]), "output 'y': data holds a number outside the range of INT8"),
        (tensor(datatype="INT9"), "outputs[0].datatype: expected one of"),
        (tensor(shape=[-1]), "outputs[0].shape"),
        (tensor(shape="2"), "outputs[0].shape"),
        ({"outputs": [{"name": "y", "datatype": "FP64", "shape": [1]}]}, "output 'y' has no data"),
        ({"outputs": [*tensor()["outputs"], *tensor()["outputs"]]}, "two outputs with the same name"),
        ({"outputs": {"y": 1}}, "outputs: expected a list"),
        ({"error": "out of memory"}, "its body is an error: out of memory"),
        (b'{"outputs":[{"name":"y","datatype":"FP64","shape":[1],"data":[NaN]}]}', "the body is not JSON"),
        (b'{"outputs":' + b"[" * 5000, "in its body, outputs[0]"),
        (tensor(parameters={"binary_data_size": 16}), "announces 16 bytes; 0 arrived"),
    ],
)
@played
async def test_what_is_no_answer_is_said_to_be_none(world: World, body: Any, words: str) -> None:
    server = await world.server(http(body), good())
    pool = world.pool(server.address())
    call = await world.ask(pool)
    assert call.code == 502
    assert call.text.startswith("'scorer' answered 200, but ")
    assert words in call.text
    assert (await world.ask(pool)).code == 200
    assert server.connections == 1, "HTTP was all right"


@pytest.mark.parametrize(
    ("length", "extra", "words"),
    [
        ("999", b"", "not a length within"),
        ("x", b"", "not a length within"),
        (None, b"12345678more", "4 bytes more than its outputs announce"),
        (None, b"1234", "announces 8 bytes; 4 arrived"),
    ],
)
@played
async def test_bytes_behind_an_answer_are_as_many_as_it_says(
    world: World, length: str | None, extra: bytes, words: str
) -> None:
    said = {"name": "y", "datatype": "FP64", "shape": [1], "parameters": {"binary_data_size": 8}}
    text = json.dumps({"outputs": [said]}).encode()
    header = f"Inference-Header-Content-Length: {length or len(text)}"
    server = await world.server(http(text + extra, "200 OK", header))
    call = await world.ask(world.pool(server.address()))
    assert call.code == 502
    assert words in call.text


VALUES = {
    "BOOL": st.booleans(), "INT8": st.integers(-128, 127), "UINT64": st.integers(0, 2**64 - 1),
    "FP32": st.floats(width=32, allow_nan=False), "FP64": st.floats(allow_nan=False),
    "BYTES": st.binary(max_size=6),
}  # fmt: skip


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, list[int], list[Any]]:
    datatype = draw(st.sampled_from(sorted(VALUES)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = math.prod(shape)
    return datatype, shape, draw(st.lists(VALUES[datatype], min_size=count, max_size=count))


@given(st.lists(tensors(), min_size=1, max_size=3))
def test_what_an_echo_gets_comes_back_as_it_was(given: list[tuple[str, list[int], list[Any]]]) -> None:
    """Whatever it is, and whichever way it has to go."""
    entries = [entry(f"t{at}", *each) for at, each in enumerate(given)]
    asking = Asking(entries, None, True, b"", {})
    written = v2.write(asking)
    lines = dict(line.lower().split(b": ", 1) for line in written.kind.split(b"\r\n") if line)
    length = int(lines.get(b"inference-header-content-length", len(written.body)))
    text = json.loads(written.body[:length])
    body = json.dumps({"outputs": text["inputs"]}).encode()
    headers = {b"inference-header-content-length": b"%d" % len(body)} if length < len(written.body) else {}
    end = outcome_of(HttpResponse(200, headers, body + written.body[length:]), asking, v2, "'echo'")
    assert end.code == 200, end.payload
    assert [(name, kind, shape, bytes(data)) for name, kind, shape, _, data in messages.parse_reply(end.payload)] == [
        (name, kind, shape, bytes(data)) for name, kind, shape, _, data in entries
    ]
