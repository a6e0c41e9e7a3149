"""What a graph answers, once more: slowly, from the words of docs/graph-semantics.md, and with no code of ours.

Nodes are gone through in topological order, so each finds on its edges all that will ever arrive there, and when.
Nothing happens: time is a number of ticks (one is a millisecond of `timeout_ms`), and what calls answer is in a Script.
The first node at which a request fails ends it, which is the rule itself: later nodes cannot change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from mizzen.graph import table_types

Message = dict[str, list[float]]
"""Tensors by name, in their order. All are flat, so that the shape is the length."""
Place = tuple[str, str]
"""One run of a node: its name, and the key of the message that it makes (`b`, `b/a`, `c/b/a`)."""
Part = Literal["merge", "implementation", "route"]

ANSWERED = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes of one call, whatever it is sent: each value becomes `scale * value + offset`, or it fails."""

    ticks: int = 1
    """It ends so long after it began; at least 1, so that what begins at a deadline is late."""
    code: int = ANSWERED
    """As the callee says it: 400, 500, 502, 503 or 504 instead of an answer."""
    scale: float = 1.0
    offset: float = 0.0
    takes: str = ""
    """The one input that it declares: a sole tensor is renamed to it, several are refused at once, as by 400."""
    gives: str = ""
    """Its one output, of one value: the sum of all values. Empty: each tensor under the name it came by."""
    route: str | None = "*"
    """Of a router: names of children, `*` for all, empty for none. None: it does not say."""
    empty: bool = False
    """Of a router: it answers without tensors, and the message stays as it is."""

    def answer(self, message: Message) -> Message:
        if self.gives:
            return {self.gives: [self.scale * sum(sum(values) for values in message.values()) + self.offset]}
        return {name: [self.scale * value + self.offset for value in values] for name, values in message.items()}


@dataclass(frozen=True, slots=True)
class Calls:
    """The outcomes of the calls of one run. Those that the node does not make are never looked at."""

    merge: Outcome = Outcome()
    implementation: Outcome = Outcome()
    route: Outcome = Outcome()


@dataclass(frozen=True, slots=True)
class Script:
    """The outcomes of all calls of a request. A run that is not there has the plain ones."""

    runs: Mapping[Place, Calls] = field(default_factory=dict)

    def of(self, place: Place) -> Calls:
        return self.runs.get(place, Calls())


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed, by the codes of a graph."""

    code: int
    node: str
    key: str
    giver: str = ""
    """Of a 502 that the callee called 400: the node that gave what cannot be taken."""
    found: str = ""
    """The node at which it ended the request, where that is another: the mark of a late one arrived there."""


@dataclass(frozen=True, slots=True)
class Output:
    """One message of the answer, or the failure that stands in its place."""

    key: str
    values: Message | None
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Which children one run of a routing node took, in the order of the graph."""

    key: str
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a request. Where it failed, all but `failure` and `failures` is empty."""

    outputs: tuple[Output, ...] = ()
    failure: Failure | None = None
    failures: tuple[Failure, ...] = ()
    """All that ended the request at the same node; `failure` is the first."""
    taken: tuple[str, ...] = ()
    """The nodes that a message reached, also those that failed then."""
    decisions: tuple[Decision, ...] = ()
    confidence: float | None = None
    called: frozenset[tuple[Place, Part]] = frozenset()
    """Every call that was made while there was time for it, but those to shadows."""
    at: int = 0
    """The tick of the answer."""

    @property
    def nodes(self) -> str:
        """The parameter of this name."""
        return ",".join(self.taken)

    @property
    def routing(self) -> str:
        """The parameter of this name, without the probabilities of exp3."""
        return ";".join(f"{decision.key}={','.join(decision.children)}" for decision in self.decisions)


def interpret(
    graph: table_types.CompiledGraph,
    script: Script,
    request: Message,
    deadline: int | None,
    choices: Mapping[Place, Sequence[str]],
) -> Result:
    """The answer to `request`, which arrives at tick 0 and ends at `deadline` or the graph's own.

    `choices` says which child each run at a split or bandit took, where there are several. KeyError when one is
    missing, ValueError when it could not have been taken.
    """
    limits = [limit for limit in (deadline, graph.timeout_ms) if limit is not None]
    return _Walk(graph, script, request, min(limits, default=None), choices).result()


@dataclass(frozen=True, slots=True)
class _Mark:
    """Goes on in place of a message that will not come."""

    failure: Failure
    late: bool


@dataclass(frozen=True, slots=True)
class _Parcel:
    """What one edge carries: a message with the node that made it (none: it is the client's own), or a mark."""

    key: str
    at: int
    load: Message | _Mark
    maker: str = ""


@dataclass(frozen=True, slots=True)
class _Member:
    """One that takes part in a merge, or would have."""

    weight: Fraction
    parcel: _Parcel


class _Failed(Exception):
    """A run ends here."""

    def __init__(self, at: int, code: int, giver: str = "") -> None:
        super().__init__(at, code, giver)
        self.at, self.code, self.giver = at, code, giver


class _Run:
    """One run of a node: it has a clock, and a message in hand."""

    def __init__(self, walk: _Walk, place: Place, node: table_types.Node, at: int) -> None:
        self.walk, self.place, self.node, self.now = walk, place, node, at
        limits = [walk.deadline, None if node.timeout_ms is None else at + node.timeout_ms]
        self.limit = min((limit for limit in limits if limit is not None), default=None)
        self.calls = walk.script.of(place)
        self.message: Message = {}
        self.maker = ""
        self.children: tuple[int, ...] = ()

    def go(self, arrived: _Parcel | list[_Member]) -> None:
        """Merge, implementation, route. _Failed when one of them fails."""
        if self.node.lacking:
            raise _Failed(self.now, 503)
        if isinstance(arrived, _Parcel):
            assert not isinstance(arrived.load, _Mark)
            self.message, self.maker = arrived.load, arrived.maker
        else:
            self._merge(arrived)
        if self.node.call is not None:
            self._take(self._call("implementation", self.calls.implementation))
        self._route()

    def _merge(self, members: list[_Member]) -> None:
        merge = self.node.merge
        assert merge is not None
        here = [member for member in members if not isinstance(member.parcel.load, _Mark)]
        self.maker = next((member.parcel.maker for member in here if member.parcel.maker), "")
        messages = [_message(member) for member in here]
        if merge.incremental:
            raise NotImplementedError("what arrives first depends on more than a script can say")
        if merge.kind == "call":
            self.message = {
                f"{member.parcel.key}.{name}": values for member in here for name, values in _message(member).items()
            }
            self._take(self._call("merge", self.calls.merge))
            return
        if any(_shape(message) != _shape(messages[0]) for message in messages):
            raise _Failed(self.now, 502)
        weights = [member.weight for member in here]
        if not sum(weights):
            weights = [Fraction(1)] * len(here)
        agreement = 1.0
        if merge.kind == "mean":
            self.message = mean(messages, [float(weight) for weight in weights], merge.threshold)
        else:
            self.message, agreement = vote(messages, weights)
        if merge.partial:
            self.walk.confidences.append(_share(members, here) * agreement)

    def _route(self) -> None:
        names = self.walk.names
        open_to = _open_children(self.node)
        routing = self.node.route
        if routing is None or not open_to:
            self.children = open_to
            return
        if routing.kind == "call":
            outcome = self.calls.route
            answer = self._call("route", outcome)
            if outcome.route is None:
                raise _Failed(self.now, 502)
            said = [name.strip() for name in outcome.route.split(",") if name.strip()]
            if said == ["*"]:
                said = [names[child] for child in open_to]
            if not set(said) <= {names[child] for child in open_to}:
                raise _Failed(self.now, 502)
            if not outcome.empty:
                self._take(answer)
        else:
            said = [names[child] for child in open_to]
            if len(said) > 1:
                said = list(self.walk.choices[self.place])
                self._check(routing, said)
        self.children = tuple(child for child in open_to if names[child] in said)
        self.walk.decisions.append(Decision(self.place[1], tuple(names[child] for child in self.children)))

    def _check(self, routing: table_types.Routing, said: Sequence[str]) -> None:
        weights = routing.weights or (1.0,) * len(routing.children)
        possible = [self.walk.names[child] for child, weight in zip(routing.children, weights, strict=True) if weight]
        if len(said) != 1 or said[0] not in possible:
            raise ValueError(f"{self.place} took {said}, and could take one of {possible}")

    def _call(self, part: Part, outcome: Outcome) -> Message:
        assert outcome.ticks >= 1
        message, limit = self.message, self.limit
        if limit is None or self.now < limit:
            if outcome.takes and len(message) != 1:
                raise _Failed(self.now, 502 if self.maker else 400, self.maker)
            self.walk.called.add((self.place, part))
        if limit is not None and self.now + outcome.ticks > limit:
            raise _Failed(limit, 504)
        self.now += outcome.ticks
        if outcome.code == 400 and self.maker:
            raise _Failed(self.now, 502, self.maker)
        if outcome.code != ANSWERED:
            raise _Failed(self.now, 502 if outcome.code == 500 else outcome.code)
        if outcome.takes:
            message = {outcome.takes: next(iter(message.values()))}
        return outcome.answer(message)

    def _take(self, message: Message) -> None:
        self.message, self.maker = message, self.node.name


class _Walk:
    def __init__(
        self,
        graph: table_types.CompiledGraph,
        script: Script,
        request: Message,
        deadline: int | None,
        choices: Mapping[Place, Sequence[str]],
    ) -> None:
        self.nodes, self.script, self.request, self.deadline = graph.nodes, script, request, deadline
        self.choices = choices
        self.names = [node.name for node in graph.nodes]
        self.edges: dict[tuple[int, int], list[_Parcel]] = {}
        self.closed: dict[tuple[int, int], int] = {}
        self.outputs: list[Output] = []
        self.taken: list[str] = []
        self.decisions: list[Decision] = []
        self.confidences: list[float] = []
        self.called: set[tuple[Place, Part]] = set()
        self.fatal: list[Failure] = []
        for v, node in enumerate(graph.nodes):
            for child in node.children:
                self.edges[v, child] = []
                # What goes to a shadow is nobody's: its edge is closed from the beginning, and stays empty.
                self.closed[v, child] = 0
        self.before_partial: set[int] = set()
        """Those with a partial merge somewhere downstream."""
        for v, node in reversed(list(enumerate(graph.nodes))):
            for child in _open_children(node):
                merge = graph.nodes[child].merge
                if (merge is not None and merge.partial) or child in self.before_partial:
                    self.before_partial.add(v)

    def result(self) -> Result:
        end = 0
        for v in range(len(self.nodes)):
            end = max(end, self._visit(v))
            if self.fatal:
                self.fatal.sort(key=self._order)
                return Result(failure=self.fatal[0], failures=tuple(self.fatal))
        errors = [output.error for output in self.outputs if output.error]
        if len(errors) == len(self.outputs):
            errors.sort(key=self._order)
            return Result(failure=errors[0], failures=tuple(errors))
        return Result(
            outputs=tuple(self.outputs),
            taken=tuple(self.taken),
            decisions=tuple(self.decisions),
            confidence=min(self.confidences, default=None),
            called=frozenset(self.called),
            at=end,
        )

    def _visit(self, v: int) -> int:
        """All runs of one node; the tick at which its edges close."""
        node = self.nodes[v]
        arrivals = [parcel for u in node.dependencies for parcel in self.edges[u, v]]
        ready = max((self.closed[u, v] for u in node.dependencies), default=0)
        if not node.dependencies:
            arrivals = [_Parcel("", 0, self.request)]
        if any(not isinstance(parcel.load, _Mark) for parcel in arrivals):
            self.taken.append(node.name)
        ends = [ready]
        if node.merge is not None and node.dependencies:
            ends += self._joined(v, arrivals, ready)
        else:
            for parcel in arrivals:
                plain = len(node.dependencies) <= 1 and "/" not in parcel.key
                key = node.name if plain else f"{node.name}/{parcel.key}"
                if isinstance(parcel.load, _Mark):
                    self._pass(v, key, parcel.at, parcel.load)
                    ends.append(parcel.at)
                else:
                    ends.append(self._run(v, key, parcel.at, parcel))
        for child in _open_children(node):
            self.closed[v, child] = max(ends)
        return max(ends)

    def _joined(self, v: int, arrivals: list[_Parcel], ready: int) -> Iterable[int]:
        """The one run of a node that merges; none when nothing arrived."""
        node = self.nodes[v]
        merge = node.merge
        assert merge is not None
        marks = [parcel.load for parcel in arrivals if isinstance(parcel.load, _Mark)]
        marks.sort(key=lambda mark: self._order(mark.failure))
        late = [mark for mark in marks if mark.late]
        if late and not merge.partial:
            self.fatal += [replace(mark.failure, found=node.name) for mark in late]
        elif len(marks) < len(arrivals):
            yield self._run(v, node.name, ready, self._members(v))
        elif marks:
            self._pass(v, node.name, ready, (late or marks)[0])

    def _members(self, v: int) -> list[_Member]:
        """All that were to come, arrived or not: each dependency shares its weight among its own."""
        node = self.nodes[v]
        assert node.merge is not None
        weights = node.merge.weights or (1.0,) * len(node.dependencies)
        return [
            _Member(Fraction(str(weight)) / len(self.edges[u, v]), parcel)
            for u, weight in zip(node.dependencies, weights, strict=True)
            for parcel in self.edges[u, v]
        ]

    def _run(self, v: int, key: str, at: int, arrived: _Parcel | list[_Member]) -> int:
        """One run; the tick at which it ended."""
        node = self.nodes[v]
        run = _Run(self, (node.name, key), node, at)
        try:
            run.go(arrived)
        except _Failed as failed:
            failure = Failure(failed.code, node.name, key, failed.giver)
            late = failed.code == 504 and v in self.before_partial
            if node.skip or late:
                self._pass(v, key, failed.at, _Mark(failure, late=not node.skip))
            else:
                self.fatal.append(failure)
            return failed.at
        for child in run.children:
            self.edges[v, child].append(_Parcel(key, run.now, run.message, run.maker))
        if not run.children:
            self.outputs.append(Output(key, run.message))
        return run.now

    def _pass(self, v: int, key: str, at: int, mark: _Mark) -> None:
        """A mark goes to all children, or into the answer."""
        children = _open_children(self.nodes[v])
        for child in children:
            self.edges[v, child].append(_Parcel(key, at, mark))
        if not children and mark.late:
            self.fatal.append(replace(mark.failure, found=self.names[v]))
        elif not children:
            self.outputs.append(Output(key, None, mark.failure))

    def _order(self, failure: Failure) -> int:
        """Topological; sorting by it leaves failures of one node in the order of their slots."""
        return self.names.index(failure.node)


def mean(messages: Sequence[Message], weights: Sequence[float], threshold: float | None = None) -> Message:
    """The weighted mean of equal shapes, element by element; where there is a threshold, whether it is reached."""
    result: Message = {}
    for name, values in messages[0].items():
        result[name] = []
        for index in range(len(values)):
            total = sum(weight * message[name][index] for message, weight in zip(messages, weights, strict=True))
            value = total / sum(weights)
            result[name].append(value if threshold is None else float(value >= threshold))
    return result


def vote(messages: Sequence[Message], weights: Sequence[Fraction]) -> tuple[Message, float]:
    """For each element the value with the most weight, the first listed of equals; and the mean share that agrees.

    Weights are fractions, so that thirds tie with a whole.
    """
    result: Message = {}
    shares: list[Fraction] = []
    for name, values in messages[0].items():
        result[name] = []
        for index in range(len(values)):
            said: dict[float, Fraction] = {}
            for message, weight in zip(messages, weights, strict=True):
                said[message[name][index]] = said.get(message[name][index], Fraction(0)) + weight
            winner = max(said, key=lambda value: said[value])
            result[name].append(winner)
            shares.append(said[winner] / sum(weights))
    return result, float(sum(shares) / len(shares)) if shares else 1.0


def _share(members: Sequence[_Member], here: Sequence[_Member]) -> float:
    """How much of the weight that was to come has arrived; if all of it weighs nothing, how many have."""
    whole = sum(member.weight for member in members)
    if not whole:
        return len(here) / len(members)
    return float(sum(member.weight for member in here) / whole)


def _shape(message: Message) -> dict[str, int]:
    return {name: len(values) for name, values in message.items()}


def _message(member: _Member) -> Message:
    assert not isinstance(member.parcel.load, _Mark)
    return member.parcel.load


def _open_children(node: table_types.Node) -> tuple[int, ...]:
    """All but shadows."""
    shadows = node.route.shadows if node.route is not None else ()
    return tuple(child for child in node.children if child not in shadows)
