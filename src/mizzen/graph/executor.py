"""Executes a graph for one request: at each node merge, call the implementation, and route to the children.

Edges carry messages, then close. A node without a merge runs once for each message, as it arrives; a node with a merge
waits until all its edges have closed. A node that is not taken closes its edges at once, without a message, so that no
merge waits for it. The result of a node is a message. It is a MissingMessage if the node failed and failures are
tolerated (`onError: skip`), or if it was late and an ensemble downstream accepts partial results.

No I/O, no tasks: a subclass of GraphRun makes the calls (`call_target`) and reports their results (`on_answer`,
`on_failure`). Everything that follows is done at once, from an explicit queue, so that a long chain of nodes without
calls does not become a deep stack.

Hazards: a call may be answered before `call_target` returns. The failure that counts is that of the first failed node
in graph order, so the run waits for earlier nodes and cancels later ones. A run ends exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mizzen.graph import merging, table_types
from mizzen.graph.messages import prefix_names
from mizzen.graph.prepared_nodes import PreparedNode, with_node_name
from mizzen.protocol import v2

MERGE, CALL, ROUTE = range(3)
"""The phases in which a node calls a target."""

BAD_GATEWAY, UNAVAILABLE, EXPIRED = 502, 503, 504

REQUEST = -1
"""Origin of the caller's request, in place of a node."""

Entries = list[v2.Entry]


class Failure(NamedTuple):
    code: int
    text: str
    """For the caller; includes the node's name."""
    place: int
    """Index of the node. If a late node ends the request: index of the node that requires it."""
    order: tuple[int, ...] = ()
    retry: int = 1
    lacking: bytes = b""
    """As in `Call.settle`."""


class Message(NamedTuple):
    key: str
    """`<node>`, or `<node>/<key of the arrival>` if the node runs for each arrival."""
    order: tuple[int, ...]
    """Sort key among the messages of its node: the dependencies it came through."""
    entries: Entries
    origin: int
    """The last node that changed it rather than passing it on."""


class MissingMessage(NamedTuple):
    """Stands for a message that will not arrive."""

    key: str
    order: tuple[int, ...]
    failure: Failure
    late: bool
    """True: too late. False: skipped."""


class RouteDecision(NamedTuple):
    """The children that a route chose."""

    place: int
    order: tuple[int, ...]
    key: str
    chosen: tuple[int, ...]
    """Node indices."""
    probability: float
    """The probability of this choice; 0 if unknown or not applicable."""


class NodeOutput(NamedTuple):
    place: int
    order: tuple[int, ...]
    key: str
    result: Entries | bytes | MissingMessage
    """Bytes: the payload of a reply, in the encoding that was asked for."""


class GraphRun:
    """One request. Call `begin`, then `on_answer` or `on_failure` once for each `call_target`. The run ends with
    `answer` or `refuse`, or when the caller disconnects (`abandon`)."""

    __slots__ = (
        "_arrived", "_deadlines", "_draining", "_open", "_queue", "_runs", "confidence", "deadline", "decisions",
        "failure", "finished", "nodes", "output_names", "outputs", "pending", "raw", "reached",
    )  # fmt: skip

    def __init__(self, nodes: Sequence[PreparedNode], deadline: float) -> None:
        self.nodes = nodes
        self.deadline = deadline
        self.output_names: Sequence[str] | None = None
        """Outputs that the caller wants; None: all."""
        self.raw: Any = None
        """The encoding that the caller wants, as in an entry of an INFER frame."""
        self.reached = bytearray(len(nodes))
        self.decisions: list[RouteDecision] = []
        self.outputs: list[NodeOutput] = []
        self.confidence: float | None = None
        self.failure: Failure | None = None
        """The failure that counts, so far."""
        self.finished = False
        self.pending: set[Any] = set()
        """Calls without a result yet."""
        self._open = [node.width for node in nodes]
        self._runs = [0] * len(nodes)
        self._arrived: dict[int, list[tuple[int, Message | MissingMessage]]] = {}
        self._queue: deque[tuple[PreparedNode, int, Message | MissingMessage | None]] = deque()
        """A node, one of its edges, and the message that arrives there; None: the edge closes."""
        self._draining = False
        self._deadlines: dict[tuple[int, tuple[int, ...]], float] | None = None

    # Subclasses implement these

    def call_target(
        self,
        node: PreparedNode,
        phase: int,
        message: Message,
        entries: Entries,
        *,
        deadline: float,
        extra_inputs: dict[str, str] | None = None,
    ) -> None:
        """Call the node's target of this phase. The call is in `pending` until its result is reported."""
        raise NotImplementedError

    def cancel_call(self, pending_call: Any) -> None:
        """Cancel a call that is no longer needed. It is not in `pending` any more."""
        raise NotImplementedError

    def place_of(self, pending_call: Any) -> int:
        """Return the index of the node that made the call."""
        raise NotImplementedError

    def shadow(self, node: PreparedNode, chosen: PreparedNode, message: Message) -> None:
        """Send the shadows of this node a copy of the message for the chosen child."""

    def compare_members(self, node: PreparedNode, members: Sequence[merging.EnsembleMember]) -> None:
        """Called with the members of an ensemble that have arrived, all or some."""

    def now(self) -> float:
        raise NotImplementedError

    def answer(self) -> None:
        """End the run with `outputs`, in order; at least one of them is not a MissingMessage."""
        raise NotImplementedError

    def refuse(self, failure: Failure) -> None:
        """End the run with a failure."""
        raise NotImplementedError

    # Events

    def begin(self, entries: Entries) -> None:
        request = Message("", (), entries, REQUEST)
        for node in self.nodes:
            if not node.width:
                self._queue.append((node, 0, request))
            for child in node.shadows:  # shadows get their copy separately, never through this edge
                self._queue.append((child, 0, None))
        self._drain()

    def on_answer(
        self, node: PreparedNode, phase: int, message: Message, entries: Entries, route: str | None = None
    ) -> None:
        """Report the answer to a call. `message` is what the call was about; `route` is the choice of a router."""
        if self.finished:
            return
        if phase == CALL:
            self._route(node, Message(message.key, message.order, entries, node.place))
        elif phase == MERGE:
            self._on_merge_answer(node, message, entries)
        else:
            result = Message(message.key, message.order, entries, node.place) if entries else message
            self._follow_router(node, result, route)
        self._drain()

    def on_whole_answer(self, node: PreparedNode, message: Message, payload: bytes) -> None:
        """Like `on_answer`, for a node that makes the whole answer."""
        if self.finished:
            return
        self.outputs.append(NodeOutput(node.place, message.order, message.key, payload))
        self._end_run(node)
        self._drain()

    def on_failure(self, node: PreparedNode, message: Message | MissingMessage, failure: Failure) -> None:
        if self.finished:
            return
        self._fail(node, message.key, message.order, failure)
        self._drain()

    def abandon(self) -> None:
        """The caller has disconnected."""
        if not self.finished:
            self.finished = True
            self._cancel_all()

    # The queue of events

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        todo = self._queue
        while todo:
            node, slot, message = todo.popleft()
            lost = self.failure
            if lost is not None and node.place > lost.place:
                continue  # later nodes no longer matter
            if message is None:
                self._close_edge(node)
            elif node.merge is None:
                self._start(node, slot, message)
            else:
                self._gather(node, slot, message)
        self._draining = False
        if not self.pending and not self.finished:
            self._finish()

    def _close_edge(self, node: PreparedNode) -> None:
        place = node.place
        self._open[place] -= 1
        if self._open[place]:
            return
        if node.merge is not None:
            if node.merge.incremental:
                self._finish_incremental(node)
            else:
                self._merge(node)
        elif not self._runs[place]:
            self._close_children(node)

    def _close_children(self, node: PreparedNode) -> None:
        todo = self._queue
        for child, slot in node.next:
            todo.append((child, slot, None))

    def _start(self, node: PreparedNode, slot: int, message: Message | MissingMessage) -> None:
        """Run the node for one arrival."""
        place = node.place
        self._runs[place] += 1
        if node.keyed or "/" in message.key:
            key, order = f"{node.name}/{message.key}", (slot, *message.order)
        else:
            key, order = node.name, ()
        if type(message) is MissingMessage:
            self._pass_missing(node, MissingMessage(key, order, message.failure, message.late))
            return
        self.reached[place] = 1
        self._implement(node, Message(key, order, message.entries, message.origin))  # type: ignore[union-attr]

    def _implement(self, node: PreparedNode, message: Message) -> None:
        if node.lacking:
            self._fail_lacking(node, message.key, message.order)
        elif node.target is None:
            self._route(node, message)
        else:
            self.call_target(node, CALL, message, message.entries, deadline=self._deadline_of(node, message.order))

    def _route(self, node: PreparedNode, message: Message) -> None:
        """Send on what the implementation answered."""
        if not node.next:
            self.outputs.append(NodeOutput(node.place, message.order, message.key, message.entries))
            self._end_run(node)
            return
        route = node.route
        if route is None:
            self._send(node, node.next, message)
            return
        if route.kind == "call":
            names = ",".join(node.children_by_name)
            due = self._deadline_of(node, message.order)
            self.call_target(
                node, ROUTE, message, message.entries, deadline=due, extra_inputs={"routable_nodes": names}
            )
            return
        index, likely = (0, 1.0) if node.choose is None else node.choose(self)
        chosen = node.next[index]
        self.decisions.append(RouteDecision(node.place, message.order, message.key, (chosen[0].place,), likely))
        if node.shadows:
            self.shadow(node, chosen[0], message)
        self._send(node, (chosen,), message)

    def _follow_router(self, node: PreparedNode, message: Message, route: str | None) -> None:
        """Take the children that a router chose."""
        if route is None:
            self._fail_bad_answer(
                node,
                message,
                "its router named no nodes; expected them in the header MLGraph-Route or in the output 'route'",
            )
            return
        names = list(node.children_by_name) if route.strip() == "*" else [name.strip() for name in route.split(",")]
        names = [name for name in dict.fromkeys(names) if name]
        unknown = next((name for name in names if name not in node.children_by_name), None)
        if unknown is not None:
            there = ", ".join(node.children_by_name)
            self._fail_bad_answer(
                node, message, f"its router chose '{v2.shorten(unknown)}', which is not one of {there}"
            )
            return
        chosen = tuple(node.children_by_name[name] for name in node.children_by_name if name in names)
        places = tuple(child.place for child, _ in chosen)
        self.decisions.append(RouteDecision(node.place, message.order, message.key, places, 0.0))
        if chosen:
            self._send(node, chosen, message)
        else:
            self.outputs.append(NodeOutput(node.place, message.order, message.key, message.entries))
            self._end_run(node)

    def _send(
        self, node: PreparedNode, children: Iterable[tuple[PreparedNode, int]], message: Message | MissingMessage
    ) -> None:
        todo = self._queue
        for child, slot in children:
            todo.append((child, slot, message))
        self._end_run(node)

    def _end_run(self, node: PreparedNode) -> None:
        """Count one run of the node as done."""
        place = node.place
        runs = self._runs[place] = self._runs[place] - 1
        if not runs and not self._open[place] and node.next:
            self._close_children(node)

    # Merges

    def _gather(self, node: PreparedNode, slot: int, message: Message | MissingMessage) -> None:
        merge = node.merge
        assert merge is not None
        if type(message) is MissingMessage and message.late and not merge.partial:
            self._record_failure(message.failure._replace(place=node.place, order=()))
        elif merge.incremental:
            self._merge_incrementally(node, slot, message)
        else:
            self._arrived.setdefault(node.place, []).append((slot, message))

    def _merge(self, node: PreparedNode) -> None:
        arrived = self._arrived.pop(node.place, None)
        if arrived is None:  # not taken
            self._close_children(node)
            return
        self._runs[node.place] += 1
        merge = node.merge
        assert merge is not None
        if len(arrived) > 1:
            arrived.sort(key=_by_order)
        came = [(slot, message) for slot, message in arrived if type(message) is Message]
        if not came:
            marks = [message for _, message in arrived if type(message) is MissingMessage]
            first = min((mark for mark in marks if mark.late), key=_by_failure, default=None)
            first = first or min(marks, key=_by_failure)
            self._pass_missing(node, MissingMessage(node.name, (), first.failure, first.late))
            return
        self.reached[node.place] = 1
        if node.lacking:
            self._fail_lacking(node, node.name, ())
        elif merge.kind == "call":
            self._merge_by_call(node, came)
        else:
            self._merge_here(node, merge, came, arrived)

    def _merge_here(
        self,
        node: PreparedNode,
        merge: table_types.Merging,
        came: Sequence[tuple[int, Message]],
        arrived: Sequence[tuple[int, Message | MissingMessage]],
    ) -> None:
        weights, place = node.weights, node.place
        if len(arrived) > node.width or len({slot for slot, _ in arrived}) < len(arrived):
            counts = [0] * node.width
            for slot, _ in arrived:
                counts[slot] += 1
            weights = [weight / (count or 1) for weight, count in zip(weights, counts, strict=True)]
        members = [merging.EnsembleMember(message.key, weights[slot], message.entries) for slot, message in came]
        agreed = 1.0
        try:
            if merge.kind == "vote":
                entries, agreed = merging.vote(members)
            elif len(members) == 1 and merge.threshold is None and _equals_its_mean(members[0].entries):
                entries = came[0][1].entries
            else:
                entries = merging.mean(members, merge.threshold)
        except ValueError as fault:
            self._fail_bad_answer(node, Message(node.name, (), [], place), str(fault))
            return
        if merge.partial:
            all_weight = sum([weights[slot] for slot, _ in arrived])
            had = sum([member.weight for member in members])
            share = had / all_weight if all_weight else len(members) / len(arrived)
            confidence = share * agreed
            self.confidence = confidence if self.confidence is None else min(self.confidence, confidence)
        if len(members) > 1:
            self.compare_members(node, members)
        self._implement(node, Message(node.name, (), entries, _origin_of(came)))

    def _merge_by_call(self, node: PreparedNode, came: Sequence[tuple[int, Message]]) -> None:
        entries: Entries = []
        for _, message in came:
            entries += prefix_names(message.key, message.entries)
        message = Message(node.name, (), entries, _origin_of(came))
        self.call_target(node, MERGE, message, entries, deadline=self._deadline_of(node, ()))

    def _merge_incrementally(self, node: PreparedNode, slot: int, message: Message | MissingMessage) -> None:
        """Call the merge for each arrival. Its one answer that is not empty is the merged message."""
        place = node.place
        self._runs[place] += 1
        if type(message) is MissingMessage:
            self._arrived.setdefault(place, []).append((slot, message))
            self._end_incremental_run(node)
            return
        assert type(message) is Message
        self.reached[place] = 1
        if node.lacking:
            self._fail_lacking(node, node.name, (slot, *message.order))
            return
        entries = prefix_names(message.key, message.entries)
        pending = self._open[place] - 1
        about = Message(node.name, (slot, *message.order), entries, message.origin)
        due = self._deadline_of(node, about.order)
        self.call_target(node, MERGE, about, entries, deadline=due, extra_inputs={"pending_requests": str(pending)})

    def _on_merge_answer(self, node: PreparedNode, message: Message, entries: Entries) -> None:
        merge = node.merge
        assert merge is not None
        if not merge.incremental:
            self._implement(node, Message(node.name, (), entries, node.place))
            return
        if not entries:  # not yet
            self._end_incremental_run(node)
            return
        if node.place in self._arrived and any(type(each) is Message for _, each in self._arrived[node.place]):
            self._fail_bad_answer(node, message, "its merge answered twice: all answers but one must be empty")
            return
        result = Message(node.name, (), entries, node.place)
        self._arrived.setdefault(node.place, []).append((0, result))
        self._implement(node, result)

    def _end_incremental_run(self, node: PreparedNode) -> None:
        place = node.place
        self._runs[place] -= 1
        if not self._runs[place] and not self._open[place]:
            self._finish_incremental(node)

    def _finish_incremental(self, node: PreparedNode) -> None:
        """All arrivals are in: check that there was a result."""
        place = node.place
        if self._runs[place]:
            return
        arrived = self._arrived.get(place, [])
        if any(type(message) is Message for _, message in arrived) or not self.reached[place]:
            marks = [message for _, message in arrived if type(message) is MissingMessage]
            if marks and not self.reached[place]:
                first = min(marks, key=_by_failure)
                self._runs[place] += 1
                self._arrived.pop(place)
                self._pass_missing(node, MissingMessage(node.name, (), first.failure, first.late))
                return
            self._close_children(node)
            return
        self._runs[place] += 1
        text = "its merge gave only empty answers, and there are no more arrivals"
        self._fail_bad_answer(node, Message(node.name, (), [], place), text)

    # Failures

    def _fail_lacking(self, node: PreparedNode, key: str, order: tuple[int, ...]) -> None:
        self._fail(
            node, key, order, Failure(UNAVAILABLE, with_node_name(node, node.lacking), node.place, order, retry=0)
        )

    def _fail_bad_answer(self, node: PreparedNode, message: Message, text: str) -> None:
        failure = Failure(BAD_GATEWAY, with_node_name(node, text), node.place, message.order)
        self._fail(node, message.key, message.order, failure)

    def _fail(self, node: PreparedNode, key: str, order: tuple[int, ...], failure: Failure) -> None:
        if node.skip:
            self._pass_missing(node, MissingMessage(key, order, failure, late=False))
        elif failure.code == EXPIRED and node.tolerates_late:
            self._pass_missing(node, MissingMessage(key, order, failure, late=True))
        else:
            self._record_failure(failure)

    def _pass_missing(self, node: PreparedNode, mark: MissingMessage) -> None:
        if node.next:
            self._send(node, node.next, mark)
        elif mark.late:
            self._record_failure(mark.failure._replace(place=node.place, order=mark.order))
        else:
            self.outputs.append(NodeOutput(node.place, mark.order, mark.key, mark))
            self._end_run(node)

    def _record_failure(self, failure: Failure) -> None:
        lost = self.failure
        if lost is not None and (lost.place, lost.order) <= (failure.place, failure.order):
            return
        self.failure = failure
        for asked in [each for each in self.pending if self.place_of(each) > failure.place]:
            self.pending.discard(asked)
            self.cancel_call(asked)

    def _deadline_of(self, node: PreparedNode, order: tuple[int, ...]) -> float:
        """Return the deadline, which all calls of one run of a node share."""
        if node.timeout is None:
            return self.deadline
        if self._deadlines is None:
            self._deadlines = {}
        run = node.place, order
        due = self._deadlines.get(run)
        if due is None:
            due = self._deadlines[run] = min(self.deadline, self.now() + node.timeout)
        return due

    # The end

    def _finish(self) -> None:
        self.finished = True
        outputs = self.outputs
        if self.failure is None and len(outputs) > 1:
            outputs.sort(key=_by_place)
        if self.failure is None and all(type(output.result) is MissingMessage for output in outputs):
            marks = [output.result for output in outputs if type(output.result) is MissingMessage]
            nothing = Failure(BAD_GATEWAY, "no node returned an answer", 0)
            self.failure = min(marks, key=_by_failure).failure if marks else nothing
        if self.failure is not None:
            self.refuse(self.failure)
        else:
            self.answer()

    def _cancel_all(self) -> None:
        waiting, self.pending = self.pending, set()
        for asked in waiting:
            self.cancel_call(asked)


def _equals_its_mean(entries: Sequence[v2.Entry]) -> bool:
    """Whether the mean of this one message is the message itself. A mean of integers is a float."""
    return all(entry[1] in ("FP64", "FP32") for entry in entries)


def _origin_of(came: Sequence[tuple[int, Message]]) -> int:
    """Return the first node that made one of the merged messages, or REQUEST."""
    return next((message.origin for _, message in came if message.origin != REQUEST), REQUEST)


def _by_order(arrived: tuple[int, Message | MissingMessage]) -> tuple[int, ...]:
    return (arrived[0], *arrived[1].order)


def _by_failure(mark: MissingMessage) -> tuple[int, tuple[int, ...]]:
    return mark.failure.place, mark.failure.order


def _by_place(output: NodeOutput) -> tuple[int, tuple[int, ...]]:
    return output.place, output.order
