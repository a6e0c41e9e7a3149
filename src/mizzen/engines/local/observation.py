"""What is seen of replicas just now: their processes, as the supervisor tells, and their readiness, as they say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from mizzen.engines.local.frame_probe import Probe, Readiness, Said
from mizzen.engines.local.http_probe import PACE, HttpProbe, Pace, Target
from mizzen.engines.local.process_specs import Place, split_key
from mizzen.kinds.parts.signatures import Signature
from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessView, State

_RECONNECT = 0.1

log = logging.getLogger(__name__)


class Sight:
    """Of the workloads that are followed; all others are none of our business."""

    def __init__(self, home: Home, changed: Callable[[str], None], pace: Pace = PACE) -> None:
        """`changed` is called with a workload's uid whenever something about its replicas did."""
        self._home = home
        self._pace = pace
        self._changed = changed
        self._views: dict[str, dict[int, ProcessView]] = {}
        self._targets: dict[str, Mapping[int, Target] | None] = {}
        self._probes: dict[str, tuple[int, Target | None, Probe | HttpProbe]] = {}
        """By replica: of which process, and whom it asks; None: it listens on its socket."""

    async def run(self) -> None:
        """Keeps it up to date, from one supervisor to the next, until cancelled."""
        while True:
            try:
                await self._watch()
            except SupervisorGone:
                await asyncio.sleep(_RECONNECT)

    def follow(self, uid: str) -> None:
        self._views.setdefault(uid, {})

    def ask(self, uid: str, targets: Mapping[int, Target] | None) -> None:
        """The replicas of this workload that answer HTTP, and where; the others say on their sockets what they have to
        say. None: nobody is asked anything."""
        self._targets[uid] = targets
        for index, view in self.replicas(uid).items():
            self._probe(view, uid, index)

    def unfollow(self, uid: str) -> None:
        self._targets.pop(uid, None)
        for view in tuple(self._views.pop(uid, {}).values()):
            self._end_probe(view.key)

    def replicas(self, uid: str) -> dict[int, ProcessView]:
        """Those that are not known to be gone, by index."""
        return dict(self._views.get(uid, {}))

    def readiness(self, key: str) -> Readiness:
        probe = self.probe(key)
        return probe.readiness if probe is not None else "unknown"

    def said(self, key: str) -> Said:
        probe = self.probe(key)
        return probe.said if probe is not None else Said()

    def lacks(self, key: str) -> str:
        """Why it is not ready, as far as that is known."""
        probe = self.probe(key)
        return probe.message if probe is not None else ""

    def probe(self, key: str) -> Probe | HttpProbe | None:
        """Of a process that runs, as far as it is seen."""
        return self._probes.get(key, (0, None, None))[2]

    def signature(self, uid: str) -> Signature | None:
        """What the replicas of a workload take and give, as far as one has said so."""
        probes = (self.probe(view.key) for view in self.replicas(uid).values())
        return next((probe.signature for probe in probes if probe is not None and probe.signature is not None), None)

    def see(self, view: ProcessView) -> None:
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
        self._changed(uid)

    def see_only(self, uid: str, views: Iterable[ProcessView]) -> None:
        """All there is of a workload: what else was seen of it is gone."""
        present = {view.key: view for view in views}
        for index, known in self.replicas(uid).items():
            if known.key not in present:
                del self._views[uid][index]
                self._end_probe(known.key)
        for view in present.values():
            self.see(view)

    def close(self) -> None:
        for key in tuple(self._probes):
            self._end_probe(key)

    async def _watch(self) -> None:
        client = await Client.connect(self._home)
        try:
            for uid in tuple(self._views):  # while nobody watched, anything may have happened
                self._changed(uid)
            async for view in client.watch():
                self.see(view)
        finally:
            client.close()

    def _probe(self, view: ProcessView, uid: str, index: int) -> None:
        """One probe for each running process: another pid is another process."""
        targets = self._targets.get(uid, {})
        if targets is None:
            return
        target = targets.get(index)
        pid, asked, _ = self._probes.get(view.key, (None, None, None))
        if view.pid is not None and (pid, asked) == (view.pid, target):
            return
        self._end_probe(view.key)
        if view.state is State.RUNNING and view.pid is not None:
            self._probes[view.key] = (view.pid, target, self._new_probe(uid, index, view.pid, target))

    def _new_probe(self, uid: str, index: int, pid: int, target: Target | None) -> Probe | HttpProbe:
        def changed() -> None:
            self._changed(uid)

        if target is None:
            return Probe(Place(self._home, uid).socket(index), changed)
        found_of, found = target.found
        return HttpProbe(target, changed, known=found if found_of == pid else "", pace=self._pace)

    def _end_probe(self, key: str) -> None:
        _, _, probe = self._probes.pop(key, (0, None, None))
        if probe is not None:
            probe.stop()
