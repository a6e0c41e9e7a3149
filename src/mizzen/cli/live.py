"""The one line that lives below `mizzen up`: uptime, models ready, requests a second, median latency."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any, Final

from mizzen.cli import output, stats
from mizzen.cli.interrupts import Interrupts
from mizzen.errors import MizzenError
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.locate import Place
from mizzen.sdk.tether import KeptTether

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
            before: stats.Reading | None = None
            while True:
                try:
                    after = stats.read(await plane.metrics(), time.monotonic())
                    ready = _ready((await plane.list("inferencemodels"))["items"])
                except MizzenError as error:
                    self._said = output.shown(error.message)
                else:
                    before = before or after  # what was asked before we looked is no rate
                    self._said = sentence(ready, stats.rate(before, after), stats.median(before, after))
                    before = after
                await asyncio.sleep(_EVERY)


def sentence(ready: int, rate: float, median: float | None) -> str:
    models = "1 model" if ready == 1 else f"{ready} models"
    latency = "-" if median is None else f"{median * 1000:.1f} ms"
    return f"{models} ready · {rate:.0f} requests/s · p50 {latency}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _ready(servers: list[dict[str, Any]]) -> int:
    """Models with at least one ready server."""
    return len(
        {
            server["spec"]["modelName"]
            for server in servers
            for condition in server.get("status", {}).get("conditions") or ()
            if condition["type"] == "Ready" and condition["status"] == "True"
        }
    )
