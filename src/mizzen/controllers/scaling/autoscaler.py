"""Looks at what gateways say is asked, and keeps for each server what the rule needs to know of the past."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mizzen.controllers.scaling.rule import History, Rule, decide, rule_of
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.protocol.gateway_files import demand, status_files
from mizzen.reconcile.retry_forever import persist

LOOK = 0.05
"""Seconds between two looks: who asks a server without replicas waits for the next one."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scaled:
    replicas: int
    """So many there should be."""
    in_flight: float
    quiet: float
    """Seconds without need, before there are fewer."""


@dataclass(slots=True)
class _Server:
    rule: Rule
    told: int = -1
    """What was said last; -1: nothing yet."""
    in_flight: float = 0.0
    history: History = field(default_factory=History)


class Autoscaler:
    def __init__(self, folder: Path, poke: Callable[[Ref], None], *, clock: Callable[[], float]) -> None:
        """`folder` is where gateways say what is asked. `poke` is told of whom there should be more, or fewer."""
        self._folder = folder
        self._poke = poke
        self._clock = clock
        self._servers: dict[Ref, _Server] = {}
        self._restless: set[Ref] = set()
        """Those of whom something is asked, or was within their quiet time: of thousands that rest, none."""
        self._stamps: status_files.Stamps = {}
        self._read: list[demand.Demand] = []
        self._merged: Mapping[Ref, Sequence[demand.Asked]] | None = None

    async def run(self) -> NoReturn:
        """Until cancelled."""
        await persist(self._look_on, "what is asked of servers cannot be seen", log, shortest=LOOK)
        raise AssertionError("it persists")

    def replicas(self, ref: Ref, spec: InferenceModelSpec, recorded: int | None, *, proven: bool) -> Scaled | None:
        """How many it should have; None: its spec says so. From now on it is looked after.

        `recorded`: what its status says there should be, if this is not the first time. `proven`: what its spec asks
        for has answered; until then at least one replica has to be there, to do so.
        """
        rule = rule_of(spec)
        if rule is None:
            self.forget(ref)
            return None
        now, server = self._clock(), self._servers.get(ref)
        if server is None:
            server = self._servers[ref] = _Server(rule)
            start = spec.replicas if recorded is None else recorded
            server.history.add(now, max(start - rule.standby, 0))
        server.rule = rule
        self._restless.add(ref)
        if not proven:
            server.history.add(now, max(1 - rule.standby, 0))
        server.told = decide(server.history, now, rule)
        return Scaled(server.told, server.in_flight, rule.quiet)

    def forget(self, ref: Ref) -> None:
        self._servers.pop(ref, None)
        self._restless.discard(ref)

    def look(self) -> None:
        now, said = self._clock(), self._said()
        self._restless.update(ref for ref in said if ref in self._servers)
        for ref in tuple(self._restless):
            server, asked = self._servers[ref], said.get(ref, ())
            server.in_flight = sum(one.in_flight for one in asked)
            needed = server.rule.needed(server.in_flight, asked=any(one.awaited or one.used for one in asked))
            server.history.add(now, needed)
            if decide(server.history, now, server.rule) != server.told:
                self._poke(ref)
            elif not asked and server.history.empty:
                self._restless.discard(ref)

    async def _look_on(self) -> NoReturn:
        while True:
            if self._servers:
                self.look()
            await asyncio.sleep(LOOK)

    def _said(self) -> Mapping[Ref, Sequence[demand.Asked]]:
        """What is asked, of whom anything is. Made anew only when a file is another one, or a gateway has gone."""
        stamps = status_files.stamps(self._folder)
        if stamps != self._stamps:
            self._stamps, self._read, self._merged = stamps, demand.read(self._folder), None
        living = [told for told in self._read if status_files.lives(told)]
        if self._merged is None or len(living) < len(self._read):
            self._read, self._merged = living, _merged(living)
        return self._merged


def _merged(told: Iterable[demand.Demand]) -> dict[Ref, list[demand.Asked]]:
    said: dict[Ref, list[demand.Asked]] = {}
    for each in told:
        for id_, asked in each.servers.items():
            namespace, _, name = id_.partition("/")
            said.setdefault(Ref("InferenceModel", name, namespace), []).append(asked)
    return said
