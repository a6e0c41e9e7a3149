"""Graphs that could be anybody's, with scripts for them: by a seed, or as a strategy of hypothesis.

A graph is grown from a list of sprouts, each of which is one node by itself and knows others only by how far back they
are. So any of them can be left out, and `smallest` leaves out of a failing case whatever it can: more than hypothesis
does, and in a hundredth of its time, since that does not know that others are nearer then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from mizzen.graph import table_types
from tests.unit.graph.reference import Calls, Message, Outcome, Place, Script

MOST_NODES = 30
MOST_KEYS = 6
"""Most messages of one node. A node to which more could come merges, or graphs of diamonds have thousands."""
CALLEE = table_types.Callee(name="any")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """All that `reference.interpret` asks for."""

    graph: table_types.CompiledGraph
    script: Script
    request: Message
    deadline: int | None
    choices: Mapping[Place, tuple[str, ...]]
    sprouts: tuple[Sprout, ...]
    """What it was grown from."""


def cases(most_nodes: int = MOST_NODES) -> st.SearchStrategy[Case]:
    @st.composite
    def sprout(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Sprout:
        return _sprout(_Drawn(draw))

    @st.composite
    def rest(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Message, int | None]:
        return _request(_Drawn(draw))

    return st.builds(_grown, st.lists(sprout(), min_size=1, max_size=most_nodes), rest())


def random_case(random: Random, most_nodes: int = MOST_NODES) -> Case:
    """Equal for equal seeds."""
    dice = _Thrown(random)
    sprouts = [_sprout(dice) for _ in range(dice.number(1, most_nodes))]
    return _grown(sprouts, _request(dice))


def smallest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case that still fails, of which nothing more can be left out."""
    found: Case | None = case
    while found is not None:
        case = found
        found = next((smaller for smaller in _smaller(case) if fails(smaller)), None)
    return case


def keys_of(graph: table_types.CompiledGraph) -> list[list[str]]:
    """For each node, the keys of all messages that it could ever make, in the order of their slots."""
    found: list[list[str]] = []
    for v, node in enumerate(graph.nodes):
        if not node.dependencies or node.merge is not None:
            found.append([node.name])
            continue
        before = [u for u in node.dependencies if not _is_shadow(graph.nodes[u], v)]
        alone = len(node.dependencies) == 1
        keys = [key for u in before for key in found[u]]
        found.append([node.name if alone and "/" not in key else f"{node.name}/{key}" for key in keys])
    return found


class Dice(Protocol):
    """Where chance comes from. What is drawn in the end, when an example is made small, is named first."""

    def number(self, low: int, high: int) -> int: ...

    def one_of(self, options: Sequence[T]) -> T: ...

    def happens(self, percent: int) -> bool: ...


class _Thrown:
    def __init__(self, random: Random) -> None:
        self._random = random

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def one_of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def happens(self, percent: int) -> bool:
        return self._random.randrange(100) >= 100 - percent


class _Drawn:
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def happens(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


@dataclass(frozen=True, slots=True)
class _Way:
    """One run of a node: what its calls answer, and where it goes, by numbers that are taken modulo the children."""

    calls: Calls
    said: str
    """Of a router: `all`, `some`, `none`, `nobody` (a name that is no child) or `nothing`."""
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Sprout:
    """One node, before it is known which others there are."""

    back: tuple[int, ...]
    """How far back its dependencies are; those before the first node are left out."""
    merge: str
    """`mean`, `vote` or `call`, of nodes with dependencies; empty: only where too much would arrive."""
    weights: tuple[int, ...]
    """Of dependencies and of children, as far as they go; 1 beyond. Empty: all alike."""
    partial: bool
    threshold: bool
    calls: bool
    route: str
    """`split`, `mab` or `call`, of nodes with children; empty: to all."""
    shadow: bool
    """Of a split with several children: the last is one."""
    timeout: int | None
    skip: bool
    lacking: bool
    ways: tuple[_Way, ...]
    """Of its runs, one after another and again from the first."""


def _sprout(dice: Dice) -> Sprout:
    width = dice.one_of((1, 1, 2, 2, 4))
    bare = Sprout(
        back=() if dice.happens(8) else tuple(dict.fromkeys(_back(dice) for _ in range(width))),
        merge=dice.one_of(("", "", "mean", "mean", "vote", "call")),
        weights=tuple(dice.one_of((1, 0, 2, 3)) for _ in range(4)) if dice.happens(40) else (),
        partial=dice.happens(60),
        threshold=dice.happens(8),
        calls=not dice.happens(20),
        route=dice.one_of(("", "", "", "split", "mab", "call")),
        shadow=dice.happens(30),
        timeout=dice.number(2, 12) if dice.happens(15) else None,
        skip=dice.happens(25),
        lacking=dice.happens(1),
        ways=(),
    )
    return replace(bare, ways=tuple(_way(dice, bare) for _ in range(dice.number(1, 3))))


def _back(dice: Dice) -> int:
    return dice.number(1, MOST_NODES) if dice.happens(20) else dice.number(1, 5)


def _way(dice: Dice, sprout: Sprout) -> _Way:
    plain = Outcome()
    calls = Calls(
        merge=_outcome(dice, gives=80) if sprout.merge == "call" else plain,
        implementation=_outcome(dice, gives=5) if sprout.calls else plain,
        route=_outcome(dice, gives=0) if sprout.route == "call" else plain,
    )
    if not sprout.route:
        return _Way(calls, "all", 0, 0)
    said = dice.one_of(("nobody", "nothing")) if dice.happens(2) else dice.one_of(("all", "some", "none"))
    return _Way(calls, said, dice.number(0, 5), dice.number(0, 5))


def _outcome(dice: Dice, *, gives: int) -> Outcome:
    return Outcome(
        ticks=dice.number(4, 50) if dice.happens(7) else dice.number(1, 3),
        code=dice.one_of((500, 400, 502, 503)) if dice.happens(4) else 200,
        scale=dice.one_of((1.0, 1.0, 0.5, 2.0)),
        offset=float(dice.one_of((0, 0, 1, -1))),
        takes=dice.one_of(("x", "z")) if dice.happens(2) else "",
        gives="x" if dice.happens(gives) else "",
        empty=dice.happens(60),
    )


def _request(dice: Dice) -> tuple[Message, int | None]:
    """What is asked, and until when."""
    width = dice.number(1, 3)
    names = ("x", "y") if dice.happens(20) else ("x",)
    request = {name: [float(dice.number(0, 5)) for _ in range(width)] for name in names}
    return request, dice.number(5, 60) if dice.happens(50) else None


def _grown(sprouts: Sequence[Sprout], rest: tuple[Message, int | None]) -> Case:
    request, deadline = rest
    graph = _graph(sprouts)
    names = [node.name for node in graph.nodes]
    runs: dict[Place, Calls] = {}
    choices: dict[Place, tuple[str, ...]] = {}
    for sprout, node, keys in zip(sprouts, graph.nodes, keys_of(graph), strict=True):
        for slot, key in enumerate(keys):
            way = sprout.ways[slot % len(sprout.ways)]
            runs[node.name, key] = replace(way.calls, route=replace(way.calls.route, route=_said(way, node, names)))
            if node.route is not None and node.route.kind != "call":
                weights = node.route.weights or (1.0,) * len(node.route.children)
                open_to = [child for child, weight in zip(node.route.children, weights, strict=True) if weight]
                choices[node.name, key] = (names[open_to[way.first % len(open_to)]],)
    return Case(graph, Script(runs), request, deadline, choices, tuple(sprouts))


def _smaller(case: Case) -> Iterator[Case]:
    """The same with one thing less, from the largest to the least."""
    sprouts, rest = case.sprouts, (case.request, case.deadline)
    if len(sprouts) > 1:
        for v in range(len(sprouts)):
            yield _grown(_without(sprouts, v), rest)
    for v, sprout in enumerate(sprouts):
        for barer in _barer(sprout):
            if barer != sprout:
                yield _grown((*sprouts[:v], barer, *sprouts[v + 1 :]), rest)
    for plainer in (({"x": [1.0]}, case.deadline), (case.request, None)):
        if plainer != rest:
            yield _grown(sprouts, plainer)


def _without(sprouts: Sequence[Sprout], gone: int) -> list[Sprout]:
    left = []
    for v, sprout in enumerate(sprouts):
        back = [far - (v - far < gone < v) for far in sprout.back if v - far != gone]
        if v != gone:
            left.append(replace(sprout, back=tuple(back)))
    return left


def _barer(sprout: Sprout) -> Iterator[Sprout]:
    for at in range(len(sprout.back)):
        yield replace(sprout, back=sprout.back[:at] + sprout.back[at + 1 :])
    yield replace(sprout, lacking=False)
    yield replace(sprout, route="")
    yield replace(sprout, shadow=False)
    yield replace(sprout, merge="")
    yield replace(sprout, weights=())
    yield replace(sprout, partial=False)
    yield replace(sprout, threshold=False)
    yield replace(sprout, timeout=None)
    yield replace(sprout, skip=False)
    yield replace(sprout, calls=False)
    plain = Outcome()
    for at, way in enumerate(sprout.ways):
        before, after = sprout.ways[:at], sprout.ways[at + 1 :]
        if before or after:
            yield replace(sprout, ways=before + after)
        for calls in (
            replace(way.calls, merge=plain),
            replace(way.calls, implementation=plain),
            replace(way.calls, route=plain),
        ):
            yield replace(sprout, ways=(*before, replace(way, calls=calls), *after))
        yield replace(sprout, ways=(*before, replace(way, said="all", first=0, second=0), *after))


def _graph(sprouts: Sequence[Sprout]) -> table_types.CompiledGraph:
    """Valid, in topological order, with dependencies in any order and children in that of the graph."""
    count = len(sprouts)
    dependencies = [tuple(v - back for back in sprout.back if back <= v) for v, sprout in enumerate(sprouts)]
    children = [tuple(w for w in range(count) if v in dependencies[w]) for v in range(count)]
    nodes: list[table_types.Node] = []
    messages: list[int] = []
    for v, sprout in enumerate(sprouts):
        arriving = sum(messages[u] for u in dependencies[v])
        merge = _merging(sprout, len(dependencies[v]), too_many=arriving > MOST_KEYS) if dependencies[v] else None
        messages.append(arriving if dependencies[v] and merge is None else 1)
        nodes.append(
            table_types.Node(
                name=f"n{v}",
                dependencies=dependencies[v],
                children=children[v],
                merge=merge,
                call=CALLEE if sprout.calls else None,
                route=_routing(sprout, children[v]) if children[v] else None,
                timeout_ms=sprout.timeout,
                skip=sprout.skip,
                lacking="it lacks a limb" if sprout.lacking else "",
            )
        )
    return table_types.CompiledGraph(uid="u", generation=1, nodes=tuple(nodes))


def _merging(sprout: Sprout, count: int, *, too_many: bool) -> table_types.Merging | None:
    weights = _weights(sprout, count)
    match sprout.merge or ("mean" if too_many else ""):
        case "mean":
            threshold = 0.31 if sprout.threshold else None
            return table_types.Merging(kind="mean", weights=weights, partial=sprout.partial, threshold=threshold)
        case "vote":
            return table_types.Merging(kind="vote", weights=weights, partial=sprout.partial)
        case "call":
            return table_types.Merging(kind="call", call=CALLEE)
    return None


def _routing(sprout: Sprout, children: tuple[int, ...]) -> table_types.Routing | None:
    match sprout.route:
        case "split":
            shadows = children[-1:] if sprout.shadow and len(children) > 1 else ()
            open_to = children[: len(children) - len(shadows)]
            return table_types.Routing(
                kind="split", children=open_to, weights=_weights(sprout, len(open_to)), shadows=shadows
            )
        case "mab":
            return table_types.Routing(
                kind="mab", children=children, policy=table_types.Policy(name="egreedy", epsilon=0.1)
            )
        case "call":
            return table_types.Routing(kind="call", children=children, call=CALLEE)
    return None


def _weights(sprout: Sprout, count: int) -> tuple[float, ...]:
    """One for each; none where all would be 0."""
    given = [float(weight) for weight in sprout.weights[:count]]
    return tuple(given + [1.0] * (count - len(given))) if any(given) else ()


def _said(way: _Way, node: table_types.Node, names: Sequence[str]) -> str | None:
    if node.route is None or way.said == "all":
        return "*"
    if way.said == "some":
        children = node.route.children
        return ",".join({names[children[at % len(children)]]: None for at in (way.first, way.second)})
    return {"none": "", "nobody": "nobody", "nothing": None}[way.said]


def _is_shadow(node: table_types.Node, child: int) -> bool:
    return node.route is not None and child in node.route.shadows
