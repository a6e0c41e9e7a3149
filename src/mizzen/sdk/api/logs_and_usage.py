"""Looking on: what processes printed, how what is served is doing, and what all of it uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.resources import Resources
from mizzen.sdk.api.session import escaped

FOLLOW_PATIENCE: Final = 30.0
"""Seconds for which a plane that went away is waited for by those who follow a log."""
_PAUSE: Final = 0.5
_MARK: Final = "\0place "


class Looking(Resources):
    async def logs(
        self,
        name: str,
        *,
        tail: int | None = None,
        follow: bool = False,
        build: bool = False,
        namespace: str | None = None,
        patience: float = FOLLOW_PATIENCE,
    ) -> AsyncIterator[str]:
        """What the replicas of an InferenceModel printed, in pieces of whole lines.

        With `follow`, until the InferenceModel is gone, through restarts of the plane that take no longer than
        `patience` seconds: nothing is left out or told twice. Lines begin with `[replica]` when there are several.
        With `build`, what was printed while its environment was built.
        """
        path = f"{self.path('inferencemodels', name, namespace=namespace)}/log"
        if build or not follow:
            asked = {"tail": tail, "build": build or None, "follow": follow or None}
            async with self._control.stream(path, asked) as response:
                async for piece in response.aiter_text():
                    yield piece
            return
        params: dict[str, Any] = {"tail": tail, "follow": True, "places": True}
        clock = asyncio.get_running_loop().time
        failing_since: float | None = None
        known = False
        while True:
            try:
                async with self._control.stream(path, params) as response:
                    known, failing_since, left = True, None, ""
                    async for piece in response.aiter_text():
                        # Told only up to a place: what comes after the last one is sent again if this breaks off.
                        text, left, place = _up_to_place(left + piece)
                        params["after"] = place or params.get("after")
                        if text:
                            yield text
            except errors.NotFound:
                if not known:
                    raise
                return
            except errors.Unavailable:
                failing_since = failing_since or clock()
                if not known or clock() - failing_since > patience:
                    raise
            await asyncio.sleep(_PAUSE)

    async def server_of(self, name: str, *, namespace: str | None = None) -> str:
        """The InferenceModel of this name; else the one that serves the current version of the model of this name.

        NotFound, also when nothing serves the model.
        """
        try:
            await self.get("inferencemodels", name, namespace=namespace)
        except errors.NotFound as missing:
            try:
                await self.get("models", name, namespace=namespace)
            except errors.NotFound:
                raise missing from None
        else:
            return name
        model = await self.request("GET", f"/model/{name}", params=self.within(namespace))
        found = sorted(
            model["servers"], key=lambda server: (server["version"] != model["current"], not server["ready"])
        )
        if not found:
            version = model["current"] or "VERSION"
            raise errors.NotFound(f"nothing serves model '{name}'", hint=f"'mizzen serve {name} {version}' does")
        return str(found[0]["id"])

    async def usage(self, *, namespace: str | None = None) -> dict[str, Any]:
        """How what is served is doing: rates and latencies of the last ten seconds, queues, replicas, memory and CPU.

        Of one namespace, or of all that one may read; with the plane's own processes.
        """
        return await self.request("GET", "/usage", params={"namespace": namespace}, timeout=5.0)

    async def usage_history(
        self, name: str | None = None, *, minutes: int = 10, namespace: str | None = None
    ) -> dict[str, Any]:
        """How a model was doing, each version for itself: {"seconds", "columns", "series": [{"points"}]}.

        Points are 2 seconds apart for up to 10 minutes, else 30 seconds for up to 6 hours. Without a name, of those
        models that were served last.
        """
        params = {"name": name, "minutes": minutes, "namespace": namespace or self.namespace}
        return await self.request("GET", "/usage/history", params=params)

    async def graph(self, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """A graph as it is now: {"nodes", "edges", …}, with what passed between them in the last ten seconds."""
        return await self.request("GET", f"/graph/{escaped(name)}", params=self.within(namespace), timeout=5.0)

    async def graph_state(self, name: str, *, user: str | None = None, namespace: str | None = None) -> dict[str, Any]:
        """What the bandits of a graph have learnt, of all or of one user, and how well each version does at each node:
        {"nodes": [{"arms"}], "quality"}."""
        params = {**self.within(namespace), "user": user}
        return await self.request("GET", f"/graph/{escaped(name)}/state", params=params)

    async def plane_metrics(self) -> str:
        """The control API's metrics, as text for Prometheus."""
        return (await self._control.request("GET", "/metrics", timeout=5.0)).text


def _up_to_place(text: str) -> tuple[str, str, str]:
    """The lines before the last mark, what comes after it, and the place it tells."""
    told: list[str] = []
    pending: list[str] = []
    place = ""
    *lines, rest = text.split("\n")
    for line in lines:
        if line.startswith(_MARK):
            place = line.removeprefix(_MARK)
            told += pending
            pending = []
        else:
            pending.append(f"{line}\n")
    return "".join(told), "".join(pending) + rest, place
