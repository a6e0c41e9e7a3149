"""Execution of a request by a graph of any shape: the calls of its nodes, and the answer to the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from mizzen.gateway.graphs.node_stats import NodeStats
from mizzen.gateway.graphs.shadows import ShadowCall
from mizzen.gateway.graphs.targets import CallTarget, NodeCall, request_of
from mizzen.gateway.inference.endpoint import NamedCall
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.response_parameters import AnswerRecorder, ResponseParameters
from mizzen.gateway.queueing.call import BAD_REQUEST, FAILED, LOST, OK
from mizzen.graph import merging, messages, table_types
from mizzen.graph.executor import CALL, MERGE, REQUEST, Entries, Failure, GraphRun, Message, MissingMessage
from mizzen.graph.prepared_nodes import PreparedNode, with_node_name
from mizzen.graph.router_messages import add_declared_inputs, split_route

MAX_NODE_CALLS = 10_000
"""Node calls for one request, in all graphs that it goes through."""
PHASES = {CALL: "implementation", MERGE: "merge"}


class NodeCallRecord(NamedTuple):
    """One finished call of a node, recorded for `explain`."""

    node: str
    phase: str
    began: float
    """Seconds since the request began."""
    seconds: float
    code: int
    payload: bytes
    """Outputs as raw bytes, or the text of the failure."""
    whole: bool


class ExecutableGraph(Protocol):
    """A graph as an execution of it needs it (`graphs.bound_graph`)."""

    @property
    def graph(self) -> table_types.CompiledGraph: ...

    @property
    def shapes(self) -> Sequence[PreparedNode]: ...

    @property
    def node_stats(self) -> Sequence[NodeStats]: ...

    @property
    def clock(self) -> Callable[[], float]: ...

    @property
    def writer(self) -> AnswerRecorder | None: ...

    @property
    def single_output(self) -> bool:
        """Every path ends at the same node."""

    def select_headers(self, call: NamedCall) -> tuple[tuple[bytes, bytes], ...]: ...

    def count_path(self, execution: GraphExecution) -> ResponseParameters: ...

    def should_compare(self, count: int) -> bool: ...

    def compare(self, shape: PreparedNode, members: Sequence[merging.EnsembleMember]) -> None: ...


class GraphExecution(GraphRun):
    __slots__ = ("bound", "call", "headers", "recorded_calls", "request", "shadow_calls", "style", "user")

    def __init__(self, bound: ExecutableGraph, call: NamedCall) -> None:
        super().__init__(bound.shapes, call.deadline)
        self.bound = bound
        self.call = call
        self.style: str | None = None
        """V1: by rows or by columns; None: V2."""
        self.request = request_of(call)
        self.user = "" if self.request is None else self.request.user
        self.headers: tuple[tuple[bytes, bytes], ...] = bound.select_headers(call) if bound.graph.headers else ()
        self.shadow_calls: dict[int, list[ShadowCall]] | None = None
        """Calls of shadows, by the child whose answer they are compared with."""
        self.recorded_calls: list[NodeCallRecord] | None = None
        """Finished calls, if the caller asked for them."""

    def now(self) -> float:
        return self.bound.clock()

    def place_of(self, pending_call: Any) -> int:
        place: int = pending_call.shape.place
        return place

    def cancel_call(self, pending_call: Any) -> None:
        pending_call.cancel(self.bound.clock())

    def call_target(
        self,
        shape: PreparedNode,
        phase: int,
        message: Message,
        entries: Entries,
        *,
        deadline: float,
        extra_inputs: dict[str, str] | None = None,
    ) -> None:
        target: CallTarget = (
            shape.target if phase == CALL else shape.merge_target if phase == MERGE else shape.route_target
        )
        signature = target.signature
        if message.origin != REQUEST and target.endpoint is not None:
            entries = messages.bytes_to_text(entries)
        if signature is not None:
            try:
                entries = signature.adapt(
                    add_declared_inputs(entries, extra_inputs, signature.names) if extra_inputs else entries
                )
            except ValueError as fault:
                self.on_failure(shape, message, self._input_failure(shape, message, str(fault)))
                return
        request = self.request
        if request is not None:
            request.node_calls += 1
            if request.node_calls > MAX_NODE_CALLS:
                text = with_node_name(shape, f"more than {MAX_NODE_CALLS} calls for one request, across nested graphs")
                self.on_failure(shape, message, Failure(LOST, text, shape.place, message.order))
                return
        call, now = self.call, self.bound.clock()
        step = StepCall(self, shape, phase, message)
        step.prepare(target, call, now, deadline)
        if phase == CALL and shape.direct and self.style is None and self.recorded_calls is None:
            step.whole = True
            step.item = (entries, self.output_names) if not self.raw else (entries, self.output_names, self.raw)
        else:
            step.item = (entries, self._output_names(shape) if phase == CALL and self.output_names else None, True)
        step.asks = extra_inputs
        step.headers = self.headers
        step.size = call.size if message.origin == REQUEST else messages.size_of(entries)
        self.pending.add(step)
        target.submit(step)

    def on_call_end(
        self, step: StepCall, code: int, payload: bytes, now: float, *, retry: int = 1, lacking: bytes = b""
    ) -> None:
        self.pending.discard(step)
        shape, phase = step.shape, step.phase
        if phase == CALL:
            self.bound.node_stats[shape.place].record_call(code, now - step.began)
            if self.shadow_calls is not None and code == OK:
                for copy in self.shadow_calls.get(shape.place, ()):
                    copy.on_answer(payload)
        if self.recorded_calls is not None:
            self._record_call(step, code, payload, now)
        if self.finished:
            return
        if code != OK:
            self.on_failure(shape, step.message, self._failure(step, code, payload, (retry, lacking)))
        elif step.whole:
            self.on_whole_answer(shape, step.message, payload)
        else:
            self._on_answer(step, payload)

    def _on_answer(self, step: StepCall, payload: bytes) -> None:
        shape, route = step.shape, step.route
        try:
            entries = messages.parse_reply(payload)
            if step.phase not in (CALL, MERGE) and route is None:
                entries, route = split_route(entries)
        except ValueError as fault:
            failure = Failure(
                LOST, with_node_name(shape, f"its answer cannot be read: {fault}"), shape.place, step.message.order
            )
            self.on_failure(shape, step.message, failure)
            return
        self.on_answer(shape, step.phase, step.message, entries, route)

    def shadow(self, shape: PreparedNode, chosen: PreparedNode, message: Message) -> None:
        for child in shape.shadows:
            if child.target is None:
                continue
            whole = chosen.direct and self.style is None and self.recorded_calls is None
            form = (self.output_names, self.raw) if whole else (None, True)
            copy = ShadowCall(self.bound.node_stats[child.place])
            if self.shadow_calls is None:
                self.shadow_calls = {}
            self.shadow_calls.setdefault(chosen.place, []).append(copy)
            copy.begin(child.target, self.call, message.entries, form, self.bound.clock())

    def compare_members(self, shape: PreparedNode, members: Sequence[merging.EnsembleMember]) -> None:
        bound = self.bound
        if bound.should_compare(len(members)):
            bound.compare(shape, members)
        if bound.writer is not None and isinstance(self.call, Inference):
            member_outputs = [(member.key, messages.to_payload(member.entries, True)) for member in members]
            self.call.members = [*self.call.members, *member_outputs]

    # The end

    def answer(self) -> None:
        call, outputs = self.call, self.outputs
        try:
            first = outputs[0].result
            if type(first) is bytes and len(outputs) == 1:
                payload = first
            elif self.style is not None:
                v1_outputs = [(output.key, _v1_output(output.result)) for output in outputs]
                payload = messages.render_v1(v1_outputs, self.style)
            else:
                payload = self._payload()
        except messages.UnknownOutput as fault:
            self._settle_call(BAD_REQUEST, str(fault).encode())
            return
        except ValueError as fault:
            text = str(fault) if len(outputs) > 1 else with_node_name(self.nodes[outputs[0].place], str(fault))
            self._settle_call(LOST, text.encode())
            return
        parameters = self.bound.count_path(self)
        if isinstance(call, Inference):
            call.notes = parameters
        call.work = None
        call.finish(OK, payload, self.bound.clock())

    def _payload(self) -> bytes:
        outputs = self.outputs
        if len(outputs) == 1:
            entries = outputs[0].result
            assert isinstance(entries, list)
        else:
            entries = []
            for output in outputs:
                came = output.result
                if type(came) is MissingMessage:
                    entries.append(messages.error_entry(output.key, came.failure.text))
                else:
                    assert isinstance(came, list)
                    entries += messages.prefix_names(output.key, came)
        if self.output_names:
            entries = messages.select_outputs(entries, self.output_names)
        return messages.to_payload(entries, self.raw)

    def refuse(self, failure: Failure) -> None:
        self._settle_call(failure.code, failure.text.encode(), failure.retry, failure.lacking)

    def _settle_call(self, code: int, text: bytes, retry: int = 1, lacking: bytes = b"") -> None:
        self.call.work = None
        self.call.finish(code, text, self.bound.clock(), retry, lacking=lacking)

    # Failures

    def _failure(self, step: StepCall, code: int, payload: bytes, more: tuple[int, bytes]) -> Failure:
        text, shape, order = payload.decode(errors="replace"), step.shape, step.message.order
        if code == BAD_REQUEST and not (step.phase == CALL and step.target.lacks_output(self._output_names(shape))):
            return self._input_failure(shape, step.message, text)
        return Failure(LOST if code == FAILED else code, with_node_name(shape, text), shape.place, order, *more)

    def _input_failure(self, shape: PreparedNode, message: Message, text: str) -> Failure:
        """The node rejected its input: the fault lies with the caller, or with the node that produced the input."""
        if message.origin == REQUEST:
            return Failure(BAD_REQUEST, with_node_name(shape, text), shape.place, message.order)
        giver = self.nodes[message.origin].name
        whose = f"the output of node '{giver}'" if message.origin != shape.place else "the result of its merge"
        return Failure(LOST, f"node '{shape.name}' cannot take {whose}: {text}", shape.place, message.order)

    # Details

    def _output_names(self, shape: PreparedNode) -> list[str] | None:
        """Returns the requested outputs of this node; None if its outputs do not go to the caller."""
        if not shape.final or self.output_names is None:
            return None
        if self.bound.single_output:
            return list(self.output_names)
        start = f"{shape.name}."
        return [name.removeprefix(start) for name in self.output_names if name.startswith(start)] or None

    def _record_call(self, step: StepCall, code: int, payload: bytes, now: float) -> None:
        assert self.recorded_calls is not None
        phase = PHASES.get(step.phase, "route")
        began = step.began - self.call.began
        self.recorded_calls.append(
            NodeCallRecord(step.shape.name, phase, began, now - step.began, code, payload, step.whole)
        )


class StepCall(NodeCall):
    """The call of one phase of a node in an execution."""

    __slots__ = ("execution", "message", "phase", "shape", "whole")

    def __init__(self, execution: GraphExecution, shape: PreparedNode, phase: int, message: Message) -> None:
        self.execution = execution
        self.shape = shape
        self.phase = phase
        self.message = message
        self.whole = False
        """Its answer is the answer to the request, in the requested form."""
        self.pending = True

    def on_end(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self.execution.on_call_end(self, code, payload, now, retry=retry, lacking=lacking)


def _v1_output(came: Entries | bytes | MissingMessage) -> Entries | str:
    if type(came) is MissingMessage:
        return came.failure.text
    assert isinstance(came, list)
    return came
