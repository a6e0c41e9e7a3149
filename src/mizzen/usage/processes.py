"""Which processes there are, as the supervisor tells: followed, so that to know it costs nothing when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn

from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.protocol import ProcessView, State
from mizzen.usage.rates import Process

SUPERVISOR = "supervisor"
_RECONNECT = 0.5


class Processes:
    """From one supervisor to the next; while there is none, those of the last one that still live."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._views: dict[str, ProcessView] = {}
        self._supervisor: tuple[int, str] | None = None

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except SupervisorGone:
                await asyncio.sleep(_RECONNECT)

    def seen(self) -> dict[str, Process]:
        """What each of them uses now, by key. One that has ended, or whose pid is another's by now, is left out."""
        asked: dict[str, tuple[int | None, str, int]] = {
            view.key: (view.pid, view.start, view.restarts) for view in self._views.values()
        }
        if self._supervisor is not None:
            asked[SUPERVISOR] = (*self._supervisor, 0)
        found = {}
        for key, (pid, start, restarts) in asked.items():
            used = procfs.used(pid) if pid is not None else None
            if pid is not None and used is not None and used[0] == start:
                found[key] = Process(pid, start, used[1], used[2], restarts)
        return found

    def restarts(self) -> Mapping[str, int]:
        """How often each was started again, also of those that do not run just now."""
        return {view.key: view.restarts for view in self._views.values()}

    async def _follow(self) -> NoReturn:
        client = await Client.connect(self._home)
        try:
            info: dict[str, Any] = await client.info()
            self._supervisor = int(info["pid"]), str(info["start"])
            fresh: dict[str, ProcessView] = {}
            async for view in client.watch():
                self._views = fresh  # with the first one; all that are there come at once
                if view.state is State.GONE:
                    fresh.pop(view.key, None)
                else:
                    fresh[view.key] = view
        finally:
            client.close()
        raise SupervisorGone("the watch ended")
