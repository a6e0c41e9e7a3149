"""The current state of replicas: their processes, reported by the supervisor, and their readiness, found by probes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from mizzen.engines.local.probes.frame_probe import FrameProbe, Probe, ProbeState
from mizzen.engines.local.probes.http_probe import DEFAULT_INTERVALS, HttpProbe, HttpTarget, ProbeIntervals
from mizzen.engines.local.process_specs import WorkloadPaths, split_key
from mizzen.kinds.parts.signatures import Signature
from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessView, State

_RECONNECT = 0.1

log = logging.getLogger(__name__)


class ProcessObserver:
    """Observes the processes of followed workloads; all others are ignored."""

    def __init__(
        self, home: Home, on_change: Callable[[str], None], intervals: ProbeIntervals = DEFAULT_INTERVALS
    ) -> None:
        """`on_change` is called with a workload's uid after each change of its replicas."""
        self._home = home
        self._intervals = intervals
        self._on_change = on_change
        self._views: dict[str, dict[int, ProcessView]] = {}
        self._targets: dict[str, Mapping[int, HttpTarget] | None] = {}
        self._probes: dict[str, tuple[int, HttpTarget | None, Probe]] = {}
        """By replica: the pid of its process, the HTTP target (None: it has a socket), and the probe."""

    async def run(self) -> None:
        """Keep the state up to date, from one supervisor to the next, until cancelled."""
        while True:
            try:
                await self._watch()
            except SupervisorGone:
                await asyncio.sleep(_RECONNECT)

    def follow(self, uid: str) -> None:
        self._views.setdefault(uid, {})

    def set_targets(self, uid: str, targets: Mapping[int, HttpTarget] | None) -> None:
        """Set the targets of this workload's HTTP replicas; the others are probed on their sockets. None: no replica is
        probed."""
        self._targets[uid] = targets
        for index, view in self.replicas(uid).items():
            self._probe(view, uid, index)

    def unfollow(self, uid: str) -> None:
        self._targets.pop(uid, None)
        for view in tuple(self._views.pop(uid, {}).values()):
            self._end_probe(view.key)

    def replicas(self, uid: str) -> dict[int, ProcessView]:
        """The processes that are not known to be gone, by index."""
        return dict(self._views.get(uid, {}))

    def state(self, key: str) -> ProbeState:
        probe = self.probe(key)
        return probe.state if probe is not None else ProbeState()

    def probe(self, key: str) -> Probe | None:
        """The probe of a running process, if there is one."""
        return self._probes.get(key, (0, None, None))[2]

    def signature(self, uid: str) -> Signature | None:
        """The signature of a workload, if one of its replicas has reported it."""
        signatures = (self.state(view.key).signature for view in self.replicas(uid).values())
        return next((signature for signature in signatures if signature is not None), None)

    def observe(self, view: ProcessView) -> None:
        found = split_key(view.key)
        if found is None or found[0] not in self._views:
            return
        uid, index = found
        known = self._views[uid]
        if view == known.get(index):
            return
        if view.state is State.GONE:
            known.pop(index, None)
        else:
            known[index] = view
        self._probe(view, uid, index)
        self._on_change(uid)

    def observe_all(self, uid: str, views: Iterable[ProcessView]) -> None:
        """Observe all processes of a workload: any other known process of it is gone."""
        present = {view.key: view for view in views}
        for index, known in self.replicas(uid).items():
            if known.key not in present:
                del self._views[uid][index]
                self._end_probe(known.key)
        for view in present.values():
            self.observe(view)

    def close(self) -> None:
        for key in tuple(self._probes):
            self._end_probe(key)

    async def _watch(self) -> None:
        client = await Client.connect(self._home)
        try:
            for uid in tuple(self._views):  # anything may have changed while there was no watch
                self._on_change(uid)
            async for view in client.watch():
                self.observe(view)
        finally:
            client.close()

    def _probe(self, view: ProcessView, uid: str, index: int) -> None:
        """Keep one probe per running process: another pid is another process."""
        targets = self._targets.get(uid, {})
        if targets is None:
            return
        target = targets.get(index)
        pid, probed, _ = self._probes.get(view.key, (None, None, None))
        if view.pid is not None and (pid, probed) == (view.pid, target):
            return
        self._end_probe(view.key)
        if view.state is State.RUNNING and view.pid is not None:
            self._probes[view.key] = (view.pid, target, self._new_probe(uid, index, view.pid, target))

    def _new_probe(self, uid: str, index: int, pid: int, target: HttpTarget | None) -> Probe:
        def notify() -> None:
            self._on_change(uid)

        if target is None:
            return FrameProbe(WorkloadPaths(self._home, uid).socket(index), notify)
        found_of, found = target.found
        return HttpProbe(target, notify, known=found if found_of == pid else "", intervals=self._intervals)

    def _end_probe(self, key: str) -> None:
        _, _, probe = self._probes.pop(key, (0, None, None))
        if probe is not None:
            probe.stop()
