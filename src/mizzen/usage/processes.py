"""The processes of the supervisor, followed by a watch so that reading them costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn

from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.protocol import ProcessView, State
from mizzen.usage.rates import ProcessUsage

SUPERVISOR = "supervisor"
_RECONNECT = 0.5


class Processes:
    """Follows one supervisor after the other. While there is none, it keeps the last one's live processes."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._views: dict[str, ProcessView] = {}
        self._supervisor: tuple[int, str] | None = None

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            try:
                await self._watch()
            except SupervisorGone:
                await asyncio.sleep(_RECONNECT)

    def read_usage(self) -> dict[str, ProcessUsage]:
        """The current usage of each process, by key, without those that have ended or whose pid was reused."""
        tracked: dict[str, tuple[int | None, str, int]] = {
            view.key: (view.pid, view.start, view.restarts) for view in self._views.values()
        }
        if self._supervisor is not None:
            tracked[SUPERVISOR] = (*self._supervisor, 0)
        found = {}
        for key, (pid, start, restarts) in tracked.items():
            used = procfs.resource_usage(pid) if pid is not None else None
            if pid is not None and used is not None and used[0] == start:
                found[key] = ProcessUsage(pid, start, used[1], used[2], restarts)
        return found

    def restarts(self) -> Mapping[str, int]:
        """How often each process was restarted, including those that are not running now."""
        return {view.key: view.restarts for view in self._views.values()}

    async def _watch(self) -> NoReturn:
        client = await Client.connect(self._home)
        try:
            info: dict[str, Any] = await client.info()
            self._supervisor = int(info["pid"]), str(info["start"])
            fresh: dict[str, ProcessView] = {}
            async for view in client.watch():
                self._views = fresh  # replaced with the first view; the watch starts with all existing ones
                if view.state is State.GONE:
                    fresh.pop(view.key, None)
                else:
                    fresh[view.key] = view
        finally:
            client.close()
        raise SupervisorGone("the watch ended")
