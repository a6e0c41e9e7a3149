"""Services that speak Seldon's protocol."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.component.gateway.services.world import Asked, World, entry, http, json_entry, played

ONE = {"data": {"ndarray": [[1.5]]}}


@pytest.mark.parametrize(
    ("entries", "data"),
    [
        (
            [entry("x", "FP64", [1, 2], [1.0, 2.5])],
            {"names": [], "tensor": {"shape": [1, 2], "values": [1.0, 2.5]}},
        ),
        ([entry("x", "BOOL", [2], [True, False])], {"names": ["x"], "tensor": {"shape": [2], "values": [1, 0]}}),
        ([json_entry("s", "BYTES", [1, 2], ["a", "b"])], {"names": [], "ndarray": [["a", "b"]]}),
        (
            [entry("a", "INT64", [2], [1, 2]), entry("b", "BYTES", [2, 1], ["x", "y"])],
            {"names": ["a", "b"], "ndarray": [[1, "x"], [2, "y"]]},
        ),
    ],
)
@played
async def test_tensors_are_one_array(world: World, entries: Any, data: Any) -> None:
    server = await world.server(http(ONE))
    pool = world.pool(server.address(), path="/predict", protocol="seldon")
    assert (await world.ask(pool, Asked(entries))).code == 200
    assert server.requests[0].line == "POST /predict HTTP/1.1"
    assert server.requests[0].json == {"data": data}


@pytest.mark.parametrize(
    ("data", "outputs"),
    [
        ({"ndarray": [[1, 2]]}, {"predictions": ("INT64", [1, 2], [1, 2])}),
        ({"names": ["t:0"], "ndarray": [["cat"]]}, {"predictions": ("BYTES", [1, 1], [b"cat"])}),
        ({"tensor": {"shape": [2, 1], "values": [0.5, 1]}}, {"predictions": ("FP64", [2, 1], [0.5, 1.0])}),
        ({"tensor": {"shape": [0]}}, {"predictions": ("INT64", [0], [])}),
        (
            {"names": ["label", "p"], "ndarray": [["cat", 0.5], ["dog", 0.25]]},
            {"label": ("BYTES", [2], [b"cat", b"dog"]), "p": ("FP64", [2], [0.5, 0.25])},
        ),
    ],
)
@played
async def test_an_array_comes_back(world: World, data: Any, outputs: Any) -> None:
    server = await world.server(http({"meta": {}, "data": data}))
    call = await world.ask(world.pool(server.address(), protocol="seldon"))
    assert call.outputs == outputs


@pytest.mark.parametrize(
    ("place", "route"), [(0, "b"), (1, "c"), (1.0, "c"), (-1, "*"), (-2, ""), (2, None), (-3, None), (0.5, None)]
)
@played
async def test_routers_answer_with_the_place_of_a_branch(world: World, place: float, route: str | None) -> None:
    server = await world.server(http({"data": {"ndarray": [[place]]}}))
    call = Asked([entry("x", "FP64", [1], [1.0])])
    call.asks = {"routable_nodes": "b,c"}
    await world.ask(world.pool(server.address(), path="/route", protocol="seldon"), call)
    assert call.route == route
    if route is None:
        assert call.code == 502
        assert f"it routes to [{place}], which is not one of its 2 branches: b,c" in call.text
    else:
        assert call.outputs == {}, "what it answers is no message"


@played
async def test_routers_may_say_it_by_header_and_change_the_message(world: World) -> None:
    server = await world.server(
        http({"data": {"ndarray": [[7.5]]}}, "200 OK", "MLGraph-Route: c"), http({}, "200 OK", "MLGraph-Route: *")
    )
    pool = world.pool(server.address(), path="/route", protocol="seldon")
    changed, plain = (Asked([entry("x", "FP64", [1], [1.0])]) for _ in range(2))
    changed.asks = plain.asks = {"routable_nodes": "b,c"}
    await world.ask(pool, changed)
    assert (changed.route, changed.outputs) == ("c", {"predictions": ("FP64", [1, 1], [7.5])})
    await world.ask(pool, plain)
    assert (plain.route, plain.outputs) == ("*", {})


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("x", "FP64", [1], [math.inf])], "input 'x' holds NaN or Infinity"),
        ([entry("x", "BYTES", [1], [b"\xff"])], "input 'x' holds bytes that are not valid UTF-8"),
        ([entry("a", "INT64", [1], [1]), entry("b", "INT64", [1, 2], [1, 2])], "input 'b' has shape [1, 2]"),
        ([entry("a", "INT64", [1], [1]), entry("b", "INT64", [2], [1, 2])], "differ in rows: 'a' [1], 'b' [2]"),
    ],
)
@played
async def test_what_is_no_array_is_the_fault_of_who_gave_it(world: World, entries: Any, words: str) -> None:
    server = await world.server(http(ONE))
    call = await world.ask(world.pool(server.address(), protocol="seldon"), Asked(entries))
    assert (call.code, server.requests) == (400, [])
    assert words in call.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "its body has no data"),
        ({"data": {}}, "neither tensor nor ndarray"),
        ({"jsonData": {"a": 1}}, "its body has jsonData, which cannot become tensors"),
        ({"strData": "a"}, "its body has strData"),
        ({"data": {"ndarray": 1}}, "its data.ndarray is not a list"),
        ({"data": {"ndarray": [[1], [1, 2]]}}, "same length and depth"),
        ({"data": {"ndarray": [["a", 1]]}}, "only numbers, only booleans or only strings"),
        ({"data": {"tensor": [1]}}, "not an object with shape and values"),
        ({"data": {"tensor": {"shape": [2], "values": [1]}}}, "has 1 values; shape [2] needs 2"),
        ({"data": {"tensor": {"shape": [-1], "values": [1]}}}, "an invalid shape"),
        ({"data": {"tensor": {"shape": [1], "values": [[1]]}}}, "shape [1] needs"),
        ({"status": {"status": "FAILURE", "info": "bad luck"}}, "its body is an error: bad luck"),
    ],
)
@played
async def test_what_is_no_answer_is_said_to_be_none(world: World, body: Any, words: str) -> None:
    server = await world.server(http(body))
    call = await world.ask(world.pool(server.address(), protocol="seldon"))
    assert call.code == 502
    assert words in call.text


@played
async def test_its_errors_are_where_it_has_them(world: World) -> None:
    server = await world.server(http({"status": {"info": "no column 'a'", "status": 1}}, "400 Bad Request"))
    call = await world.ask(world.pool(server.address(), protocol="seldon"))
    assert (call.code, call.text) == (400, "no column 'a'")
