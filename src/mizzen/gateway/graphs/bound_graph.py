"""A graph of the Table, bound to the targets of its nodes and ready for requests.

Each Table binds all its graphs again. Requests in flight finish with the graph that they began with.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random

from mizzen.gateway.feedback.record_keeper import RecordWriter
from mizzen.gateway.graphs.execution import GraphExecution, NodeCallRecord
from mizzen.gateway.graphs.node_stats import NodeStats
from mizzen.gateway.graphs.targets import CallTarget, fail_request
from mizzen.gateway.inference.endpoint import NamedCall
from mizzen.gateway.inference.response_parameters import ResponseParameters, Value
from mizzen.gateway.queueing.call import BAD_REQUEST, Call
from mizzen.gateway.queueing.signature import Hello, HelloTensor, SignatureCheck
from mizzen.gateway.request.head import RequestHead
from mizzen.graph import merging, messages, table_types, weighted_split
from mizzen.graph.executor import GraphRun
from mizzen.graph.prepared_nodes import ChooseChild, PreparedNode, prepare_nodes
from mizzen.protocol.v2 import Entry
from mizzen.selection.cached_state import Selector
from mizzen.selection.records.record import encode_record

MAX_PATHS = 1024
"""Paths through a graph whose response parameters are cached."""
COMPARE_FIRST, COMPARE_EVERY = 100, 8
"""Members of an ensemble are compared for the first merges. Then the interval is COMPARE_EVERY plus the number of
pairs, so that the cost is about the same for ensembles of any size."""
FRAMEWORK = "mizzen-graph"

MAX_COMPARED, MAX_COMPARED_BYTES = 8, 4096
"""Members that are compared, and bytes of each one's tensor."""

log = logging.getLogger(__name__)

Select = Callable[[str, table_types.Policy, tuple[str, ...]], Selector]
"""Returns the selector of a node with a bandit, by the node's name, policy and arms."""
Find = Callable[[table_types.Callee], CallTarget]
Pick = Callable[[str, RequestHead], tuple[int, float]]
"""Returns the index of the chosen child and its probability (or 0), by the user and the headers of the request."""


class PathParameters(ResponseParameters):
    """The response parameters of one path through the graph."""

    __slots__ = ("chosen", "places")

    def __init__(
        self,
        parameters: dict[str, Value],
        places: Sequence[int],
        chosen: Sequence[tuple[int, str]],
        writer: RecordWriter | None,
        record: bytes,
    ) -> None:
        super().__init__(parameters, writer, record)
        self.places = places
        self.chosen = chosen


class BoundGraph:
    __slots__ = (
        "_compared", "_path_parameters", "_rng", "_signature", "clock", "graph", "node_stats", "picks", "shapes",
        "single_output", "writer",
    )  # fmt: skip

    def __init__(
        self,
        graph: table_types.CompiledGraph,
        *,
        node_stats: Sequence[NodeStats],
        clock: Callable[[], float],
        rng: Random,
        select: Select,
        writer: RecordWriter | None,
    ) -> None:
        """`node_stats`: one for each node. `bind` must be called before the first request."""
        self.graph = graph
        self.node_stats = node_stats
        self.clock = clock
        self.writer = writer
        self.shapes = prepare_nodes(graph)
        self.single_output = sum(not node.children for node in graph.nodes) == 1
        """Every path ends at the same node, so outputs are named after its tensors."""
        self._rng = rng
        self._path_parameters: dict[object, PathParameters] = {}
        self._compared = 0
        self._signature: SignatureCheck | None = None
        if graph.inputs:
            inputs = [HelloTensor(each.name, each.datatype, list(each.shape)) for each in graph.inputs]
            self._signature = SignatureCheck(Hello("ready", inputs=inputs, strict=True))
        self.picks = {shape.place: self._picker(shape, select) for shape in self.shapes}
        """By place: how a node chooses, or None if it does not."""
        for shape in self.shapes:
            shape.choose = _choose_in_execution(self.picks[shape.place])

    def bind(self, find: Find) -> None:
        for shape in self.shapes:
            node, merge, route = shape.spec, shape.merge, shape.route
            shape.target = None if node.call is None else find(node.call)
            shape.merge_target = None if merge is None or merge.call is None else find(merge.call)
            shape.route_target = None if route is None or route.call is None else find(route.call)

    def submit(self, call: Call) -> None:
        assert isinstance(call, NamedCall)
        self.begin(call)

    def begin(self, call: NamedCall, recorded_calls: list[NodeCallRecord] | None = None) -> GraphExecution:
        """`recorded_calls`: filled with finished calls for `explain`, which reads the rest from the execution."""
        execution = GraphExecution(self, call)
        execution.recorded_calls = recorded_calls
        item = call.item
        entries: list[Entry]
        try:
            if len(item) == 1:
                hello = self.hello
                entries, execution.style = messages.parse_v1(item[0], () if hello is None else hello.inputs)
            else:
                entries, execution.output_names = item[0], item[1]
                execution.raw = item[2] if len(item) > 2 else None
            if self._signature is not None:
                entries = self._signature.adapt(entries)
        except ValueError as fault:
            call.finish(BAD_REQUEST, str(fault).encode(), self.clock())
            return execution
        call.work = execution
        try:
            execution.begin(entries)
        except Exception:  # nothing else would end the request
            log.exception("failed to begin the execution of a graph")
            fail_request(call, self.clock())
        return execution

    # Response parameters

    def count_path(self, execution: GraphExecution) -> ResponseParameters:
        """Counts one finished request; returns its response parameters, which are cached by path."""
        taken, decisions = bytes(execution.reached), execution.decisions
        if not decisions:
            way: object = taken, execution.confidence
        else:
            way = taken, execution.confidence, tuple([(each.key, each.chosen, each.probability) for each in decisions])
        parameters = self._path_parameters.get(way)
        if parameters is None:
            if len(self._path_parameters) >= MAX_PATHS:
                self._path_parameters.clear()
            parameters = self._path_parameters[way] = self._build_parameters(execution)
        node_stats = self.node_stats
        for place in parameters.places:
            node_stats[place].ran += 1
        for place, child in parameters.chosen:
            node_stats[place].chosen[child] += 1
        if execution.confidence is not None and execution.confidence < 1.0:
            for place in parameters.places:
                merge = self.shapes[place].merge
                if merge is not None and merge.partial:
                    node_stats[place].partial += 1
        return parameters

    def _build_parameters(self, execution: GraphExecution) -> PathParameters:
        shapes = self.shapes
        places = [place for place, taken in enumerate(execution.reached) if taken]
        decisions = sorted(execution.decisions, key=lambda each: (each.place, each.order))
        parameters: dict[str, Value] = {"nodes": ",".join(shapes[place].name for place in places)}
        routing_text = ";".join(
            f"{each.key}={','.join(shapes[place].name for place in each.chosen)}"
            + (f"@{each.probability:.6g}" if self._shows_probability(each.place) else "")
            for each in decisions
        )
        if routing_text:
            parameters["routing"] = routing_text
        if execution.confidence is not None:
            parameters["confidence"] = execution.confidence
        chosen = [(each.place, shapes[place].name) for each in decisions for place in each.chosen]
        what = b""
        if self.writer is not None:
            what = encode_record(
                self.graph.generation,
                [(shapes[each.place].name, shapes[place].name, each.probability) for each in decisions
                 for place in each.chosen],
                [(shapes[place].name, target.version) for place in places
                 if (target := shapes[place].target) is not None],
            )  # fmt: skip
        return PathParameters(parameters, places, chosen, self.writer, what)

    def _shows_probability(self, place: int) -> bool:
        route = self.shapes[place].route
        return route is not None and route.policy is not None and route.policy.name == "exp3"

    def should_compare(self, count: int) -> bool:
        """Whether to compare `count` members of an ensemble now: always at first, then sometimes."""
        self._compared += 1
        return self._compared <= COMPARE_FIRST or not self._compared % (COMPARE_EVERY + count * (count - 1) // 2)

    def compare(self, shape: PreparedNode, members: Sequence[merging.EnsembleMember]) -> None:
        """Counts how far members of an ensemble differ: only the first ones, and small tensors. Comparing all pairs of
        many or large members would take longer than the merge."""
        members = [each for each in members[:MAX_COMPARED] if messages.size_of(each.entries[:1]) <= MAX_COMPARED_BYTES]
        stats, by = self.node_stats[shape.place], iter(merging.pairwise_disagreement(members))
        for at, one in enumerate(members):
            for other in members[at + 1 :]:
                stats.add_disagreement(one.key, other.key, next(by))

    # Targets of nodes

    def select_headers(self, call: NamedCall) -> tuple[tuple[bytes, bytes], ...]:
        """Returns the request headers that every call forwards."""
        wanted = {name.encode() for name in self.graph.headers}
        return tuple(head for head in call.head.graph_headers if head[0] in wanted)

    def _picker(self, shape: PreparedNode, select: Select) -> Pick | None:
        """Returns None if the node has no choice."""
        route = shape.route
        if route is None or route.kind == "call" or len(route.children) < 2:
            return None
        if route.policy is not None:
            arms = tuple(child.name for child, _ in shape.next)
            return _bandit_picker(select(shape.name, route.policy, arms), arms)
        ends, rng = weighted_split.bounds_of(route.weights or (1.0,) * len(route.children)), self._rng.random
        if not route.key:
            return lambda user, head: (bisect_right(ends, rng()), 0.0)
        key, salt = route.key, f"{self.graph.uid}/{shape.name}".encode()
        return lambda user, head: (weighted_split.draw(ends, _split_point(user, head, key, salt, rng)), 0.0)

    # Readiness

    def _list_required_nodes(self) -> list[PreparedNode]:
        """Returns the nodes that are neither optional nor shadows."""
        shadows = {child.place for shape in self.shapes for child in shape.shadows}
        return [shape for shape in self.shapes if not shape.skip and shape.place not in shadows]

    def _list_required_targets(self) -> list[tuple[PreparedNode, CallTarget]]:
        """Returns all targets of the required nodes."""
        return [
            (shape, target)
            for shape in self._list_required_nodes()
            for target in (shape.target, shape.merge_target, shape.route_target)
            if target is not None
        ]

    def _find_blocked(self) -> tuple[str, str] | None:
        """Returns the first node that cannot run, or whose service or container was not found, and the reason."""
        away = self.graph.away
        out = ((shape.name, shape.lacking or away.get(shape.name, "")) for shape in self._list_required_nodes())
        return next((each for each in out if each[1]), None)

    @property
    def ready(self) -> bool:
        return self._find_blocked() is None and all(target.ready for _, target in self._list_required_targets())

    @property
    def callable(self) -> bool:
        return self._find_blocked() is None and all(target.callable for _, target in self._list_required_targets())

    @property
    def reason(self) -> str:
        if out := self._find_blocked():
            return f"node '{out[0]}': {out[1]}"
        why = ((shape.name, target.reason) for shape, target in self._list_required_targets())
        return next((f"node '{name}': {reason}" for name, reason in why if reason), "")

    def request_replica(self, now: float) -> None:
        for _, target in self._list_required_targets():
            if target.endpoint is not None:
                target.endpoint.request_replica(now)

    def may_hold(self, now: float) -> bool:
        away = [target for _, target in self._list_required_targets() if not target.ready]
        return all(target.endpoint is not None and target.endpoint.may_hold(now) for target in away)

    @property
    def hello(self) -> Hello | None:
        """Inputs: those that the graph declares, or else those of its first model. Outputs: those of its last node."""
        first = self._first_target()
        inputs = [HelloTensor(each.name, each.datatype, list(each.shape)) for each in self.graph.inputs]
        taken = None if first is None else first.hello
        if not inputs and first is not None and taken is None and first.endpoint is not None:
            return None
        return Hello(
            state="ready",
            framework=FRAMEWORK,
            inputs=inputs or ([] if taken is None else taken.inputs),
            outputs=self._outputs(),
            strict=bool(inputs) or (taken is not None and taken.strict),
        )

    def _first_target(self) -> CallTarget | None:
        waiting = [shape for shape in self.shapes if not shape.width]
        while waiting:
            shape = waiting.pop(0)
            target: CallTarget | None = shape.target
            if target is not None:
                return target
            waiting += [child for child, _ in shape.next]
        return None

    def _outputs(self) -> list[HelloTensor]:
        """Returns the outputs if they are the same on every path, else none."""
        ends = [shape for shape in self.shapes if not shape.spec.children]
        if not self.single_output:
            outputs = [self._outputs_of(shape) for shape in ends]
            return outputs[0] if all(each == outputs[0] for each in outputs) and self._are_alternatives(ends) else []
        return self._outputs_of(ends[0])

    def _are_alternatives(self, ends: Sequence[PreparedNode]) -> bool:
        """Whether exactly one of these end nodes answers each request."""
        parents = {shape.spec.dependencies for shape in ends}
        if len(parents) != 1 or len(next(iter(parents))) != 1:
            return False
        route = self.shapes[next(iter(parents))[0]].route
        return route is not None and route.kind != "call"

    def _outputs_of(self, shape: PreparedNode) -> list[HelloTensor]:
        if shape.target is not None:
            hello = shape.target.hello
            return [] if hello is None else hello.outputs
        merge = shape.merge
        if merge is None or merge.kind == "call":
            return []
        members = [self._outputs_of(self.shapes[place]) for place in shape.spec.dependencies]
        if not members or any(each != members[0] for each in members):
            return []
        if merge.kind == "vote":
            return members[0]
        kind = "INT64" if merge.threshold is not None else "FP64"
        return [
            HelloTensor(each.name, "FP32" if each.datatype == "FP32" and kind == "FP64" else kind, each.shape)
            for each in members[0]
        ]


def _bandit_picker(selector: Selector, arms: Sequence[str]) -> Pick:
    places = {arm: place for place, arm in enumerate(arms)}
    choose = selector.choose

    def pick(user: str, head: RequestHead) -> tuple[int, float]:
        arm, likely = choose(user)
        return places[arm], likely

    return pick


def _choose_in_execution(pick: Pick | None) -> ChooseChild | None:
    if pick is None:
        return None

    def choose(run: GraphRun) -> tuple[int, float]:
        assert isinstance(run, GraphExecution)
        return pick(run.user, run.call.head)

    return choose


def _split_point(user: str, head: RequestHead, key: str, salt: bytes, rng: Callable[[], float]) -> float:
    """Returns the split point by the user or header of the request; random if it has none."""
    value = user.encode() if key == "user" else head.header(key.removeprefix("header:").encode())
    return weighted_split.share_of(value, salt) if value else rng()
