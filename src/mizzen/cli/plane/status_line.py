"""The one line that lives below `mizzen up`: uptime, models ready, requests a second, median latency."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from mizzen.cli import output
from mizzen.cli.interrupts import Interrupts
from mizzen.errors import MizzenError
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection.locate import Place
from mizzen.sdk.connection.tether import KeptTether

_EVERY: Final = 1.0


def watch(place: Place, tether: KeptTether, interrupts: Interrupts) -> None:
    """Until a signal comes or the plane has ended. Shows nothing when nobody is looking."""
    if not sys.stdout.isatty():
        while not interrupts.came.wait(0.2) and not tether.ended.is_set():
            pass
        return
    from rich.live import Live
    from rich.text import Text

    sampler = _Sampler(place)
    with Live(Text(""), refresh_per_second=4, transient=True) as shown:
        while not interrupts.came.wait(0.2) and not tether.ended.is_set():
            shown.update(Text(sampler.line(), style="dim", no_wrap=True, overflow="ellipsis"))


class _Sampler:
    """Asks the plane in a thread of its own: a slow answer must not delay the reaction to Ctrl-C."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._began = time.monotonic()
        self._said = "starting to count"
        threading.Thread(target=lambda: asyncio.run(self._sample()), name="mizzen-live", daemon=True).start()

    def line(self) -> str:
        return f"up {duration(time.monotonic() - self._began)} · {self._said} · Ctrl-C stops"

    async def _sample(self) -> None:
        async with AsyncPlane(self._place) as plane:
            while True:
                try:
                    self._said = sentence(await plane.usage())
                except MizzenError as error:
                    self._said = output.shown(error.message)
                await asyncio.sleep(_EVERY)


def sentence(usage: Mapping[str, Any]) -> str:
    """What GET /usage tells, in a line."""
    ready = len({(model["namespace"], model["name"]) for model in usage["models"] if model["replicasReady"]})
    total = usage["total"]
    models = "1 model" if ready == 1 else f"{ready} models"
    latency = "-" if total["p50"] is None else f"{total['p50'] * 1000:.1f} ms"
    return f"{models} ready · {total['requestsPerSecond']:.0f} requests/s · p50 {latency}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
