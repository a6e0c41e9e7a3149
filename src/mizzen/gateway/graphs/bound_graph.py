"""A graph of the Table whose nodes know what they call, ready to be asked.

It is bound anew with each Table, as whole as the Table is: requests that are on their way go on with what they began
with.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random

from mizzen.gateway.feedback.record_keeper import Keeper
from mizzen.gateway.graphs.execution import Seen, Walk
from mizzen.gateway.graphs.node_stats import NodeTally
from mizzen.gateway.graphs.targets import Target, broken
from mizzen.gateway.inference.calls import BAD_REQUEST, Call, Placed
from mizzen.gateway.inference.protocols import Options
from mizzen.gateway.inference.response_parameters import Notes, Value
from mizzen.gateway.inference.signature import Hello, Signature, Tensor
from mizzen.graph import merging, messages, table_types, weighted_split
from mizzen.graph.executor import Run
from mizzen.graph.prepared_nodes import Choose, Shape, shapes_of
from mizzen.protocol.v2 import Entry
from mizzen.selection.cached_state import Selector
from mizzen.selection.records.record import what_of

REMEMBERED = 1024
"""Ways through a graph whose notes are kept."""
FIRST, EVERY = 100, 8
"""How far members of an ensemble differ is looked at for the first merges, then for every so many and one more for each
pair: so it costs about as much for all of them."""
FRAMEWORK = "mizzen-graph"

COMPARED, COMPARED_BYTES = 8, 4096
"""Members that are, and bytes of the tensor of each."""

log = logging.getLogger(__name__)

Select = Callable[[str, table_types.Policy, tuple[str, ...]], Selector]
"""What chooses for a node with a bandit: by its name, and those of its arms."""
Find = Callable[[table_types.Callee], Target]
Pick = Callable[[str, Options], tuple[int, float]]
"""Which child is taken, by whom the request is for and what its head says; and how likely that was, or 0."""


class Told(Notes):
    """What is told of one way through the graph."""

    __slots__ = ("chosen", "places")

    def __init__(
        self,
        parameters: dict[str, Value],
        places: Sequence[int],
        chosen: Sequence[tuple[int, str]],
        keeper: Keeper | None,
        what: bytes,
    ) -> None:
        super().__init__(parameters, keeper, what)
        self.places = places
        self.chosen = chosen


class BoundGraph:
    __slots__ = (
        "_compared", "_rng", "_signature", "_told", "clock", "graph", "keeper", "picks", "shapes", "sole",
        "tallies",
    )  # fmt: skip

    def __init__(
        self,
        graph: table_types.Graph,
        *,
        tallies: Sequence[NodeTally],
        clock: Callable[[], float],
        rng: Random,
        select: Select,
        keeper: Keeper | None,
    ) -> None:
        """`tallies`: one for each node. `bind` is due before anybody asks."""
        self.graph = graph
        self.tallies = tallies
        self.clock = clock
        self.keeper = keeper
        self.shapes = shapes_of(graph)
        self.sole = sum(not node.children for node in graph.nodes) == 1
        """It has one output, whichever way is taken: names of outputs are those of its tensors."""
        self._rng = rng
        self._told: dict[object, Told] = {}
        self._compared = 0
        self._signature: Signature | None = None
        if graph.inputs:
            inputs = [Tensor(each.name, each.datatype, list(each.shape)) for each in graph.inputs]
            self._signature = Signature(Hello("ready", inputs=inputs, strict=True))
        self.picks = {shape.place: self._picker(shape, select) for shape in self.shapes}
        """Of nodes that choose: how."""
        for shape in self.shapes:
            shape.choose = _on_a_walk(self.picks[shape.place])

    def bind(self, find: Find) -> None:
        for shape in self.shapes:
            node, merge, route = shape.node, shape.merge, shape.route
            shape.target = None if node.call is None else find(node.call)
            shape.merge_target = None if merge is None or merge.call is None else find(merge.call)
            shape.route_target = None if route is None or route.call is None else find(route.call)

    def submit(self, call: Call) -> None:
        assert isinstance(call, Placed)
        self.begin(call)

    def begin(self, call: Placed, seen: list[Seen] | None = None) -> Walk:
        """`seen`: filled with what is called, for those who want to know; the walk tells them the rest."""
        walk = Walk(self, call)
        walk.seen = seen
        item = call.item
        entries: list[Entry]
        try:
            if len(item) == 1:
                hello = self.hello
                entries, walk.style = messages.of_v1(item[0], () if hello is None else hello.inputs)
            else:
                entries, walk.names = item[0], item[1]
                walk.raw = item[2] if len(item) > 2 else None
            if self._signature is not None:
                entries = self._signature.adapt(entries)
        except ValueError as fault:
            call.settle(BAD_REQUEST, str(fault).encode(), self.clock())
            return walk
        call.work = walk
        try:
            walk.begin(entries)
        except Exception:  # nobody else would end the request
            log.exception("failed to begin the way through a graph")
            broken(call, self.clock())
        return walk

    # What is told with answers

    def told(self, walk: Walk) -> Notes:
        """Made once for each way through the graph."""
        taken, decisions = bytes(walk.taken), walk.decisions
        if not decisions:
            way: object = taken, walk.confidence
        else:
            way = taken, walk.confidence, tuple([(each.key, each.chosen, each.likely) for each in decisions])
        told = self._told.get(way)
        if told is None:
            if len(self._told) >= REMEMBERED:
                self._told.clear()
            told = self._told[way] = self._tell(walk)
        tallies = self.tallies
        for place in told.places:
            tallies[place].ran += 1
        for place, child in told.chosen:
            tallies[place].chosen[child] += 1
        if walk.confidence is not None and walk.confidence < 1.0:
            for place in told.places:
                merge = self.shapes[place].merge
                if merge is not None and merge.partial:
                    tallies[place].partial += 1
        return told

    def _tell(self, walk: Walk) -> Told:
        shapes = self.shapes
        places = [place for place, taken in enumerate(walk.taken) if taken]
        decisions = sorted(walk.decisions, key=lambda each: (each.place, each.order))
        parameters: dict[str, Value] = {"nodes": ",".join(shapes[place].name for place in places)}
        routing_text = ";".join(
            f"{each.key}={','.join(shapes[place].name for place in each.chosen)}"
            + (f"@{each.likely:.6g}" if self._tells_likely(each.place) else "")
            for each in decisions
        )
        if routing_text:
            parameters["routing"] = routing_text
        if walk.confidence is not None:
            parameters["confidence"] = walk.confidence
        chosen = [(each.place, shapes[place].name) for each in decisions for place in each.chosen]
        what = b""
        if self.keeper is not None:
            what = what_of(
                self.graph.generation,
                [(shapes[each.place].name, shapes[place].name, each.likely) for each in decisions
                 for place in each.chosen],
                [(shapes[place].name, target.version) for place in places
                 if (target := shapes[place].target) is not None],
            )  # fmt: skip
        return Told(parameters, places, chosen, self.keeper, what)

    def _tells_likely(self, place: int) -> bool:
        route = self.shapes[place].route
        return route is not None and route.policy is not None and route.policy.name == "exp3"

    def looks(self, count: int) -> bool:
        """Is it time to look how far so many members of an ensemble differ? Each time at first, then for some."""
        self._compared += 1
        return self._compared <= FIRST or not self._compared % (EVERY + count * (count - 1) // 2)

    def compare(self, shape: Shape, members: Sequence[merging.Member]) -> None:
        """How far members of an ensemble differ: the first of them, and while they are small. All pairs of many, or of
        large ones, would take longer than the merge."""
        members = [each for each in members[:COMPARED] if messages.size_of(each.entries[:1]) <= COMPARED_BYTES]
        tally, by = self.tallies[shape.place], iter(merging.disagreement(members))
        for at, one in enumerate(members):
            for other in members[at + 1 :]:
                tally.differ(one.key, other.key, next(by))

    # What nodes call

    def passed_on(self, call: Placed) -> tuple[tuple[bytes, bytes], ...]:
        """Headers of the request that go with every call."""
        wanted = {name.encode() for name in self.graph.headers}
        return tuple(head for head in call.options.heads if head[0] in wanted)

    def _picker(self, shape: Shape, select: Select) -> Pick | None:
        """None: there is nothing to choose."""
        route = shape.route
        if route is None or route.kind == "call" or len(route.children) < 2:
            return None
        if route.policy is not None:
            arms = tuple(child.name for child, _ in shape.next)
            return _by_bandit(select(shape.name, route.policy, arms), arms)
        ends, rng = weighted_split.bounds(route.weights or (1.0,) * len(route.children)), self._rng.random
        if not route.key:
            return lambda user, options: (bisect_right(ends, rng()), 0.0)
        key, salt = route.key, f"{self.graph.uid}/{shape.name}".encode()
        return lambda user, options: (weighted_split.draw(ends, _share(user, options, key, salt, rng)), 0.0)

    # Whether it can be asked

    def _needed(self) -> list[Shape]:
        """Nodes that a request may not do without."""
        shadows = {child.place for shape in self.shapes for child in shape.shadows}
        return [shape for shape in self.shapes if not shape.skip and shape.place not in shadows]

    def _targets(self) -> list[tuple[Shape, Target]]:
        """All that those call."""
        return [
            (shape, target)
            for shape in self._needed()
            for target in (shape.target, shape.merge_target, shape.route_target)
            if target is not None
        ]

    def _out(self) -> tuple[str, str] | None:
        """The first node that cannot run, or whose service or container the plane did not find, and why."""
        away = self.graph.away
        out = ((shape.name, shape.lacking or away.get(shape.name, "")) for shape in self._needed())
        return next((each for each in out if each[1]), None)

    @property
    def ready(self) -> bool:
        return self._out() is None and all(target.ready for _, target in self._targets())

    @property
    def callable(self) -> bool:
        return self._out() is None and all(target.callable for _, target in self._targets())

    @property
    def reason(self) -> str:
        if out := self._out():
            return f"node '{out[0]}': {out[1]}"
        why = ((shape.name, target.reason) for shape, target in self._targets())
        return next((f"node '{name}': {reason}" for name, reason in why if reason), "")

    def rouse(self, now: float) -> None:
        for _, target in self._targets():
            if target.endpoint is not None:
                target.endpoint.rouse(now)

    def may_hold(self, now: float) -> bool:
        away = [target for _, target in self._targets() if not target.ready]
        return all(target.endpoint is not None and target.endpoint.may_hold(now) for target in away)

    @property
    def hello(self) -> Hello | None:
        """What it takes is what it declares, or the first model on the way does; what it gives, what the last does."""
        first = self._first()
        inputs = [Tensor(each.name, each.datatype, list(each.shape)) for each in self.graph.inputs]
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

    def _first(self) -> Target | None:
        waiting = [shape for shape in self.shapes if not shape.width]
        while waiting:
            shape = waiting.pop(0)
            target: Target | None = shape.target
            if target is not None:
                return target
            waiting += [child for child, _ in shape.next]
        return None

    def _outputs(self) -> list[Tensor]:
        """As far as they are the same whichever way is taken."""
        ends = [shape for shape in self.shapes if not shape.node.children]
        if not self.sole:
            told = [self._given(shape) for shape in ends]
            return told[0] if all(each == told[0] for each in told) and self._splits(ends) else []
        return self._given(ends[0])

    def _splits(self, ends: Sequence[Shape]) -> bool:
        """One of these answers, and never two."""
        parents = {shape.node.dependencies for shape in ends}
        if len(parents) != 1 or len(next(iter(parents))) != 1:
            return False
        route = self.shapes[next(iter(parents))[0]].route
        return route is not None and route.kind != "call"

    def _given(self, shape: Shape) -> list[Tensor]:
        if shape.target is not None:
            hello = shape.target.hello
            return [] if hello is None else hello.outputs
        merge = shape.merge
        if merge is None or merge.kind == "call":
            return []
        members = [self._given(self.shapes[place]) for place in shape.node.dependencies]
        if not members or any(each != members[0] for each in members):
            return []
        if merge.kind == "vote":
            return members[0]
        kind = "INT64" if merge.threshold is not None else "FP64"
        return [
            Tensor(each.name, "FP32" if each.datatype == "FP32" and kind == "FP64" else kind, each.shape)
            for each in members[0]
        ]


def _by_bandit(selector: Selector, arms: Sequence[str]) -> Pick:
    places = {arm: place for place, arm in enumerate(arms)}
    choose = selector.choose

    def chosen(user: str, options: Options) -> tuple[int, float]:
        arm, likely = choose(user)
        return places[arm], likely

    return chosen


def _on_a_walk(pick: Pick | None) -> Choose | None:
    if pick is None:
        return None

    def chosen(run: Run) -> tuple[int, float]:
        assert isinstance(run, Walk)
        return pick(run.user, run.call.options)

    return chosen


def _share(user: str, options: Options, key: str, salt: bytes, rng: Callable[[], float]) -> float:
    """By what the request says of itself; by chance where it does not."""
    value = user.encode() if key == "user" else options.said(key.removeprefix("header:").encode())
    return weighted_split.share_of(value, salt) if value else rng()
