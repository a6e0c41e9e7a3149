"""Fast path for graphs that are one ensemble: the members get the request, and one node merges their outputs.

Each request has one call per member and one list of their outputs. The behavior is the same as in `execution`: if a
member fails, the request waits for the members before it, but not for those after it.
"""

from __future__ import annotations

from typing import Any

from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.targets import CallTarget, NodeCall
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.response_parameters import ResponseParameters, Value
from mizzen.gateway.queueing.call import BAD_REQUEST, FAILED, LOST, OK, Call
from mizzen.graph import merging, messages
from mizzen.graph.fast_mean import FastMean
from mizzen.graph.prepared_nodes import PreparedNode
from mizzen.protocol.v2 import Entry
from mizzen.selection.records.record import encode_record


class EnsembleFastPath:
    """One ensemble and its members."""

    __slots__ = (
        "bound", "keys", "means", "merge_node", "node_stats", "order", "parameters", "place", "targets", "votes",
        "weights",
    )  # fmt: skip

    def __init__(self, bound: BoundGraph) -> None:
        *members, conductor = bound.shapes
        merge = conductor.merge
        assert merge is not None
        self.bound = bound
        self.merge_node = conductor
        self.place = conductor.place
        self.targets: list[CallTarget] = [shape.target for shape in members]
        self.node_stats = bound.node_stats
        self.order = conductor.spec.dependencies
        """The places of members, in the order of the ensemble's spec."""
        self.keys = [bound.shapes[place].name for place in self.order]
        self.weights = list(conductor.weights)
        self.votes = merge.kind == "vote"
        self.means = FastMean(self.weights, merge.threshold)
        names = [shape.name for shape in bound.shapes]
        nodes: dict[str, Value] = {"nodes": ",".join(names)}
        what = b""
        if bound.writer is not None:
            ran = [(shape.name, shape.target.version) for shape in members]
            what = encode_record(bound.graph.generation, [], ran)
        self.parameters = ResponseParameters(nodes, bound.writer, what)

    def submit(self, call: Call) -> None:
        item = call.item
        if not isinstance(call, Inference) or len(item) == 1:
            self.bound.submit(call)
            return
        ensemble_call = EnsembleCall(self, call)
        call.work = ensemble_call
        entries, names = item[0], item[1]
        now = call.began
        member_calls = ensemble_call.member_calls = [
            MemberCall(ensemble_call, place) for place in range(len(self.targets))
        ]
        node_stats = self.node_stats
        for member_call, target in zip(member_calls, self.targets, strict=True):
            if not member_call.pending:
                continue  # a member before it has failed already
            node_stats[member_call.place].ran += 1
            member_call.begin(call, target, entries, names, now)


def is_ensemble(bound: BoundGraph) -> bool:
    *members, merge_node = bound.shapes
    merge, count = merge_node.merge, len(members)
    if merge is None or merge.kind == "call" or merge.partial or count < 2 or merge_node.spec.call is not None:
        return False
    if sorted(merge_node.spec.dependencies) != list(range(count)) or merge_node.spec.children:
        return False
    return _is_plain(merge_node) and all(
        _is_plain(shape) and not shape.width and shape.target is not None and shape.spec.children == (count,)
        for shape in members
    )


def _is_plain(shape: PreparedNode) -> bool:
    return shape.route is None and shape.timeout is None and not shape.skip and not shape.lacking


class EnsembleCall:
    """One request to an ensemble."""

    __slots__ = ("_call", "_failure", "_first_failed", "_payloads", "_pending", "ensemble", "member_calls")

    def __init__(self, ensemble: EnsembleFastPath, call: Inference) -> None:
        count = len(ensemble.targets)
        self.ensemble = ensemble
        self._call = call
        self._pending = count
        self._payloads: list[bytes] = [b""] * count
        self._first_failed = count
        """The place of the first member that failed."""
        self._failure: tuple[int, bytes, int, bytes] = (OK, b"", 1, b"")
        self.member_calls: list[MemberCall] = []

    def on_answer(self, place: int, payload: bytes, now: float) -> None:
        self._payloads[place] = payload
        self._pending -= 1
        if not self._pending:
            self._finish(now)

    def on_failure(self, place: int, failure: tuple[int, bytes, int, bytes], now: float) -> None:
        self._pending -= 1
        if place < self._first_failed:
            self._first_failed, self._failure = place, failure
            for member_call in self.member_calls[place + 1 :]:
                if member_call.pending:
                    self._pending -= 1
                    member_call.drop(now)
        if not self._pending:
            self._finish(now)

    def abandon(self) -> None:
        now = self.ensemble.bound.clock()
        for member_call in self.member_calls:
            member_call.drop(now)

    def _finish(self, now: float) -> None:
        call, ensemble = self._call, self.ensemble
        call.work = None
        self.member_calls = []  # breaks a reference cycle, which only the garbage collector would free
        if self._failure[0] != OK:
            code, text, retry, lacking = self._failure
            call.finish(code, text, now, retry, lacking=lacking)
            return
        _, names, *raw = call.item
        payloads = [self._payloads[place] for place in ensemble.order]
        looks = ensemble.bound.should_compare(len(payloads))
        payload = None if raw or looks or ensemble.votes else ensemble.means.render_outputs(payloads)
        try:
            if payload is None:
                payload = self._merge(payloads, names, raw[0] if raw else None, looks)
        except ValueError as fault:
            code = BAD_REQUEST if isinstance(fault, messages.UnknownOutput) else LOST
            call.finish(code, str(fault).encode(), now)
            return
        ensemble.node_stats[ensemble.place].ran += 1
        call.notes = ensemble.parameters
        if ensemble.bound.writer is not None:
            call.members = list(zip(ensemble.keys, payloads, strict=True))
        call.finish(OK, payload, now)

    def _merge(self, payloads: list[bytes], names: list[str] | None, raw: Any, looks: bool) -> bytes:
        ensemble = self.ensemble
        members = []
        for key, weight, payload in zip(ensemble.keys, ensemble.weights, payloads, strict=True):
            try:
                entries = messages.parse_reply(payload)
            except ValueError as fault:
                raise ValueError(f"node '{key}': its answer cannot be read: {fault}") from None
            members.append(merging.EnsembleMember(key, weight, entries))
        try:
            merged = merging.vote(members)[0] if ensemble.votes else merging.mean(members, ensemble.means.threshold)
        except ValueError as fault:
            raise ValueError(f"node '{ensemble.merge_node.name}': {fault}") from None
        if looks:
            ensemble.bound.compare(ensemble.merge_node, members)
        if names:
            merged = messages.select_outputs(merged, names)
        try:
            return messages.to_payload(merged, raw)
        except ValueError as fault:
            raise ValueError(f"node '{ensemble.merge_node.name}': {fault}") from None


class MemberCall(NodeCall):
    """The call of one member of an ensemble."""

    __slots__ = ("_ensemble_call", "place")

    def __init__(self, ensemble_call: EnsembleCall, place: int) -> None:
        self._ensemble_call = ensemble_call
        self.place = place
        self.pending = True

    def begin(
        self, call: Inference, target: CallTarget, entries: list[Entry], names: list[str] | None, now: float
    ) -> None:
        self.prepare(target, call, now, call.deadline)
        self.size = call.size
        signature = target.signature
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.finish(BAD_REQUEST, str(fault).encode(), now)
                return
        self.item = (entries, names, True)
        target.submit(self)

    def drop(self, now: float) -> None:
        """Cancels the call, which may not have been sent yet."""
        if hasattr(self, "target"):
            self.cancel(now)
        self.pending = False

    def on_end(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        ensemble_call, place = self._ensemble_call, self.place
        ensemble = ensemble_call.ensemble
        ensemble.node_stats[place].record_call(code, now - self.began)
        if code == OK:
            ensemble_call.on_answer(place, payload, now)
            return
        name = ensemble.bound.shapes[place].name.encode()
        ensemble_call.on_failure(
            place, (LOST if code == FAILED else code, b"node '%b': %b" % (name, payload), retry, lacking), now
        )
