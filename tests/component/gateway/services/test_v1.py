"""Services that speak V1."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from tests.component.gateway.services.world import Asked, World, entry, http, json_entry, played


@pytest.mark.parametrize(
    ("entries", "instances"),
    [
        ([entry("x", "FP64", [2, 2], [1.0, 2.0, 3.0, 4.0])], [[1.0, 2.0], [3.0, 4.0]]),
        ([json_entry("x", "INT32", [2, 2], [1, 2, 3, 4])], [[1, 2], [3, 4]]),
        ([json_entry("x", "INT32", [2, 2], [[1, 2], [3, 4]])], [[1, 2], [3, 4]]),
        ([json_entry("x", "INT32", [2], [1, 2])], [1, 2]),
        ([entry("x", "BYTES", [1], ["é"])], ["é"]),
        ([entry("x", "BYTES", [1], [b"\xff"])], [{"b64": base64.b64encode(b"\xff").decode()}]),
        (
            [entry("a", "INT64", [2], [1, 2]), entry("b", "BYTES", [2, 1], ["x", "y"])],
            [{"a": 1, "b": ["x"]}, {"a": 2, "b": ["y"]}],
        ),
    ],
)
@played
async def test_a_row_is_an_instance(world: World, entries: Any, instances: Any) -> None:
    server = await world.server(http({"predictions": [1]}))
    pool = world.pool(server.address(), path="/v1/models/m:predict", protocol="v1")
    assert (await world.ask(pool, Asked(entries))).code == 200
    assert server.requests[0].line == "POST /v1/models/m:predict HTTP/1.1"
    assert server.requests[0].json == {"instances": instances}


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ({"predictions": [1, 2]}, {"predictions": ("INT64", [2], [1, 2])}),
        ({"predictions": [[1, 2.5]]}, {"predictions": ("FP64", [1, 2], [1.0, 2.5])}),
        ({"predictions": [True]}, {"predictions": ("BOOL", [1], [True])}),
        ({"predictions": ["a"]}, {"predictions": ("BYTES", [1], [b"a"])}),
        ({"predictions": [{"b64": "/w=="}]}, {"predictions": ("BYTES", [1], [b"\xff"])}),
        ({"predictions": [{"b64": "/w=="}, "a"]}, {"predictions": ("BYTES", [2], [b"\xff", b"a"])}),
        ({"predictions": []}, {"predictions": ("INT64", [0], [])}),
        (
            {"predictions": [{"a": 1, "b": [0.5]}, {"a": 2, "b": [1.5]}]},
            {"a": ("INT64", [2], [1, 2]), "b": ("FP64", [2, 1], [0.5, 1.5])},
        ),
        ({"outputs": [[1]]}, {"predictions": ("INT64", [1, 1], [1])}),
        ({"outputs": {"a": [1], "b": ["x"]}}, {"a": ("INT64", [1], [1]), "b": ("BYTES", [1], [b"x"])}),
    ],
)
@played
async def test_what_values_are_is_seen_from_them(world: World, body: Any, outputs: Any) -> None:
    server = await world.server(http(body))
    call = await world.ask(world.pool(server.address(), protocol="v1"))
    assert call.outputs == outputs


@played
async def test_a_tensor_without_name_is_the_one_that_was_asked_for(world: World) -> None:
    server = await world.server(http({"predictions": [1]}))
    pool = world.pool(server.address(), protocol="v1")
    assert list((await world.ask(pool, Asked([entry("x", "FP64", [1], [1.0])], ["score"]))).outputs) == ["score"]
    assert (await world.ask(pool, Asked([entry("x", "FP64", [1], [1.0])], ["a", "b"]))).code == 502


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("x", "FP64", [], [1.0])], "input 'x' has no rows"),
        ([entry("x", "FP64", [1], [math.nan])], "input 'x' holds NaN or Infinity"),
        ([entry("a", "INT64", [1], [1]), entry("b", "INT64", [2], [1, 2])], "'a' [1], 'b' [2]"),
        ([json_entry("x", "INT64", [2, 2], [1, 2, 3])], "input 'x': data does not fit shape [2, 2]"),
    ],
)
@played
async def test_what_cannot_be_put_in_v1_is_the_fault_of_who_gave_it(world: World, entries: Any, words: str) -> None:
    server = await world.server(http({"predictions": [1]}))
    pool = world.pool(server.address(), protocol="v1")
    call = await world.ask(pool, Asked(entries))
    assert (call.code, server.requests) == (400, [])
    assert words in call.text
    assert (await world.ask(pool)).code == 200
    assert server.connections == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"nonsense", "its body is not JSON"),
        (b'{"predictions":' + b"[" * 5000, "its body is nested too deeply"),
        (b'{"predictions":[' + b"[]," * 1_000_001, "more than 1000000 lists and objects"),
        ([1], "its body is not an object"),
        ({}, "neither predictions nor outputs"),
        ({"error": "no such model"}, "its body is an error: no such model"),
        ({"predictions": 1}, "its predictions are not a list"),
        ({"predictions": [[1], [1, 2]]}, "output 'predictions': lists must have the same length and depth"),
        ({"predictions": [1, "a"]}, "only numbers, only booleans or only strings"),
        ({"predictions": [None]}, "only numbers, only booleans or only strings"),
        ({"predictions": [2**70]}, "outside the range of INT64"),
        ({"predictions": [{"a": 1}, {"b": 1}]}, "predictions[1] is not an object with the same names"),
        ({"predictions": [{"a": 1}, 2]}, "predictions[1] is not an object with the same names"),
        ({"predictions": [{"b64": "no"}]}, "not base64 text"),
    ],
)
@played
async def test_what_is_no_answer_is_said_to_be_none(world: World, body: Any, words: str) -> None:
    server = await world.server(http(body))
    call = await world.ask(world.pool(server.address(), protocol="v1"))
    assert call.code == 502
    assert words in call.text
