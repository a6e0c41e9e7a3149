"""Services of others that graphs call, asked in the background: each once for each spec, and again, ever more rarely,
only while nobody answers. A few are asked at a time, however many there are.

Nothing is asked for a graph that is not accepted. `asking` says how it is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mizzen.controllers.graphs import http_check
from mizzen.controllers.graphs.facts import Probed, Question
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.workload import Spoken

AT_ONCE: Final = 8
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0

Key = tuple[str, int, str]
"""uid and generation of the graph, and the address as written."""


@dataclass(slots=True)
class _Probe:
    ref: Ref
    question: Question
    pause: float
    found: Probed = field(default_factory=Probed)
    timer: asyncio.TimerHandle | None = None


class Probes:
    """A `facts.Probing`, within a running loop."""

    def __init__(
        self,
        changed: Callable[[Ref], None],
        *,
        ask: Callable[[Question], Awaitable[Probed]] = http_check.ask,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        """`changed` is called with the graph of which something is known that was not."""
        self._changed = changed
        self._ask = ask
        self._first_pause = first_pause
        self._probes: dict[Key, _Probe] = {}
        self._keys: dict[Ref, frozenset[Key]] = {}
        self._due: deque[Key] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def look(
        self, graph: Resource, questions: Mapping[str, Question], known: Mapping[str, Spoken]
    ) -> Mapping[str, Probed]:
        asked = {text: one for text, one in questions.items() if text not in known}
        keys = {(graph.meta.uid, graph.meta.generation, text): one for text, one in asked.items()}
        self._only(graph.ref, frozenset(keys))
        for key, question in keys.items():
            if key not in self._probes:
                self._probes[key] = _Probe(graph.ref, question, self._first_pause)
                self._due.append(key)
        self._go_on()
        found = {text: Probed(known[text]) for text in questions if text in known}
        return found | {key[2]: self._probes[key].found for key in keys}

    def forget(self, ref: Ref) -> None:
        self._only(ref, frozenset())

    async def close(self) -> None:
        for ref in tuple(self._keys):
            self.forget(ref)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _only(self, ref: Ref, keys: frozenset[Key]) -> None:
        for key in self._keys.get(ref, frozenset()) - keys:
            probe = self._probes.pop(key)
            if probe.timer is not None:
                probe.timer.cancel()
        if keys:
            self._keys[ref] = keys
        else:
            self._keys.pop(ref, None)

    def _go_on(self) -> None:
        while self._due and len(self._tasks) < AT_ONCE:
            key = self._due.popleft()
            if key not in self._probes:
                continue  # nobody asks for it any more
            task = asyncio.create_task(self._work(key), name="ask a service of a graph")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()
            self._go_on()

    async def _work(self, key: Key) -> None:
        probe = self._probes[key]
        found = await self._ask(probe.question)
        if self._probes.get(key) is not probe:
            return
        if found != probe.found:
            probe.found = found
            self._changed(probe.ref)
        if found.protocol is None:
            probe.timer = asyncio.get_running_loop().call_later(probe.pause, self._again, key)
            probe.pause = min(2 * probe.pause, LONGEST_PAUSE)

    def _again(self, key: Key) -> None:
        if key in self._probes:
            self._due.append(key)
            self._go_on()
