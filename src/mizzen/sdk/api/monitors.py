"""Monitor calls of the /model API: one tool over all versions and jobs of a model."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.session import Calls, escape

TIMEOUT: Final = 60.0
"""Seconds to wait for a tool to respond."""
_PAUSE: Final = 0.1


class MonitorCalls(Calls):
    async def start_monitor(self, model: str, tool: str | None = None) -> dict[str, Any]:
        """Return the monitor of a model, starting one if there is none: {"url", "tool", "ready", …}."""
        body = {"tool": tool} if tool else {}
        return await self.request("POST", _path(model), body=body, params=self.within())

    async def monitor(self, model: str) -> dict[str, Any]:
        """Raises NotFound if there is none."""
        return await self.request("GET", _path(model), params=self.within())

    async def wait_monitor(
        self,
        model: str,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - the public parameter
    ) -> dict[str, Any]:
        """Wait until the tool responds, and return the monitor. Raises DeadlineExceeded."""
        seen = await self.monitor(model)
        try:
            async with asyncio.timeout(timeout):
                while not seen["ready"]:
                    await asyncio.sleep(_PAUSE)
                    seen = await self.monitor(model)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"the monitor of {model} did not answer within {timeout:g} s",
                hint=f"'mizzen monitor show {model}' shows the reason",
            ) from None
        return seen

    async def stop_monitor(self, model: str) -> None:
        """Stop the monitor; does nothing if there is none."""
        await self._control.request("DELETE", _path(model), params=self.within())

    async def monitor_ticket(self, model: str) -> str:
        """Return an address that opens the monitor in a browser: valid once, for one minute."""
        return str((await self.request("POST", f"{_path(model)}/ticket", params=self.within()))["url"])

    async def scalars(
        self,
        model: str,
        *,
        tag: str | None = None,
        version: str | int | None = None,
        job: str | None = None,
        points: int | None = None,
    ) -> dict[str, Any]:
        """Return the scalars that versions and jobs logged, by step, and those of served versions: {"tags", "series",
        "live"}."""
        params = {"tag": tag, "version": version, "job": job, "points": points, **self.within()}
        return await self.request("GET", f"{_path(model)}/scalars", params=params)


def _path(model: str) -> str:
    return f"/model/{escape(model)}/monitor"
