"""Fast paths for graphs of a simple shape: one node, a choice between nodes, a chain.

After a single choice, the request itself goes into the queue of the chosen node; its parameters and counters are
prepared when the graph is bound. In a chain, a single call moves from queue to queue. The behavior is the same as in
`execution`, which also handles unusual cases (V1 through a chain, a graph that calls this one).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from mizzen.gateway.graphs.bound_graph import BoundGraph, Pick
from mizzen.gateway.graphs.ensemble import EnsembleFastPath, is_ensemble
from mizzen.gateway.graphs.node_stats import NodeStats
from mizzen.gateway.graphs.targets import CallTarget, NodeCall
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.response_parameters import RecordedCall, ResponseParameters, Value
from mizzen.gateway.queueing.call import BAD_REQUEST, FAILED, LOST, MAX_SECONDS, OK, Call
from mizzen.gateway.queueing.signature import SignatureCheck
from mizzen.gateway.telemetry.counters import GONE
from mizzen.graph import messages
from mizzen.graph.executor import Entries
from mizzen.graph.prepared_nodes import PreparedNode
from mizzen.protocol.frames.framing import RAW
from mizzen.protocol.v2 import Entry
from mizzen.selection.records.record import encode_record

MAX_FORMS = 64
"""Cached forms of the replies of one node."""
_LENGTH = struct.Struct("<I")

Submit = Callable[[Call], None]


def submit_of(bound: BoundGraph) -> Submit:
    """Returns the function that takes each request of this graph."""
    if not bound.graph.inputs and not bound.graph.headers:
        if len(bound.shapes) == 1 and _is_leaf(bound.shapes[0]):
            return _branch_submit(bound, None, [bound.shapes[0]], lambda user, head: (0, 1.0))
        pick = _picker_of(bound)
        if pick is not None:
            root = bound.shapes[0]
            return _branch_submit(bound, root, [child for child, _ in root.next], pick)
        if _is_chain(bound):
            return _chain_submit(bound)
        if is_ensemble(bound):
            return EnsembleFastPath(bound).submit
    return bound.submit


class BranchResponse(ResponseParameters):
    """One branch of a choice: its parameters and counters."""

    __slots__ = ("_node", "_parent_stats", "_stats", "bounded", "counters", "queue", "submit", "timeout")

    def __init__(self, bound: BoundGraph, root: PreparedNode | None, shape: PreparedNode) -> None:
        nodes = [shape] if root is None else [root, shape]
        parameters: dict[str, Value] = {"nodes": ",".join(each.name for each in nodes)}
        if root is not None:
            parameters["routing"] = f"{root.name}={shape.name}"
        target: CallTarget = shape.target
        endpoint = target.endpoint
        assert endpoint is not None
        what = b""
        if bound.writer is not None:
            decisions = [] if root is None else [(root.name, shape.name, 0.0)]
            what = encode_record(bound.graph.generation, decisions, [(shape.name, endpoint.version)])
        super().__init__(parameters, bound.writer, what)
        self.queue = endpoint.queues[0]
        self.submit = target.submit
        self.timeout = target.timeout
        most = bound.graph.timeout_ms
        self.bounded = target.timeout < (MAX_SECONDS if most is None else most / 1000)
        self.counters = endpoint.counters
        self._node = shape.name
        self._stats = bound.node_stats[shape.place]
        self._parent_stats = NodeStats() if root is None else bound.node_stats[root.place]

    def on_answer(self, call: RecordedCall, payload: bytes, now: float) -> None:
        seconds = now - call.began
        self.counters.record_end(OK, seconds)
        stats = self._stats
        stats.answered += 1
        stats.seconds += seconds
        self._count()
        if self.writer is not None:
            self.writer.write(call, self.record, payload)

    def on_failure(self, call: RecordedCall, code: int, text: bytes, now: float) -> tuple[int, bytes]:
        self.counters.record_end(code, now - call.began)
        self._stats.codes[code] += 1
        self._count()
        return LOST if code == FAILED else code, b"node '%b': %b" % (self._node.encode(), text)

    def on_cancel(self, call: RecordedCall, now: float) -> None:
        self.counters.record_end(GONE, now - call.began)
        self._count()

    def on_move(self) -> None:
        self.counters.in_flight -= 1

    def _count(self) -> None:
        above = self._parent_stats
        above.ran += 1
        above.chosen[self._node] += 1
        self._stats.ran += 1


def _branch_submit(bound: BoundGraph, root: PreparedNode | None, ends: Sequence[PreparedNode], pick: Pick) -> Submit:
    branches = [BranchResponse(bound, root, shape) for shape in ends]

    def submit(call: Call) -> None:
        if not isinstance(call, Inference):
            bound.submit(call)
            return
        branch = branches[pick(call.user, call.head)[0]]
        call.notes = branch
        branch.counters.in_flight += 1
        if branch.bounded:
            call.deadline = min(call.deadline, call.began + branch.timeout)
        item = call.item
        signature = branch.queue.signature
        if signature is not None and len(item) > 1:
            try:
                entries = signature.adapt(item[0])
            except ValueError as fault:
                call.finish(BAD_REQUEST, str(fault).encode(), bound.clock())
                return
            if entries is not item[0]:
                call.item = (entries, *item[1:])
        branch.submit(call)

    return submit


def _picker_of(bound: BoundGraph) -> Pick | None:
    """Returns the picker if the graph is a single choice between leaves, else None."""
    root, *others = bound.shapes
    route = root.route
    if root.width or root.spec.call is not None or route is None or route.kind == "call" or root.shadows:
        return None
    if len(others) != len(root.next) or not all(_is_leaf(shape) and shape.width == 1 for shape in others):
        return None
    if root.lacking or root.skip or len(others) < 2 or (route.policy is not None and route.policy.name == "exp3"):
        return None  # with exp3, each answer shows its probability
    return bound.picks[0]


def _is_leaf(shape: PreparedNode) -> bool:
    """Whether the node only calls a model of this gateway and returns its answer."""
    target: CallTarget | None = shape.target
    plain = shape.merge is None and shape.timeout is None and not (shape.skip or shape.lacking or shape.spec.children)
    if not plain or target is None or target.endpoint is None:
        return False
    return target.endpoint.bound is None and bool(target.endpoint.queues)


# Chains


def _is_chain(bound: BoundGraph) -> bool:
    for place, shape in enumerate(bound.shapes):
        before = () if place == 0 else (place - 1,)
        if shape.spec.dependencies != before or shape.target is None or shape.merge is not None:
            return False
        if shape.route is not None or shape.timeout is not None or shape.skip or shape.lacking:
            return False
    return len(bound.shapes) > 1


def _chain_submit(bound: BoundGraph) -> Submit:
    chain = ChainFastPath(bound)

    def submit(call: Call) -> None:
        if not isinstance(call, Inference) or len(call.item) == 1:
            bound.submit(call)
            return
        chain_call = ChainCall(chain, call)
        call.work = chain_call
        chain_call.prepare(chain.targets[0], call, call.began, call.deadline)
        chain_call.submit_to_node(call.item[0])

    return submit


ReplyForm = tuple[str, str, list[int], int, SignatureCheck | None]
"""For a reply with one tensor: the entry for the next node, its size in bytes, and the signature that it was checked
against."""


class ChainFastPath:
    __slots__ = ("bound", "forms", "last", "parameters", "targets")

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.targets: list[CallTarget] = [shape.target for shape in bound.shapes]
        self.last = len(self.targets) - 1
        self.forms: list[dict[bytes, ReplyForm]] = [{} for _ in self.targets]
        """By node and the head of its reply: nearly all replies of one node have the same form."""
        nodes: dict[str, Value] = {"nodes": ",".join(shape.name for shape in bound.shapes)}
        what = b""
        if bound.writer is not None:
            ran = [(shape.name, target.version) for shape, target in zip(bound.shapes, self.targets, strict=True)]
            what = encode_record(bound.graph.generation, [], ran)
        self.parameters = ResponseParameters(nodes, bound.writer, what)


class ChainCall(NodeCall):
    """A call that moves from one node of a chain to the next."""

    __slots__ = ("_call", "_chain", "_place", "_reply_head")

    _reply_head: bytes
    """The head of the previous node's reply."""

    def __init__(self, chain: ChainFastPath, call: Inference) -> None:
        self._chain = chain
        self._call = call
        self._place = 0
        self.pending = True
        self.size = call.size

    def advance(self, entries: Entries, now: float, *, fits: bool = False) -> None:
        """Moves the call to the next node. `fits`: the entries are known to match its signature."""
        place = self._place = self._place + 1
        target = self.target = self._chain.targets[place]
        self.pending = True
        self.retry_alone = False
        self.began = now
        self.deadline = min(self._call.deadline, now + target.timeout)
        endpoint = target.endpoint
        if endpoint is not None:
            self.endpoint = endpoint
            endpoint.counters.in_flight += 1
        self.submit_to_node(entries, fits=fits)

    def submit_to_node(self, entries: Entries, *, fits: bool = False) -> None:
        """Submits the call to the current node."""
        chain, call, place, target = self._chain, self._call, self._place, self.target
        signature = None if fits else target.signature
        chain.bound.node_stats[place].ran += 1
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.finish(BAD_REQUEST, str(fault).encode(), self.began)
                return
        if place and not fits and len(entries) == 1 and entries[0][3] == RAW:
            self._remember(entries[0], signature)
        self.item = (entries, *call.item[1:]) if place == chain.last else (entries, None, True)
        target.submit(self)

    def on_end(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        chain, place = self._chain, self._place
        chain.bound.node_stats[place].record_call(code, now - self.began)
        if code != OK:
            self._finish(*self._failure(code, payload), now, retry, lacking)
            return
        if place == chain.last:
            self._call.notes = chain.parameters
            self._finish(OK, payload, now)
            return
        at = _LENGTH.unpack_from(payload)[0] + 4 if len(payload) >= 4 else 0
        head = payload[:at]
        form = chain.forms[place].get(head)
        if form is not None:
            name, datatype, shape, size, signature = form
            if len(payload) - at == size and chain.targets[place + 1].signature is signature:
                self.size = size
                self.advance([(name, datatype, shape, RAW, memoryview(payload)[at:])], now, fits=True)
                return
        try:
            entries = messages.bytes_to_text(messages.parse_reply(payload))
        except ValueError as fault:
            node = chain.bound.shapes[place].name
            self._finish(LOST, f"node '{node}': its answer cannot be read: {fault}".encode(), now)
            return
        self.size = messages.size_of(entries)
        self._reply_head = head
        self.advance(entries, now)

    def _remember(self, entry: Entry, signature: SignatureCheck | None) -> None:
        forms = self._chain.forms[self._place - 1]
        if len(forms) >= MAX_FORMS:
            forms.clear()
        name, datatype, shape, _, data = entry
        forms[self._reply_head] = name, datatype, shape, len(data), signature

    def abandon(self) -> None:
        self.cancel(self._chain.bound.clock())

    def _finish(self, code: int, payload: bytes, now: float, retry: int = 1, lacking: bytes = b"") -> None:
        self._call.work = None
        self._call.finish(code, payload, now, retry, lacking=lacking)

    def _failure(self, code: int, payload: bytes) -> tuple[int, bytes]:
        shapes, place = self._chain.bound.shapes, self._place
        name, text = shapes[place].name, payload.decode(errors="replace")
        if (
            code == BAD_REQUEST
            and place
            and not (place == self._chain.last and self.target.lacks_output(self._output_names()))
        ):
            return LOST, f"node '{name}' cannot take the output of node '{shapes[place - 1].name}': {text}".encode()
        return LOST if code == FAILED else code, f"node '{name}': {text}".encode()

    def _output_names(self) -> list[str] | None:
        """Returns the outputs that the caller requested, with the names of the last node."""
        names: tuple[list[str] | None, ...] = self._call.item[1:2]
        return names[0] if names else None
