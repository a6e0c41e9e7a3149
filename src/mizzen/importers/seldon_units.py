"""The tree of a Seldon predictor as nodes of an MLGraph.

A unit transforms its input, passes it to its children (to one of them, if it routes), combines their responses, and
transforms the result. Each of these actions becomes a node: the tree is walked down and up again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.importers.dag_builder import DagBuilder, MessageSource
from mizzen.importers.model_names import GraphContext
from mizzen.importers.notes import CannotImport, ImportNotes
from mizzen.importers.percentages import WHOLE, per_cent
from mizzen.importers.source_types import PredictiveUnit
from mizzen.kinds.text import addresses

BUILT_IN: Final = frozenset({"", "UNKNOWN_IMPLEMENTATION", "SIMPLE_ROUTER", "RANDOM_ABTEST", "AVERAGE_COMBINER"})
"""Values of `implementation`; all others are servers that load a model."""
_LOCAL: Final = ("", "localhost", "127.0.0.1")
_NUMBER: Final = re.compile(r"[-+]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})(e[-+]?\d{1,2})?", re.IGNORECASE | re.ASCII)
"""Bounded: expanding a huge power of ten would use all memory."""
_EVEN: Final = Fraction(1, 2)
_EPSILON: Final = 0.1
"""The default of Seldon's epsilon-greedy router."""
_BANDITS: Final = (
    (re.compile(r"epsilon[-_]?greedy", re.IGNORECASE), "egreedy"),
    (re.compile(r"thompson[-_]?sampling", re.IGNORECASE), "thompson"),
)


@dataclass(frozen=True, slots=True)
class PredictorContext:
    """The context of the units of one predictor."""

    caller: GraphContext
    protocol: str
    """The protocol of the containers."""
    images: Mapping[str, str]
    """The image of each container."""
    replicas: int | None = None


def serves_model(unit: PredictiveUnit) -> bool:
    return unit.implementation not in BUILT_IN and _bandit(unit, "") is None


def is_replaced(unit: PredictiveUnit, image: str) -> bool:
    """Whether its container is not needed, because a model or a route of ours replaces it."""
    return serves_model(unit) or _bandit(unit, image) is not None or unit.implementation in BUILT_IN - {
        "", "UNKNOWN_IMPLEMENTATION",
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnitTree:
    """Places units in a Dag."""

    dag: DagBuilder
    around: PredictorContext

    @property
    def _notes(self) -> ImportNotes:
        return self.around.caller.notes

    def place(self, unit: PredictiveUnit, source: MessageSource, path: str) -> MessageSource:
        """Places the unit and its subtree behind `source`, and returns the source of its response."""
        does = _UnitActions.of(unit)
        self._tell(unit, does, path)
        current = source
        if does.transforms_input:
            current = MessageSource((self.dag.add(unit.name, current, path, calls=self._calls(unit, path)),))
        if unit.children:
            current = self._below(unit, does, current, path)
        if does.transforms_output:
            wanted = unit.name if unit.name not in self.dag else f"{unit.name}-output"
            current = MessageSource((self.dag.add(wanted, current, path, calls=self._calls(unit, path)),))
        if current == source:
            raise CannotImport(
                Fault(path, f"'{unit.name}' does nothing: its type makes no call, and it has no children")
            )
        return current

    def _below(self, unit: PredictiveUnit, does: _UnitActions, current: MessageSource, path: str) -> MessageSource:
        if does.routes:
            answers = self._route_children(unit, current, path)
        elif does.combines or len(unit.children) == 1:
            answers = [self.place(child, current, at) for at, child in _children(unit, path)]
        else:
            answers = [self._first(unit, current, path)]
        if not does.combines:
            return MessageSource.any_of(answers)
        merge: dict[str, Any] = {"ensemble": {}}
        if unit.implementation != "AVERAGE_COMBINER":
            merge = {"implementation": self._calls(unit, path)}
            self._notes.add(path, f"combiner '{unit.name}' receives all responses in one message, as '<node>.<tensor>'")
        wanted = unit.name if unit.name not in self.dag else f"{unit.name}-combined"
        everything = MessageSource(MessageSource.all_of(answers).nodes)
        return MessageSource((self.dag.add(wanted, everything, path, merge=merge),))

    def _route_children(self, unit: PredictiveUnit, current: MessageSource, path: str) -> list[MessageSource]:
        route = self._asks(unit, path)
        node = self._router(unit, current, path, route)
        children, answers = [], []
        for at, child in _children(unit, path):
            name, answer = self._branch(node, child, at)
            children.append(name)
            answers.append(answer)
        if route is None:
            shares = self._shares(unit, path)
            self.dag.set_route(node, {"split": {"traffic": dict(zip(children, shares, strict=True))} if shares else {}})
        return answers

    def _first(self, unit: PredictiveUnit, current: MessageSource, path: str) -> MessageSource:
        """Without a router or combiner, Seldon calls all children and returns the response of the first."""
        node = self._router(unit, current, path, None)
        (first_at, first), *others = _children(unit, path)
        _, answer = self._branch(node, first, first_at)
        shadows = []
        for at, child in others:
            if child.children:
                self._notes.add(at, f"Seldon drops the response of '{child.name}'; it and its subtree are left out")
                continue
            self._notes.add(
                at,
                f"Seldon drops the response of '{child.name}': it becomes a shadow, which receives a copy and can "
                "neither delay nor fail the request. To get all responses, combine them",
            )
            shadows.append(self._branch(node, child, at)[0])
        self.dag.set_route(node, {"split": {"shadow": shadows} if shadows else {}})
        return answer

    def _router(self, unit: PredictiveUnit, current: MessageSource, path: str, route: Mapping[str, Any] | None) -> str:
        """The node that transforms the unit's input, with the route set; without one, a new node that only routes."""
        route = {"split": {}} if route is None else route
        if len(current.nodes) == 1 and _UnitActions.of(unit).transforms_input:
            self.dag.set_route(current.nodes[0], route)
            return current.nodes[0]
        return self.dag.add(unit.name, current, path, route=route)

    def _branch(self, node: str, child: PredictiveUnit, path: str) -> tuple[str, MessageSource]:
        mark = len(self.dag)
        answer = self.place(child, MessageSource((node,)), path)
        return self.dag.branch(node, mark, answer, f"{child.name}-in", path)

    def _asks(self, unit: PredictiveUnit, path: str) -> Mapping[str, Any] | None:
        """The route of a unit that decides by itself; None if traffic is split in fixed shares."""
        image = self.around.images.get(unit.name, "")
        bandit = _bandit(unit, image)
        if unit.implementation in ("RANDOM_ABTEST", "SIMPLE_ROUTER"):
            return None
        if bandit is None:
            return {"implementation": self._calls(unit, path)}
        others = sorted(parameter.name for parameter in unit.parameters if parameter.name != "epsilon")
        forgets = f"; parameters {', '.join(others)} are left out" if others else ""
        what = f"image {image}" if image else unit.implementation
        self._notes.add(
            path,
            f"{what} is read as route.mab.{bandit}: rewards come from the feedback endpoint, and it starts without "
            f"history{forgets}",
        )
        if bandit == "thompson":
            return {"mab": {"thompson": {}}}
        epsilon = unit.parameter("epsilon")
        number = float(_fraction(_EPSILON if epsilon is None else epsilon, f"{path}.parameters.epsilon"))
        if not 0 <= number <= 1:
            raise CannotImport(Fault(f"{path}.parameters.epsilon", f"must be between 0 and 1, not {number:g}"))
        return {"mab": {"egreedy": number}}

    def _shares(self, unit: PredictiveUnit, path: str) -> list[int] | None:
        count = len(unit.children)
        if unit.implementation == "SIMPLE_ROUTER":
            self._notes.add(path, "SIMPLE_ROUTER always calls its first child")
            return [WHOLE, *[0] * (count - 1)]
        if count == 1:
            return None
        at = f"{path}.parameters.ratioA"
        written = unit.parameter("ratioA")
        ratio = _EVEN if written is None else _fraction(written, at)
        if not 0 <= ratio <= 1:
            self._notes.add(at, f"{written} is read as {0 if ratio < 0 else 1}")
            ratio = Fraction(0) if ratio < 0 else Fraction(1)
        if written is None:
            self._notes.add(path, "RANDOM_ABTEST without ratioA is an even split")
        elif len(unit.parameters) > 1:
            self._notes.add(at, "Seldon ignores the ratio if there are other parameters; here it applies")
        if count > 2:
            self._notes.add(
                path, f"RANDOM_ABTEST calls one of its first two children; {count - 2} more never receive a request"
            )
        shares = per_cent([ratio, 1 - ratio])
        if shares[0] != ratio * WHOLE:
            self._notes.add(at, f"{written} is rounded to {shares[0]}%")
        return [*shares, *[0] * (count - 2)]

    def _calls(self, unit: PredictiveUnit, path: str) -> Mapping[str, Any]:
        around, endpoint = self.around, unit.endpoint
        if serves_model(unit):
            return {"kfservice": self._model(unit, path)}
        if unit.name in around.images:
            return {"name": unit.name, "protocol": around.protocol}
        if endpoint.service_host not in _LOCAL:
            port = endpoint.http_port or endpoint.service_port
            address = f"{endpoint.service_host}:{port}" if port else endpoint.service_host
            try:
                addresses.parse(address)
            except ValueError as error:
                raise CannotImport(Fault(f"{path}.endpoint", str(error))) from error
            return {"svc": address, "protocol": around.protocol}
        raise CannotImport(Fault(path, f"no container '{unit.name}' in componentSpecs, and no implementation"))

    def _model(self, unit: PredictiveUnit, path: str) -> str:
        around, uri = self.around, unit.model_uri
        meant = f"{unit.implementation} {uri}" if uri else f"{unit.implementation} of {around.caller.graph}/{unit.name}"
        name = around.caller.name_of(unit.name, meant, path)
        files = f"download the files of {uri}, then: " if uri else ""
        task = f"deploy {unit.implementation} '{name}' here: {files}{around.caller.deploy_command(name)}"
        if around.replicas not in (None, 1):
            task += f"; for {around.replicas} replicas: mizzen scale {name} {around.replicas}"
        self._notes.add(path, task)
        if unit.implementation == "SKLEARN_SERVER" and unit.parameter("method") in (None, "predict_proba"):
            self._notes.add(
                path,
                "SKLEARN_SERVER returns predict_proba; here, spec.outputs decides which outputs a model returns",
            )
        return name

    def _tell(self, unit: PredictiveUnit, does: _UnitActions, path: str) -> None:
        self._notes.left_out(path, unit.unknown)
        if unit.endpoint.type.upper() == "GRPC":
            self._notes.add(f"{path}.endpoint.type", f"'{unit.name}' is called over HTTP, not gRPC")
        if does.guessed:
            self._notes.add(path, f"'{unit.name}' has no type; read as MODEL")
        transforms = unit.type in ("TRANSFORMER", "OUTPUT_TRANSFORMER") or (
            does.transforms_output or "TRANSFORM_INPUT" in unit.methods
        )
        if transforms and self.around.protocol == "seldon" and not serves_model(unit):
            self._notes.add(
                path,
                f"'{unit.name}' is called at /predict like every node, not at /transform-input or /transform-output",
            )


@dataclass(frozen=True, slots=True)
class _UnitActions:
    """The actions of a unit, by its type, its implementation and its methods."""

    transforms_input: bool
    routes: bool
    combines: bool
    transforms_output: bool
    guessed: bool = False

    @classmethod
    def of(cls, unit: PredictiveUnit) -> _UnitActions:
        kind, how, methods = unit.type, unit.implementation, unit.methods
        if kind == "UNKNOWN_TYPE" and _bandit(unit, "") is not None:
            kind = "ROUTER"
        does = cls(
            transforms_input=kind in ("MODEL", "TRANSFORMER") or "TRANSFORM_INPUT" in methods,
            routes=kind == "ROUTER" or "ROUTE" in methods or how in ("RANDOM_ABTEST", "SIMPLE_ROUTER"),
            combines=kind == "COMBINER" or "AGGREGATE" in methods or how == "AVERAGE_COMBINER",
            transforms_output=kind == "OUTPUT_TRANSFORMER" or "TRANSFORM_OUTPUT" in methods,
        )
        if does != cls(False, False, False, False):
            return does
        return cls(True, False, False, False, guessed=not serves_model(unit))


def _children(unit: PredictiveUnit, path: str) -> list[tuple[str, PredictiveUnit]]:
    return [(f"{path}.children[{index}]", child) for index, child in enumerate(unit.children)]


def _bandit(unit: PredictiveUnit, image: str) -> str | None:
    """The bandit policy of a Seldon router, by its implementation or its image; None for other units."""
    if unit.type not in ("ROUTER", "UNKNOWN_TYPE"):
        return None
    words = (unit.implementation, image.rpartition("/")[2])
    return next((policy for pattern, policy in _BANDITS if any(map(pattern.search, words))), None)


def _fraction(value: Any, path: str) -> Fraction:
    """The exact value as written: 0.1 is a tenth."""
    text = str(value).strip()
    if not _NUMBER.fullmatch(text):
        raise CannotImport(Fault(path, f"{text[:100]!r} is not a number"))
    return Fraction(text)
