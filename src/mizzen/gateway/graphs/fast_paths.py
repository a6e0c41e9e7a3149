"""Graphs of a simple shape, without a walk: one node, a choice between nodes, a chain.

A request whose way is chosen once goes into the queue of whatever it leads to itself: what is told and counted besides
is made ready when the graph is bound. One that goes through a chain takes a single call along, from queue to queue.
Nothing here behaves otherwise than a walk does; what is out of the ordinary (V1 through a chain, a graph that calls
this one) is left to it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from mizzen.gateway.graphs.bound_graph import BoundGraph, Pick
from mizzen.gateway.graphs.ensemble import Chorus, is_chorus
from mizzen.gateway.graphs.node_stats import NodeTally
from mizzen.gateway.graphs.targets import Errand, Target
from mizzen.gateway.inference.calls import BAD_REQUEST, CEILING_SECONDS, FAILED, LOST, OK, Call
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.response_parameters import Notes, Value
from mizzen.gateway.inference.signature import Signature
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.graph import messages
from mizzen.graph.executor import Entries
from mizzen.graph.prepared_nodes import Shape
from mizzen.protocol.frames.framing import RAW
from mizzen.protocol.v2 import Entry
from mizzen.selection.records.record import what_of

REMEMBERED = 64
"""Forms of the replies of one node."""
_LENGTH = struct.Struct("<I")

Submit = Callable[[Call], None]


def submit_of(bound: BoundGraph) -> Submit:
    """What to do with each request of this graph."""
    if not bound.graph.inputs and not bound.graph.headers:
        if len(bound.shapes) == 1 and _is_leaf(bound.shapes[0]):
            return _chosen(bound, None, [bound.shapes[0]], lambda user, options: (0, 1.0))
        pick = _pick(bound)
        if pick is not None:
            root = bound.shapes[0]
            return _chosen(bound, root, [child for child, _ in root.next], pick)
        if _is_chain(bound):
            return _chained(bound)
        if is_chorus(bound):
            return Chorus(bound).submit
    return bound.submit


class Branch(Notes):
    """One end of a choice."""

    __slots__ = ("_above", "_node", "_tally", "bounded", "counters", "queue", "submit", "timeout")

    def __init__(self, bound: BoundGraph, root: Shape | None, shape: Shape) -> None:
        nodes = [shape] if root is None else [root, shape]
        parameters: dict[str, Value] = {"nodes": ",".join(each.name for each in nodes)}
        if root is not None:
            parameters["routing"] = f"{root.name}={shape.name}"
        target: Target = shape.target
        endpoint = target.endpoint
        assert endpoint is not None
        what = b""
        if bound.keeper is not None:
            decisions = [] if root is None else [(root.name, shape.name, 0.0)]
            what = what_of(bound.graph.generation, decisions, [(shape.name, endpoint.version)])
        super().__init__(parameters, bound.keeper, what)
        self.queue = endpoint.queues[0]
        self.submit = target.submit
        self.timeout = target.timeout
        most = bound.graph.timeout_ms
        self.bounded = target.timeout < (CEILING_SECONDS if most is None else most / 1000)
        self.counters = endpoint.counters
        self._node = shape.name
        self._tally = bound.tallies[shape.place]
        self._above = NodeTally() if root is None else bound.tallies[root.place]

    def answered(self, call: Inference, payload: bytes, now: float) -> None:
        seconds = now - call.began
        self.counters.ended(OK, seconds)
        tally = self._tally
        tally.answered += 1
        tally.seconds += seconds
        self._count()
        if self.keeper is not None:
            self.keeper.keep(call, self.what, payload)

    def failed(self, call: Inference, code: int, text: bytes, now: float) -> tuple[int, bytes]:
        self.counters.ended(code, now - call.began)
        self._tally.codes[code] += 1
        self._count()
        return LOST if code == FAILED else code, b"node '%b': %b" % (self._node.encode(), text)

    def left(self, call: Inference, now: float) -> None:
        self.counters.ended(GONE, now - call.began)
        self._count()

    def moved(self) -> None:
        self.counters.in_flight -= 1

    def _count(self) -> None:
        above = self._above
        above.ran += 1
        above.chosen[self._node] += 1
        self._tally.ran += 1


def _chosen(bound: BoundGraph, root: Shape | None, ends: Sequence[Shape], pick: Pick) -> Submit:
    branches = [Branch(bound, root, shape) for shape in ends]

    def submit(call: Call) -> None:
        if not isinstance(call, Inference):
            bound.submit(call)
            return
        branch = branches[pick(call.user, call.options)[0]]
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
                call.settle(BAD_REQUEST, str(fault).encode(), bound.clock())
                return
            if entries is not item[0]:
                call.item = (entries, *item[1:])
        branch.submit(call)

    return submit


def _pick(bound: BoundGraph) -> Pick | None:
    """Of a graph that is one choice between ends, and nothing else."""
    root, *others = bound.shapes
    route = root.route
    if root.width or root.node.call is not None or route is None or route.kind == "call" or root.shadows:
        return None
    if len(others) != len(root.next) or not all(_is_leaf(shape) and shape.width == 1 for shape in others):
        return None
    if root.lacking or root.skip or len(others) < 2 or (route.policy is not None and route.policy.name == "exp3"):
        return None  # of exp3 each answer tells how likely it was
    return bound.picks[0]


def _is_leaf(shape: Shape) -> bool:
    """It calls something that is served here, and answers what that does."""
    target: Target | None = shape.target
    plain = shape.merge is None and shape.timeout is None and not (shape.skip or shape.lacking or shape.node.children)
    if not plain or target is None or target.endpoint is None:
        return False
    return target.endpoint.bound is None and bool(target.endpoint.queues)


# Chains


def _is_chain(bound: BoundGraph) -> bool:
    for place, shape in enumerate(bound.shapes):
        before = () if place == 0 else (place - 1,)
        if shape.node.dependencies != before or shape.target is None or shape.merge is not None:
            return False
        if shape.route is not None or shape.timeout is not None or shape.skip or shape.lacking:
            return False
    return len(bound.shapes) > 1


def _chained(bound: BoundGraph) -> Submit:
    chain = Chain(bound)

    def submit(call: Call) -> None:
        if not isinstance(call, Inference) or len(call.item) == 1:
            bound.submit(call)
            return
        hop = Hop(chain, call)
        call.work = hop
        hop.sent(chain.targets[0], call, call.began, call.deadline)
        hop.go(call.item[0])

    return submit


Form = tuple[str, str, list[int], int, Signature | None]
"""Of a reply with one tensor: what the next node is sent it as, its bytes, and by which signature that was found to
fit."""


class Chain:
    __slots__ = ("bound", "forms", "last", "targets", "told")

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.targets: list[Target] = [shape.target for shape in bound.shapes]
        self.last = len(self.targets) - 1
        self.forms: list[dict[bytes, Form]] = [{} for _ in self.targets]
        """By node and the head of its reply: nearly all of one node are of one form."""
        parameters: dict[str, Value] = {"nodes": ",".join(shape.name for shape in bound.shapes)}
        what = b""
        if bound.keeper is not None:
            ran = [(shape.name, target.version) for shape, target in zip(bound.shapes, self.targets, strict=True)]
            what = what_of(bound.graph.generation, [], ran)
        self.told = Notes(parameters, bound.keeper, what)


class Hop(Errand):
    """A call that goes from one node of a chain to the next."""

    __slots__ = ("_asked", "_call", "_chain", "_place")

    _asked: bytes
    """The head of the reply that it brings along."""

    def __init__(self, chain: Chain, call: Inference) -> None:
        self._chain = chain
        self._call = call
        self._place = 0
        self.live = True
        self.size = call.size

    def go_on(self, entries: Entries, now: float, *, fits: bool = False) -> None:
        """To the next node; all else of the call stays as it is. `fits`: it is known to take them."""
        place = self._place = self._place + 1
        target = self.target = self._chain.targets[place]
        self.live = True
        self.alone = False
        self.began = now
        self.deadline = min(self._call.deadline, now + target.timeout)
        endpoint = target.endpoint
        if endpoint is not None:
            self.endpoint = endpoint
            endpoint.counters.in_flight += 1
        self.go(entries, fits=fits)

    def go(self, entries: Entries, *, fits: bool = False) -> None:
        """To the node whose turn it is."""
        chain, call, place, target = self._chain, self._call, self._place, self.target
        signature = None if fits else target.signature
        chain.bound.tallies[place].ran += 1
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.settle(BAD_REQUEST, str(fault).encode(), self.began)
                return
        if place and not fits and len(entries) == 1 and entries[0][3] == RAW:
            self._remember(entries[0], signature)
        self.item = (entries, *call.item[1:]) if place == chain.last else (entries, None, True)
        target.submit(self)

    def ended(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        chain, place = self._chain, self._place
        chain.bound.tallies[place].ended(code, now - self.began)
        if code != OK:
            self._end(*self._failure(code, payload), now, retry, lacking)
            return
        if place == chain.last:
            self._call.notes = chain.told
            self._end(OK, payload, now)
            return
        at = _LENGTH.unpack_from(payload)[0] + 4 if len(payload) >= 4 else 0
        head = payload[:at]
        form = chain.forms[place].get(head)
        if form is not None:
            name, datatype, shape, size, signature = form
            if len(payload) - at == size and chain.targets[place + 1].signature is signature:
                self.size = size
                self.go_on([(name, datatype, shape, RAW, memoryview(payload)[at:])], now, fits=True)
                return
        try:
            entries = messages.legible(messages.of_reply(payload))
        except ValueError as fault:
            node = chain.bound.shapes[place].name
            self._end(LOST, f"node '{node}': its answer cannot be read: {fault}".encode(), now)
            return
        self.size = messages.size_of(entries)
        self._asked = head
        self.go_on(entries, now)

    def _remember(self, entry: Entry, signature: Signature | None) -> None:
        forms = self._chain.forms[self._place - 1]
        if len(forms) >= REMEMBERED:
            forms.clear()
        name, datatype, shape, _, data = entry
        forms[self._asked] = name, datatype, shape, len(data), signature

    def abandon(self) -> None:
        self.cancel(self._chain.bound.clock())

    def _end(self, code: int, payload: bytes, now: float, retry: int = 1, lacking: bytes = b"") -> None:
        self._call.work = None
        self._call.settle(code, payload, now, retry, lacking=lacking)

    def _failure(self, code: int, payload: bytes) -> tuple[int, bytes]:
        shapes, place = self._chain.bound.shapes, self._place
        name, text = shapes[place].name, payload.decode(errors="replace")
        if code == BAD_REQUEST and place and not (place == self._chain.last and self.target.lacks(self._wanted())):
            return LOST, f"node '{name}' cannot take what node '{shapes[place - 1].name}' gave: {text}".encode()
        return LOST if code == FAILED else code, f"node '{name}': {text}".encode()

    def _wanted(self) -> list[str] | None:
        """The outputs that the caller asks for, by whom they are given last."""
        names: tuple[list[str] | None, ...] = self._call.item[1:2]
        return names[0] if names else None
