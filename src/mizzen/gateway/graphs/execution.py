"""A request on its way through a graph of any shape: what it asks of whom, and what its caller is told in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mizzen.gateway.graphs.shadows import Copy
from mizzen.gateway.graphs.targets import Step, Target, request_of
from mizzen.gateway.inference.calls import BAD_REQUEST, FAILED, LOST, OK, Placed
from mizzen.gateway.inference.inference import Inference
from mizzen.graph import merging, messages
from mizzen.graph.executor import CALL, MERGE, REQUEST, Entries, Failure, Mark, Message, Run
from mizzen.graph.prepared_nodes import Shape, said
from mizzen.graph.router_messages import asking, without_route

if TYPE_CHECKING:
    from mizzen.gateway.graphs.bound_graph import BoundGraph

MOST_ERRANDS = 10_000
"""Calls for one request, in all graphs that it goes through."""
PHASES = {CALL: "implementation", MERGE: "merge"}


class Seen(NamedTuple):
    """One call that was made for a request, for those who want to see them."""

    node: str
    phase: str
    began: float
    """Seconds since the request."""
    seconds: float
    code: int
    payload: bytes
    """Outputs as raw bytes, or what the failure says."""
    whole: bool


class Walk(Run):
    __slots__ = ("bound", "call", "copies", "headers", "request", "seen", "style", "user")

    def __init__(self, bound: BoundGraph, call: Placed) -> None:
        super().__init__(bound.shapes, call.deadline)
        self.bound = bound
        self.call = call
        self.style: str | None = None
        """Of V1: by rows or by columns. None: it is V2."""
        self.request = request_of(call)
        self.user = "" if self.request is None else self.request.user
        self.headers: tuple[tuple[bytes, bytes], ...] = bound.passed_on(call) if bound.graph.headers else ()
        self.copies: dict[int, list[Copy]] | None = None
        """Shadows, by the child whose answer theirs is compared with."""
        self.seen: list[Seen] | None = None
        """What was called, where somebody wants to know."""

    def now(self) -> float:
        return self.bound.clock()

    def place_of(self, asked: Any) -> int:
        place: int = asked.shape.place
        return place

    def drop(self, asked: Any) -> None:
        asked.cancel(self.bound.clock())

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
        target: Target = shape.target if phase == CALL else shape.merge_target if phase == MERGE else shape.route_target
        signature = target.signature
        if message.origin != REQUEST and target.endpoint is not None:
            entries = messages.legible(entries)
        if signature is not None:
            try:
                entries = signature.adapt(asking(entries, asks, signature.names) if asks else entries)
            except ValueError as fault:
                self.failed(shape, message, self._unfit(shape, message, str(fault)))
                return
        request = self.request
        if request is not None:
            request.errands += 1
            if request.errands > MOST_ERRANDS:
                text = said(shape, f"more than {MOST_ERRANDS} calls for one request, in graphs that call graphs")
                self.failed(shape, message, Failure(LOST, text, shape.place, message.order))
                return
        call, now = self.call, self.bound.clock()
        step = Step(self, shape, phase, message)
        step.sent(target, call, now, deadline)
        if phase == CALL and shape.direct and self.style is None and self.seen is None:
            step.whole = True
            step.item = (entries, self.names) if not self.raw else (entries, self.names, self.raw)
        else:
            step.item = (entries, self._wanted(shape) if phase == CALL and self.names else None, True)
        step.asks = asks
        step.headers = self.headers
        step.size = call.size if message.origin == REQUEST else messages.size_of(entries)
        self.waiting.add(step)
        target.submit(step)

    def settled(
        self, step: Step, code: int, payload: bytes, now: float, *, retry: int = 1, lacking: bytes = b""
    ) -> None:
        self.waiting.discard(step)
        shape, phase = step.shape, step.phase
        if phase == CALL:
            self.bound.tallies[shape.place].ended(code, now - step.began)
            if self.copies is not None and code == OK:
                for copy in self.copies.get(shape.place, ()):
                    copy.answered(payload)
        if self.seen is not None:
            self._see(step, code, payload, now)
        if self.over:
            return
        if code != OK:
            self.failed(shape, step.message, self._failure(step, code, payload, (retry, lacking)))
        elif step.whole:
            self.came_whole(shape, step.message, payload)
        else:
            self._came(step, payload)

    def _came(self, step: Step, payload: bytes) -> None:
        shape, route = step.shape, step.route
        try:
            entries = messages.of_reply(payload)
            if step.phase not in (CALL, MERGE) and route is None:
                entries, route = without_route(entries)
        except ValueError as fault:
            failure = Failure(LOST, said(shape, f"its answer cannot be read: {fault}"), shape.place, step.message.order)
            self.failed(shape, step.message, failure)
            return
        self.came(shape, step.phase, step.message, entries, route)

    def shadow(self, shape: Shape, chosen: Shape, message: Message) -> None:
        for child in shape.shadows:
            if child.target is None:
                continue
            whole = chosen.direct and self.style is None and self.seen is None
            form = (self.names, self.raw) if whole else (None, True)
            copy = Copy(self.bound.tallies[child.place])
            if self.copies is None:
                self.copies = {}
            self.copies.setdefault(chosen.place, []).append(copy)
            copy.begin(child.target, self.call, message.entries, form, self.bound.clock())

    def compared(self, shape: Shape, members: Sequence[merging.Member]) -> None:
        bound = self.bound
        if bound.looks(len(members)):
            bound.compare(shape, members)
        if bound.keeper is not None and isinstance(self.call, Inference):
            given = [(member.key, messages.to_payload(member.entries, True)) for member in members]
            self.call.members = [*self.call.members, *given]

    # The end

    def answer(self) -> None:
        call, outputs = self.call, self.outputs
        try:
            first = outputs[0].came
            if type(first) is bytes and len(outputs) == 1:
                payload = first
            elif self.style is not None:
                given = [(output.key, _told(output.came)) for output in outputs]
                payload = messages.v1_answer(given, self.style)
            else:
                payload = self._payload()
        except messages.Unwanted as fault:
            self._settle(BAD_REQUEST, str(fault).encode())
            return
        except ValueError as fault:
            text = str(fault) if len(outputs) > 1 else said(self.shapes[outputs[0].place], str(fault))
            self._settle(LOST, text.encode())
            return
        told = self.bound.told(self)
        if isinstance(call, Inference):
            call.notes = told
        call.work = None
        call.settle(OK, payload, self.bound.clock())

    def _payload(self) -> bytes:
        outputs = self.outputs
        if len(outputs) == 1:
            entries = outputs[0].came
            assert isinstance(entries, list)
        else:
            entries = []
            for output in outputs:
                came = output.came
                if type(came) is Mark:
                    entries.append(messages.error_entry(output.key, came.failure.text))
                else:
                    assert isinstance(came, list)
                    entries += messages.prefixed(output.key, came)
        if self.names:
            entries = messages.chosen(entries, self.names)
        return messages.to_payload(entries, self.raw)

    def refuse(self, failure: Failure) -> None:
        self._settle(failure.code, failure.text.encode(), failure.retry, failure.lacking)

    def _settle(self, code: int, text: bytes, retry: int = 1, lacking: bytes = b"") -> None:
        self.call.work = None
        self.call.settle(code, text, self.bound.clock(), retry, lacking=lacking)

    # What went wrong

    def _failure(self, step: Step, code: int, payload: bytes, more: tuple[int, bytes]) -> Failure:
        text, shape, order = payload.decode(errors="replace"), step.shape, step.message.order
        if code == BAD_REQUEST and not (step.phase == CALL and step.target.lacks(self._wanted(shape))):
            return self._unfit(shape, step.message, text)
        return Failure(LOST if code == FAILED else code, said(shape, text), shape.place, order, *more)

    def _unfit(self, shape: Shape, message: Message, text: str) -> Failure:
        """It does not take what it is given: the fault of who sent it."""
        if message.origin == REQUEST:
            return Failure(BAD_REQUEST, said(shape, text), shape.place, message.order)
        giver = self.shapes[message.origin].name
        whose = f"what node '{giver}' gave" if message.origin != shape.place else "what came of its merge"
        return Failure(LOST, f"node '{shape.name}' cannot take {whose}: {text}", shape.place, message.order)

    # Details

    def _wanted(self, shape: Shape) -> list[str] | None:
        """Of the outputs that the caller wants, those of this node; None: it is not for the caller that it is asked."""
        if not shape.final or self.names is None:
            return None
        if self.bound.sole:
            return list(self.names)
        start = f"{shape.name}."
        return [name.removeprefix(start) for name in self.names if name.startswith(start)] or None

    def _see(self, step: Step, code: int, payload: bytes, now: float) -> None:
        assert self.seen is not None
        phase = PHASES.get(step.phase, "route")
        began = step.began - self.call.began
        self.seen.append(Seen(step.shape.name, phase, began, now - step.began, code, payload, step.whole))


def _told(came: Entries | bytes | Mark) -> Entries | str:
    if type(came) is Mark:
        return came.failure.text
    assert isinstance(came, list)
    return came
