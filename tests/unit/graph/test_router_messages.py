"""What routers and merges that are models are asked beside the message, and how they say which nodes they take."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.graph.messages import array_of
from mizzen.graph.router_messages import add_declared_inputs, split_route
from mizzen.protocol import v2
from mizzen.protocol.frames import framing


def entry(name: str, datatype: str, text: bytes, *shape: int) -> v2.Entry:
    return name, datatype, list(shape), framing.JSON, memoryview(text)


X = entry("x", "FP64", b"[1.0]", 1)


@pytest.mark.parametrize(
    ("name", "text", "datatype", "values"),
    [
        ("routable_nodes", "b,c", "BYTES", ["b", "c"]),
        ("routable_nodes", "1", "BYTES", ["1"]),
        ("pending_requests", "2", "INT64", [2]),
    ],
)
def test_what_is_declared_is_told_as_a_tensor(name: str, text: str, datatype: str, values: list[Any]) -> None:
    first, more = add_declared_inputs([X], {name: text}, ["x", name])
    assert first is X
    assert more[:3] == (name, datatype, [len(values)])
    assert array_of(more).tolist() == values
    assert add_declared_inputs([X], {name: text}, ["x"]) == [X]


@pytest.mark.parametrize(
    ("said", "route"),
    [
        (entry("route", "BYTES", b'["b","c"]', 2), "b,c"),
        (entry("route", "BYTES", b'["*"]', 1), "*"),
        (entry("route", "BYTES", b"[]", 0), ""),
        (entry("route", "FP64", b"[]", 0), ""),
    ],
)
def test_a_route_is_read_and_left_out(said: v2.Entry, route: str) -> None:
    assert split_route([X, said]) == ([X], route)


def test_a_route_holds_names() -> None:
    assert split_route([X]) == ([X], None)
    with pytest.raises(ValueError, match="must hold node names, not FP64"):
        split_route([entry("route", "FP64", b"[1.0]", 1)])
