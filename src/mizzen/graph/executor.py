"""One request on its way through a graph: merge, implementation, route at each node, and what is announced to joins.

Edges carry messages, then close. A node without a merge runs once for each message, as it comes; one with a merge waits
until all its edges have closed. A node that is not taken closes its edges with nothing on them, at once, so nobody
waits for it. What a node comes to is a message, or a Mark where it failed in a way that may be borne (`onError: skip`),
or was late where some ensemble takes what has come by then.

No input or output, no tasks: whoever derives from Run says how something is asked (`ask`), and hands in what came of it
(`came`, `failed`). Whatever follows from that is done at once, in a queue of its own, so that a long chain of nodes
that ask nobody is no deep stack.

Hazards kept in mind: a call may be answered before `ask` returns; the failure that decides is that of the first node in
the order of the graph, so those before it are waited for, and those behind it are not; a run ends once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mizzen.graph import merging, table_types
from mizzen.graph.messages import prefixed
from mizzen.graph.prepared_nodes import Shape, said
from mizzen.protocol import v2

MERGE, CALL, ROUTE = range(3)
"""What a node asks somebody for."""

BAD_GATEWAY, UNAVAILABLE, EXPIRED = 502, 503, 504

REQUEST = -1
"""In place of a node that made a message: it is what the caller sent."""

Entries = list[v2.Entry]


class Failure(NamedTuple):
    code: int
    text: str
    """For the caller, with the node's name."""
    place: int
    """Of the node; of one that was late, once that ends the request, of the node that cannot do without it."""
    order: tuple[int, ...] = ()
    retry: int = 1
    lacking: bytes = b""
    """As in `Call.settle`."""


class Message(NamedTuple):
    key: str
    """`<node>`, or `<node>/<key of what arrived>` where the node runs for each arrival."""
    order: tuple[int, ...]
    """Among the messages of its node: by which dependencies it came."""
    entries: Entries
    origin: int
    """The node that made it: the last one on its way that did more than pass it on."""


class Mark(NamedTuple):
    """In place of a message that does not come."""

    key: str
    order: tuple[int, ...]
    failure: Failure
    late: bool
    """It was too late; else it was skipped."""


class Decision(NamedTuple):
    """Which children a route has taken."""

    place: int
    order: tuple[int, ...]
    key: str
    chosen: tuple[int, ...]
    """Places of nodes."""
    likely: float
    """How likely that was, where it is known and worth telling; else 0."""


class Output(NamedTuple):
    place: int
    order: tuple[int, ...]
    key: str
    came: Entries | bytes | Mark
    """Bytes: the payload of a reply, in the form that was asked for."""


class Run:
    """A request. `begin`, then one `came` or `failed` for each `ask`; it ends with `answer` or `refuse`, or when
    nobody wants it any more (`drop`)."""

    __slots__ = (
        "_arrived", "_busy", "_dues", "_open", "_runs", "_todo", "confidence", "deadline", "decisions", "lost", "names",
        "outputs", "over", "raw", "shapes", "taken", "waiting",
    )  # fmt: skip

    def __init__(self, shapes: Sequence[Shape], deadline: float) -> None:
        self.shapes = shapes
        self.deadline = deadline
        self.names: Sequence[str] | None = None
        """Outputs that the caller wants; None: those there are."""
        self.raw: Any = None
        """How they want them, as in an entry of an INFER frame."""
        self.taken = bytearray(len(shapes))
        self.decisions: list[Decision] = []
        self.outputs: list[Output] = []
        self.confidence: float | None = None
        self.lost: Failure | None = None
        """What decides, as far as is known."""
        self.over = False
        self.waiting: set[Any] = set()
        """What was asked and has not come."""
        self._open = [shape.width for shape in shapes]
        self._runs = [0] * len(shapes)
        self._arrived: dict[int, list[tuple[int, Message | Mark]]] = {}
        self._todo: deque[tuple[Shape, int, Message | Mark | None]] = deque()
        """What comes to which node, by which of its edges; None: that one closes."""
        self._busy = False
        self._dues: dict[tuple[int, tuple[int, ...]], float] | None = None

    # For whoever derives from it

    def ask(
        self,
        shape: Shape,
        phase: int,
        message: Message,
        entries: Entries,
        *,
        deadline: float,
        asks: dict[str, str] | None = None,
    ) -> None:
        """Call what the node calls in this phase. What is asked is in `waiting` from now on, until it has come."""
        raise NotImplementedError

    def drop(self, asked: Any) -> None:
        """Nobody wants what was asked any more. It is not in `waiting` now."""
        raise NotImplementedError

    def place_of(self, asked: Any) -> int:
        """The node that asked for it."""
        raise NotImplementedError

    def shadow(self, shape: Shape, chosen: Shape, message: Message) -> None:
        """Shadows of this node get a copy of what the chosen child gets."""

    def compared(self, shape: Shape, members: Sequence[merging.Member]) -> None:
        """Members of an ensemble have come, all or some."""

    def now(self) -> float:
        raise NotImplementedError

    def answer(self) -> None:
        """The end: `outputs`, in their order, at least one of which is no Mark."""
        raise NotImplementedError

    def refuse(self, failure: Failure) -> None:
        """The end."""
        raise NotImplementedError

    # What happens

    def begin(self, entries: Entries) -> None:
        request = Message("", (), entries, REQUEST)
        for shape in self.shapes:
            if not shape.width:
                self._todo.append((shape, 0, request))
            for child in shape.shadows:  # which get nothing by that edge: what they get is apart from all else
                self._todo.append((child, 0, None))
        self._drain()

    def came(self, shape: Shape, phase: int, message: Message, entries: Entries, route: str | None = None) -> None:
        """What was asked has been answered. `message` is what it was asked about; `route`: what a router said."""
        if self.over:
            return
        if phase == CALL:
            self._routed(shape, Message(message.key, message.order, entries, shape.place))
        elif phase == MERGE:
            self._merged(shape, message, entries)
        else:
            made = Message(message.key, message.order, entries, shape.place) if entries else message
            self._obey(shape, made, route)
        self._drain()

    def came_whole(self, shape: Shape, message: Message, payload: bytes) -> None:
        """As `came`, of a node that makes the whole answer."""
        if self.over:
            return
        self.outputs.append(Output(shape.place, message.order, message.key, payload))
        self._ended(shape)
        self._drain()

    def failed(self, shape: Shape, message: Message | Mark, failure: Failure) -> None:
        if self.over:
            return
        self._fail(shape, message.key, message.order, failure)
        self._drain()

    def abandon(self) -> None:
        """The caller has gone."""
        if not self.over:
            self.over = True
            self._drop_all()

    # The queue of what happens

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        todo = self._todo
        while todo:
            shape, slot, message = todo.popleft()
            lost = self.lost
            if lost is not None and shape.place > lost.place:
                continue  # nothing behind what decides matters any more
            if message is None:
                self._closed(shape)
            elif shape.merge is None:
                self._start(shape, slot, message)
            else:
                self._gather(shape, slot, message)
        self._busy = False
        if not self.waiting and not self.over:
            self._end()

    def _closed(self, shape: Shape) -> None:
        place = shape.place
        self._open[place] -= 1
        if self._open[place]:
            return
        if shape.merge is not None:
            if shape.merge.incremental:
                self._close_incremental(shape)
            else:
                self._merge(shape)
        elif not self._runs[place]:
            self._close(shape)

    def _close(self, shape: Shape) -> None:
        todo = self._todo
        for child, slot in shape.next:
            todo.append((child, slot, None))

    def _start(self, shape: Shape, slot: int, message: Message | Mark) -> None:
        """A run for one arrival."""
        place = shape.place
        self._runs[place] += 1
        if shape.keyed or "/" in message.key:
            key, order = f"{shape.name}/{message.key}", (slot, *message.order)
        else:
            key, order = shape.name, ()
        if type(message) is Mark:
            self._pass_mark(shape, Mark(key, order, message.failure, message.late))
            return
        self.taken[place] = 1
        self._implement(shape, Message(key, order, message.entries, message.origin))  # type: ignore[union-attr]

    def _implement(self, shape: Shape, message: Message) -> None:
        if shape.lacking:
            self._lacks(shape, message.key, message.order)
        elif shape.target is None:
            self._routed(shape, message)
        else:
            self.ask(shape, CALL, message, message.entries, deadline=self._due(shape, message.order))

    def _routed(self, shape: Shape, message: Message) -> None:
        """Its implementation has answered; where does that go?"""
        if not shape.next:
            self.outputs.append(Output(shape.place, message.order, message.key, message.entries))
            self._ended(shape)
            return
        route = shape.route
        if route is None:
            self._send(shape, shape.next, message)
            return
        if route.kind == "call":
            names = ",".join(shape.named)
            due = self._due(shape, message.order)
            self.ask(shape, ROUTE, message, message.entries, deadline=due, asks={"routable_nodes": names})
            return
        index, likely = (0, 1.0) if shape.choose is None else shape.choose(self)
        chosen = shape.next[index]
        self.decisions.append(Decision(shape.place, message.order, message.key, (chosen[0].place,), likely))
        if shape.shadows:
            self.shadow(shape, chosen[0], message)
        self._send(shape, (chosen,), message)

    def _obey(self, shape: Shape, message: Message, route: str | None) -> None:
        """What a router said."""
        if route is None:
            self._misbehaved(shape, message, "its router did not say which nodes to take, as MLGraph-Route or route")
            return
        names = list(shape.named) if route.strip() == "*" else [name.strip() for name in route.split(",")]
        names = [name for name in dict.fromkeys(names) if name]
        unknown = next((name for name in names if name not in shape.named), None)
        if unknown is not None:
            there = ", ".join(shape.named)
            self._misbehaved(shape, message, f"its router took '{v2.cited(unknown)}', which is none of {there}")
            return
        chosen = tuple(shape.named[name] for name in shape.named if name in names)
        places = tuple(child.place for child, _ in chosen)
        self.decisions.append(Decision(shape.place, message.order, message.key, places, 0.0))
        if chosen:
            self._send(shape, chosen, message)
        else:
            self.outputs.append(Output(shape.place, message.order, message.key, message.entries))
            self._ended(shape)

    def _send(self, shape: Shape, children: Iterable[tuple[Shape, int]], message: Message | Mark) -> None:
        todo = self._todo
        for child, slot in children:
            todo.append((child, slot, message))
        self._ended(shape)

    def _ended(self, shape: Shape) -> None:
        """One run of the node has."""
        place = shape.place
        runs = self._runs[place] = self._runs[place] - 1
        if not runs and not self._open[place] and shape.next:
            self._close(shape)

    # Merges

    def _gather(self, shape: Shape, slot: int, message: Message | Mark) -> None:
        merge = shape.merge
        assert merge is not None
        if type(message) is Mark and message.late and not merge.partial:
            self._lose(message.failure._replace(place=shape.place, order=()))
        elif merge.incremental:
            self._merge_incrementally(shape, slot, message)
        else:
            self._arrived.setdefault(shape.place, []).append((slot, message))

    def _merge(self, shape: Shape) -> None:
        arrived = self._arrived.pop(shape.place, None)
        if arrived is None:  # it is not taken
            self._close(shape)
            return
        self._runs[shape.place] += 1
        merge = shape.merge
        assert merge is not None
        if len(arrived) > 1:
            arrived.sort(key=_by_order)
        came = [(slot, message) for slot, message in arrived if type(message) is Message]
        if not came:
            marks = [message for _, message in arrived if type(message) is Mark]
            first = min((mark for mark in marks if mark.late), key=_by_failure, default=None)
            first = first or min(marks, key=_by_failure)
            self._pass_mark(shape, Mark(shape.name, (), first.failure, first.late))
            return
        self.taken[shape.place] = 1
        if shape.lacking:
            self._lacks(shape, shape.name, ())
        elif merge.kind == "call":
            self._merge_by_call(shape, came)
        else:
            self._merge_here(shape, merge, came, arrived)

    def _merge_here(
        self,
        shape: Shape,
        merge: table_types.Merging,
        came: Sequence[tuple[int, Message]],
        arrived: Sequence[tuple[int, Message | Mark]],
    ) -> None:
        weights, place = shape.weights, shape.place
        if len(arrived) > shape.width or len({slot for slot, _ in arrived}) < len(arrived):
            counts = [0] * shape.width
            for slot, _ in arrived:
                counts[slot] += 1
            weights = [weight / (count or 1) for weight, count in zip(weights, counts, strict=True)]
        members = [merging.Member(message.key, weights[slot], message.entries) for slot, message in came]
        agreed = 1.0
        try:
            if merge.kind == "vote":
                entries, agreed = merging.vote(members)
            elif len(members) == 1 and merge.threshold is None and _is_its_own_mean(members[0].entries):
                entries = came[0][1].entries
            else:
                entries = merging.mean(members, merge.threshold)
        except ValueError as fault:
            self._misbehaved(shape, Message(shape.name, (), [], place), str(fault))
            return
        if merge.partial:
            all_weight = sum([weights[slot] for slot, _ in arrived])
            had = sum([member.weight for member in members])
            share = had / all_weight if all_weight else len(members) / len(arrived)
            confidence = share * agreed
            self.confidence = confidence if self.confidence is None else min(self.confidence, confidence)
        if len(members) > 1:
            self.compared(shape, members)
        self._implement(shape, Message(shape.name, (), entries, _origin(came)))

    def _merge_by_call(self, shape: Shape, came: Sequence[tuple[int, Message]]) -> None:
        entries: Entries = []
        for _, message in came:
            entries += prefixed(message.key, message.entries)
        message = Message(shape.name, (), entries, _origin(came))
        self.ask(shape, MERGE, message, entries, deadline=self._due(shape, ()))

    def _merge_incrementally(self, shape: Shape, slot: int, message: Message | Mark) -> None:
        """One call for each arrival; the one that it answers with more than nothing is what came of all."""
        place = shape.place
        self._runs[place] += 1
        if type(message) is Mark:
            self._arrived.setdefault(place, []).append((slot, message))
            self._ended_incremental(shape)
            return
        assert type(message) is Message
        self.taken[place] = 1
        if shape.lacking:
            self._lacks(shape, shape.name, (slot, *message.order))
            return
        entries = prefixed(message.key, message.entries)
        pending = self._open[place] - 1
        about = Message(shape.name, (slot, *message.order), entries, message.origin)
        due = self._due(shape, about.order)
        self.ask(shape, MERGE, about, entries, deadline=due, asks={"pending_requests": str(pending)})

    def _merged(self, shape: Shape, message: Message, entries: Entries) -> None:
        merge = shape.merge
        assert merge is not None
        if not merge.incremental:
            self._implement(shape, Message(shape.name, (), entries, shape.place))
            return
        if not entries:  # not yet
            self._ended_incremental(shape)
            return
        if shape.place in self._arrived and any(type(each) is Message for _, each in self._arrived[shape.place]):
            self._misbehaved(shape, message, "its merge answered twice: every answer but one has to be empty")
            return
        made = Message(shape.name, (), entries, shape.place)
        self._arrived.setdefault(shape.place, []).append((0, made))
        self._implement(shape, made)

    def _ended_incremental(self, shape: Shape) -> None:
        place = shape.place
        self._runs[place] -= 1
        if not self._runs[place] and not self._open[place]:
            self._close_incremental(shape)

    def _close_incremental(self, shape: Shape) -> None:
        """All that was to come has; is there anything?"""
        place = shape.place
        if self._runs[place]:
            return
        arrived = self._arrived.get(place, [])
        if any(type(message) is Message for _, message in arrived) or not self.taken[place]:
            marks = [message for _, message in arrived if type(message) is Mark]
            if marks and not self.taken[place]:
                first = min(marks, key=_by_failure)
                self._runs[place] += 1
                self._arrived.pop(place)
                self._pass_mark(shape, Mark(shape.name, (), first.failure, first.late))
                return
            self._close(shape)
            return
        self._runs[place] += 1
        text = "its merge answered nothing but 'not yet', and no more will come"
        self._misbehaved(shape, Message(shape.name, (), [], place), text)

    # Failures

    def _lacks(self, shape: Shape, key: str, order: tuple[int, ...]) -> None:
        self._fail(shape, key, order, Failure(UNAVAILABLE, said(shape, shape.lacking), shape.place, order, retry=0))

    def _misbehaved(self, shape: Shape, message: Message, text: str) -> None:
        failure = Failure(BAD_GATEWAY, said(shape, text), shape.place, message.order)
        self._fail(shape, message.key, message.order, failure)

    def _fail(self, shape: Shape, key: str, order: tuple[int, ...], failure: Failure) -> None:
        if shape.skip:
            self._pass_mark(shape, Mark(key, order, failure, late=False))
        elif failure.code == EXPIRED and shape.absorbs:
            self._pass_mark(shape, Mark(key, order, failure, late=True))
        else:
            self._lose(failure)

    def _pass_mark(self, shape: Shape, mark: Mark) -> None:
        if shape.next:
            self._send(shape, shape.next, mark)
        elif mark.late:
            self._lose(mark.failure._replace(place=shape.place, order=mark.order))
        else:
            self.outputs.append(Output(shape.place, mark.order, mark.key, mark))
            self._ended(shape)

    def _lose(self, failure: Failure) -> None:
        lost = self.lost
        if lost is not None and (lost.place, lost.order) <= (failure.place, failure.order):
            return
        self.lost = failure
        for asked in [each for each in self.waiting if self.place_of(each) > failure.place]:
            self.waiting.discard(asked)
            self.drop(asked)

    def _due(self, shape: Shape, order: tuple[int, ...]) -> float:
        """One deadline for all that one run of a node asks."""
        if shape.timeout is None:
            return self.deadline
        if self._dues is None:
            self._dues = {}
        run = shape.place, order
        due = self._dues.get(run)
        if due is None:
            due = self._dues[run] = min(self.deadline, self.now() + shape.timeout)
        return due

    # The end

    def _end(self) -> None:
        self.over = True
        outputs = self.outputs
        if self.lost is None and len(outputs) > 1:
            outputs.sort(key=_by_place)
        if self.lost is None and all(type(output.came) is Mark for output in outputs):
            marks = [output.came for output in outputs if type(output.came) is Mark]
            nothing = Failure(BAD_GATEWAY, "no node gave an answer", 0)
            self.lost = min(marks, key=_by_failure).failure if marks else nothing
        if self.lost is not None:
            self.refuse(self.lost)
        else:
            self.answer()

    def _drop_all(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for asked in waiting:
            self.drop(asked)


def _is_its_own_mean(entries: Sequence[v2.Entry]) -> bool:
    """A mean of integers is none, also of one; and what is no number has no mean."""
    return all(entry[1] in ("FP64", "FP32") for entry in entries)


def _origin(came: Sequence[tuple[int, Message]]) -> int:
    """Who made what was merged: the first that did, or the caller where nobody else has."""
    return next((message.origin for _, message in came if message.origin != REQUEST), REQUEST)


def _by_order(arrived: tuple[int, Message | Mark]) -> tuple[int, ...]:
    return (arrived[0], *arrived[1].order)


def _by_failure(mark: Mark) -> tuple[int, tuple[int, ...]]:
    return mark.failure.place, mark.failure.order


def _by_place(output: Output) -> tuple[int, tuple[int, ...]]:
    return output.place, output.order
