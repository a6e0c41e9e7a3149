"""The status line of `mizzen up`: uptime, models ready, requests per second, median latency."""

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
from mizzen.sdk.connection.locate import PlaneAddress
from mizzen.sdk.connection.tether import KeptTether

_INTERVAL: Final = 1.0


def watch(place: PlaneAddress, tether: KeptTether, interrupts: Interrupts) -> None:
    """Show the line until a signal arrives or the plane has stopped. Shows nothing if stdout is not a terminal."""
    if not sys.stdout.isatty():
        while not interrupts.received.wait(0.2) and not tether.ended.is_set():
            pass
        return
    from rich.live import Live
    from rich.text import Text

    sampler = _Sampler(place)
    with Live(Text(""), refresh_per_second=4, transient=True) as shown:
        while not interrupts.received.wait(0.2) and not tether.ended.is_set():
            shown.update(Text(sampler.line(), style="dim", no_wrap=True, overflow="ellipsis"))


class _Sampler:
    """Polls the plane in its own thread: a slow response must not delay the reaction to Ctrl-C."""

    def __init__(self, place: PlaneAddress) -> None:
        self._place = place
        self._began = time.monotonic()
        self._text = "waiting for usage"
        threading.Thread(target=lambda: asyncio.run(self._sample()), name="mizzen-live", daemon=True).start()

    def line(self) -> str:
        return f"up {format_duration(time.monotonic() - self._began)} · {self._text} · Ctrl-C stops"

    async def _sample(self) -> None:
        async with AsyncPlane(self._place) as plane:
            while True:
                try:
                    self._text = format_usage(await plane.usage())
                except MizzenError as error:
                    self._text = output.escape_controls(error.message)
                await asyncio.sleep(_INTERVAL)


def format_usage(usage: Mapping[str, Any]) -> str:
    """The response of GET /usage as one line."""
    ready = len({(model["namespace"], model["name"]) for model in usage["models"] if model["replicasReady"]})
    total = usage["total"]
    models = "1 model" if ready == 1 else f"{ready} models"
    latency = "-" if total["p50"] is None else f"{total['p50'] * 1000:.1f} ms"
    return f"{models} ready · {total['requestsPerSecond']:.0f} requests/s · p50 {latency}"


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
