"""Graphs of a simple shape answer what a walk through them would, in whichever order members answer or fail."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.access.policy import Target as PolicyTarget
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.fast_paths import submit_of
from mizzen.gateway.graphs.node_stats import NodeStats
from mizzen.gateway.graphs.targets import CallTarget
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import JSON, V2
from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.signature import Hello, HelloTensor, SignatureCheck
from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.gateway.telemetry.counters import Counters
from mizzen.graph import merging, messages, table_types
from mizzen.graph.fast_mean import FastMean
from mizzen.protocol.frames import framing

INPUT = [("x", "FP64", [1], framing.RAW, memoryview(struct.pack("<d", 1.0)))]


class Client(Inference):
    """A request whose answer is looked at."""

    def __init__(self, names: list[str] | None, raw: Any) -> None:
        policy = PolicyTarget("default", "Model", "g", models=frozenset({"g"}))
        self.endpoint = Endpoint(
            "default", "g", "1", None, policy, (), lambda call: None, 60.0, b'{"id":', Counters(), lambda: b"new", V2
        )
        self.codec = V2
        self.endpoint.counters.in_flight = 1
        self.id_json = b'"an-id"'
        self.id = b"an-id"
        self.head = EMPTY_HEAD
        self.notes = self.work = None
        self.plain = not raw
        self.user = ""
        self.members = ()
        self.node_calls = 0
        self.pending, self.retry_alone = True, False
        self.size, self.began, self.deadline = 10, 0.0, 60.0
        self.item = (INPUT, names, raw) if raw else (INPUT, names)
        self.replies: list[tuple[int, bytes]] = []

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        self.replies.append((code, body))


class Asked(CallTarget):
    """What a node calls; somebody answers later."""

    def __init__(self) -> None:
        super().__init__(missing="-")
        self.calls: list[Call] = []
        self.submit = self.calls.append


def payload_of(values: list[float], datatype: str = "FP64", name: str = "y") -> bytes:
    code = {"FP64": "d", "INT64": "q", "FP32": "f"}[datatype]
    data = struct.pack(f"<{len(values)}{code}", *values)
    text = json.dumps(
        [{"name": name, "datatype": datatype, "shape": [len(values)], "parameters": {"binary_data_size": len(data)}}],
        separators=(",", ":"),
    ).encode()
    return struct.pack("<I", len(text)) + text + data


def ensemble(count: int, weights: tuple[float, ...], kind: Any) -> table_types.CompiledGraph:
    members = tuple(
        table_types.Node(name=f"m{at}", children=(count,), call=table_types.Callee(name="any")) for at in range(count)
    )
    merge = table_types.Merging(kind=kind, weights=weights)
    joined = table_types.Node(name="joined", dependencies=tuple(range(count)), merge=merge)
    return table_types.CompiledGraph(uid="u", generation=1, nodes=(*members, joined))


def chain(count: int) -> table_types.CompiledGraph:
    nodes = [
        table_types.Node(
            name=f"m{at}",
            dependencies=(at - 1,) if at else (),
            children=(at + 1,) if at + 1 < count else (),
            call=table_types.Callee(name="any"),
        )
        for at in range(count)
    ]
    return table_types.CompiledGraph(uid="u", generation=1, nodes=tuple(nodes))


def bound(graph: table_types.CompiledGraph) -> tuple[BoundGraph, list[Asked]]:
    made = BoundGraph(
        graph, node_stats=[NodeStats() for _ in graph.nodes], clock=lambda: 1.0, rng=Random(0),
        select=lambda *_: None, writer=None,  # type: ignore[arg-type]
    )  # fmt: skip
    targets: list[Asked] = []

    def find(callee: table_types.Callee) -> CallTarget:
        targets.append(Asked())
        return targets[-1]

    made.bind(find)
    return made, targets


Outcome = tuple[int, bytes]


def played(
    graph: table_types.CompiledGraph, submit: Callable[[BoundGraph], Callable[[Call], None]], outcomes: list[Outcome],
    order: list[int], form: tuple[list[str] | None, Any],
) -> tuple[list[tuple[int, bytes]], list[int]]:  # fmt: skip
    """What the client gets, and how many calls of each member nobody wanted any more when it was its turn."""
    made, targets = bound(graph)
    client = Client(*form)
    submit(made)(client)
    unwanted = []
    for place in order:
        for call in targets[place].calls:
            if not call.pending:
                unwanted.append(place)
            code, payload = outcomes[place]
            call.finish(code, payload, 2.0)
    return client.replies, unwanted


values = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=3)


@given(st.data())
def test_an_ensemble_is_a_walk(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 5))
    width = data.draw(st.integers(1, 3))
    datatype = data.draw(st.sampled_from(["FP64", "INT64", "FP32"]))
    weights = data.draw(
        st.sampled_from([(), tuple(float(at + 1) for at in range(count)), (0.0,) * (count - 1) + (1.0,)])
    )
    kind = data.draw(st.sampled_from(["mean", "vote"]))

    def outcome() -> Outcome:
        code = data.draw(st.sampled_from([200] * 8 + [400, 500, 503, 504]))
        if code != 200:
            return code, b"broken"
        size = data.draw(st.sampled_from([width] * 9 + [width + 1]))
        whole = [float(data.draw(st.integers(-3, 3))) for _ in range(size)]
        return 200, payload_of(whole if datatype != "INT64" else [int(each) for each in whole], datatype)

    outcomes = [outcome() for _ in range(count)]
    order = data.draw(st.permutations(range(count)))
    form = data.draw(st.sampled_from([(None, None), (None, True), (["y"], None), (["other"], None)]))
    graph = ensemble(count, weights, kind)
    straight = played(graph, submit_of, outcomes, list(order), form)
    walked = played(graph, lambda made: made.submit, outcomes, list(order), form)
    assert straight == walked
    assert len(straight[0]) == 1


@given(st.integers(2, 5), st.integers(0, 5), st.sampled_from([400, 500, 502, 503, 504]))
def test_a_chain_is_a_walk(count: int, fails: int, code: int) -> None:
    graph = chain(count)
    ends = [200 if at != fails else code for at in range(count)]
    # The last one of a chain answers in the form that the client wants.
    payloads = [payload_of([at]) for at in range(count - 1)] + [b'[{"name":"y"}]']
    outcomes = [(end, payload if end == 200 else b"broken") for end, payload in zip(ends, payloads, strict=True)]
    straight = played(graph, submit_of, outcomes, list(range(count)), (None, None))
    assert straight == played(graph, lambda made: made.submit, outcomes, list(range(count)), (None, None))
    assert len(straight[0]) == 1


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize(
    ("gives", "wanted", "place", "told"),
    [
        (["y"], ["z"], 1, (400, "node 'm1': no")),
        (["y"], ["y"], 1, (502, "node 'm1' cannot take the output of node 'm0': no")),
        ([], ["z"], 1, (502, "node 'm1' cannot take the output of node 'm0': no")),
        (["y"], ["z"], 0, (400, "node 'm0': no")),
    ],
)
def test_an_output_that_nobody_gives_is_the_fault_of_who_wants_it(
    monkeypatch: pytest.MonkeyPatch,
    straight: bool,
    gives: list[str],
    wanted: list[str],
    place: int,
    told: tuple[int, str],
) -> None:
    hello = Hello("ready", outputs=[HelloTensor(name, "FP64", [-1]) for name in gives])
    monkeypatch.setattr(Asked, "hello", hello)
    outcomes = [(200, payload_of([1.0])), (200, payload_of([1.0]))]
    outcomes[place] = (400, b"no")
    [(code, body)], _ = played(
        chain(2), submit_of if straight else lambda made: made.submit, outcomes, [0, 1], (wanted, None)
    )
    assert (code, json.loads(body)["error"]) == told


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize("wanted", [None, ["z"]])
def test_what_the_first_node_cannot_take_is_the_fault_of_who_sent_it(
    monkeypatch: pytest.MonkeyPatch, straight: bool, wanted: list[str] | None
) -> None:
    hello = Hello("ready", inputs=[HelloTensor("x", "FP64", [-1, 4])], outputs=[HelloTensor("y", "FP64", [-1])])
    monkeypatch.setattr(Asked, "signature", SignatureCheck(hello))
    monkeypatch.setattr(Asked, "hello", hello)
    submit = submit_of if straight else lambda made: made.submit
    [(code, body)], _ = played(chain(2), submit, [], [], (wanted, None))
    assert code == 400
    assert json.loads(body)["error"].startswith("node 'm0': input 'x': shape [1] does not fit")


def test_who_leaves_an_ensemble_ends_all_its_calls() -> None:
    made, targets = bound(ensemble(3, (), "mean"))
    client = Client(None, None)
    submit_of(made)(client)
    calls = [target.calls[0] for target in targets[:3]]
    assert all(call.pending for call in calls)
    client.cancel(1.5)
    assert not any(call.pending for call in calls)
    for call in calls:
        call.finish(200, payload_of([1.0]), 2.0)
    assert client.replies == []


@given(st.data())
def test_means_straight_from_replies_are_those_of_a_merge(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    weights = data.draw(st.lists(st.floats(0, 5), min_size=count, max_size=count))
    datatype = data.draw(st.sampled_from(["FP64", "INT64", "FP32"]))
    one = st.floats(-1e6, 1e6, width=32) if datatype != "INT64" else st.integers(-(2**60), 2**60)
    rows = [data.draw(st.lists(one, min_size=width, max_size=width)) for _ in range(count)]
    payloads = [payload_of(row, datatype) for row in rows]
    text = FastMean(weights, None).render_outputs(payloads)
    if datatype == "FP32":
        assert text is None
        return
    assert text is not None
    members = [
        merging.EnsembleMember(f"m{at}", weight, messages.parse_reply(payload))
        for at, (weight, payload) in enumerate(zip(weights, payloads, strict=True))
    ]
    assert json.loads(text) == json.loads(messages.to_payload(merging.mean(members)))
