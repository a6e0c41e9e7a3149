"""Background probes of the external services that graphs call.

Each service is probed once per spec, and again with increasing delays only while it does not respond. The number of
concurrent probes is limited. Nothing is probed for a graph that is not accepted. `http_check` does the probing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mizzen.controllers.graphs import http_check
from mizzen.controllers.graphs.facts import ProbeRequest, ProbeResult
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import WireProtocol

MAX_CONCURRENT: Final = 8
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0

Key = tuple[str, int, str]
"""uid and generation of the graph, and the address as written."""


@dataclass(slots=True)
class _Probe:
    ref: Ref
    question: ProbeRequest
    pause: float
    found: ProbeResult = field(default_factory=ProbeResult)
    timer: asyncio.TimerHandle | None = None


class ServiceProber:
    """A `facts.Prober` that needs a running event loop."""

    def __init__(
        self,
        on_change: Callable[[Ref], None],
        *,
        check: Callable[[ProbeRequest], Awaitable[ProbeResult]] = http_check.check,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        """`on_change` is called with a graph when a probe has a new result for it."""
        self._on_change = on_change
        self._check = check
        self._first_pause = first_pause
        self._probes: dict[Key, _Probe] = {}
        self._keys: dict[Ref, frozenset[Key]] = {}
        self._due: deque[Key] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def probe(
        self, graph: Resource, questions: Mapping[str, ProbeRequest], known: Mapping[str, WireProtocol]
    ) -> Mapping[str, ProbeResult]:
        unknown = {text: one for text, one in questions.items() if text not in known}
        keys = {(graph.meta.uid, graph.meta.generation, text): one for text, one in unknown.items()}
        self._keep_only(graph.ref, frozenset(keys))
        for key, question in keys.items():
            if key not in self._probes:
                self._probes[key] = _Probe(graph.ref, question, self._first_pause)
                self._due.append(key)
        self._start_due()
        found = {text: ProbeResult(known[text]) for text in questions if text in known}
        return found | {key[2]: self._probes[key].found for key in keys}

    def forget(self, ref: Ref) -> None:
        self._keep_only(ref, frozenset())

    async def close(self) -> None:
        for ref in tuple(self._keys):
            self.forget(ref)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _keep_only(self, ref: Ref, keys: frozenset[Key]) -> None:
        for key in self._keys.get(ref, frozenset()) - keys:
            probe = self._probes.pop(key)
            if probe.timer is not None:
                probe.timer.cancel()
        if keys:
            self._keys[ref] = keys
        else:
            self._keys.pop(ref, None)

    def _start_due(self) -> None:
        while self._due and len(self._tasks) < MAX_CONCURRENT:
            key = self._due.popleft()
            if key not in self._probes:
                continue  # it is no longer needed
            task = asyncio.create_task(self._probe(key), name="probe a service of a graph")
            self._tasks.add(task)
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()
            self._start_due()

    async def _probe(self, key: Key) -> None:
        probe = self._probes[key]
        found = await self._check(probe.question)
        if self._probes.get(key) is not probe:
            return
        if found != probe.found:
            probe.found = found
            self._on_change(probe.ref)
        if found.protocol is None:
            probe.timer = asyncio.get_running_loop().call_later(probe.pause, self._requeue, key)
            probe.pause = min(2 * probe.pause, LONGEST_PAUSE)

    def _requeue(self, key: Key) -> None:
        if key in self._probes:
            self._due.append(key)
            self._start_due()
