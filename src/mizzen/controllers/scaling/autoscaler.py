"""The autoscaler: it reads the demand that gateways report, and keeps the history that the scaling rule needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mizzen.controllers.scaling.rule import DemandHistory, ScalingRule, desired_replicas, rule_of
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.protocol.gateway_files import demand, status_files
from mizzen.reconcile.retry_forever import retry_forever
from mizzen.reconcile.workloads import DesiredScale

POLL_INTERVAL = 0.05
"""Seconds between two polls. The first request to a server without replicas waits for the next poll."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Server:
    rule: ScalingRule
    decided: int = -1
    """The number returned last; -1: none yet."""
    in_flight: float = 0.0
    history: DemandHistory = field(default_factory=DemandHistory)


class Autoscaler:
    def __init__(self, folder: Path, enqueue: Callable[[Ref], None], *, clock: Callable[[], float]) -> None:
        """`folder` is where gateways report demand. `enqueue` gets each server whose desired number changes."""
        self._folder = folder
        self._enqueue = enqueue
        self._clock = clock
        self._servers: dict[Ref, _Server] = {}
        self._active: set[Ref] = set()
        """Servers with demand now or within their quiet time. Polling skips the others, which may be thousands."""
        self._stamps: status_files.Stamps = {}
        self._read: list[demand.Demand] = []
        self._demand: Mapping[Ref, Sequence[demand.ServerDemand]] | None = None

    async def run(self) -> NoReturn:
        """Until cancelled."""
        await retry_forever(self._poll_forever, "the demand of servers cannot be read", log, shortest=POLL_INTERVAL)
        raise AssertionError("it never returns")

    def replicas(
        self, ref: Ref, spec: InferenceModelSpec, recorded: int | None, *, proven: bool
    ) -> DesiredScale | None:
        """The desired scale; None: the spec sets the number. From now on the server is polled.

        `recorded`: the number in its status, if there is one. `proven`: the version in its spec has been ready before;
        until then it needs at least one replica to become ready.
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
        self._active.add(ref)
        if not proven:
            server.history.add(now, max(1 - rule.standby, 0))
        server.decided = desired_replicas(server.history, now, rule)
        return DesiredScale(server.decided, server.in_flight, rule.quiet)

    def forget(self, ref: Ref) -> None:
        self._servers.pop(ref, None)
        self._active.discard(ref)

    def poll(self) -> None:
        now, demands = self._clock(), self._read_demand()
        self._active.update(ref for ref in demands if ref in self._servers)
        for ref in tuple(self._active):
            server, reports = self._servers[ref], demands.get(ref, ())
            server.in_flight = sum(one.in_flight for one in reports)
            used = any(one.awaited or one.used for one in reports)
            server.history.add(now, server.rule.replicas_needed(server.in_flight, used=used))
            if desired_replicas(server.history, now, server.rule) != server.decided:
                self._enqueue(ref)
            elif not reports and server.history.empty:
                self._active.discard(ref)

    async def _poll_forever(self) -> NoReturn:
        while True:
            if self._servers:
                self.poll()
            await asyncio.sleep(POLL_INTERVAL)

    def _read_demand(self) -> Mapping[Ref, Sequence[demand.ServerDemand]]:
        """The demand by server. It is merged again only when a file has changed or a gateway has ended."""
        stamps = status_files.read_stamps(self._folder)
        if stamps != self._stamps:
            self._stamps, self._read, self._demand = stamps, demand.read(self._folder), None
        living = [report for report in self._read if status_files.is_alive(report)]
        if self._demand is None or len(living) < len(self._read):
            self._read, self._demand = living, _merge(living)
        return self._demand


def _merge(reports: Iterable[demand.Demand]) -> dict[Ref, list[demand.ServerDemand]]:
    merged: dict[Ref, list[demand.ServerDemand]] = {}
    for report in reports:
        for id_, of_server in report.servers.items():
            namespace, _, name = id_.partition("/")
            merged.setdefault(Ref("InferenceModel", name, namespace), []).append(of_server)
    return merged
