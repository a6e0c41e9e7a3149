"""Observability calls: logs, usage of served models, graphs and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.resources import ResourceCalls
from mizzen.sdk.api.session import escape

FOLLOW_PATIENCE: Final = 30.0
"""Seconds that a log follower waits for an unreachable plane to return."""
_PAUSE: Final = 0.5
_MARK: Final = "\0place "


class ObservationCalls(ResourceCalls):
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
        """Yield the output of an InferenceModel's replicas in chunks of whole lines.

        With `follow`, until the InferenceModel is deleted, across restarts of the plane that take at most `patience`
        seconds. No line is lost or repeated. Lines begin with `[replica]` if there are several replicas. With `build`,
        the output of the build of its environment.
        """
        path = f"{self.path('inferencemodels', name, namespace=namespace)}/log"
        if build or not follow:
            query = {"tail": tail, "build": build or None, "follow": follow or None}
            async with self._control.stream(path, query) as response:
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
                        # Yield only up to a position mark: lines after the last mark are sent again if the stream
                        # breaks.
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
        """Return the InferenceModel with this name, else the one that serves the current version of the model with this
        name.

        Raises NotFound, also if nothing serves the model.
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
            raise errors.NotFound(f"model '{name}' is not served", hint=f"'mizzen serve {name} {version}' serves it")
        return str(found[0]["id"])

    async def usage(self, *, namespace: str | None = None) -> dict[str, Any]:
        """Return the usage of served models: rates and latencies of the last ten seconds, queues, replicas, memory and
        CPU.

        Covers one namespace, or all that the caller may read, and the plane's own processes.
        """
        return await self.request("GET", "/usage", params={"namespace": namespace}, timeout=5.0)

    async def usage_history(
        self, name: str | None = None, *, minutes: int = 10, namespace: str | None = None
    ) -> dict[str, Any]:
        """Return a model's usage over time, per version: {"seconds", "columns", "series": [{"points"}]}.

        Points are 2 seconds apart for up to 10 minutes, else 30 seconds for up to 6 hours. Without a name, covers the
        models served most recently.
        """
        params = {"name": name, "minutes": minutes, "namespace": namespace or self.namespace}
        return await self.request("GET", "/usage/history", params=params)

    async def graph(self, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return a graph's current {"nodes", "edges", …}, with the traffic between them in the last ten seconds."""
        return await self.request("GET", f"/graph/{escape(name)}", params=self.within(namespace), timeout=5.0)

    async def graph_state(self, name: str, *, user: str | None = None, namespace: str | None = None) -> dict[str, Any]:
        """Return what a graph's bandits have learned, overall or for one user, and how well each version does at each
        node: {"nodes": [{"arms"}], "quality"}."""
        params = {**self.within(namespace), "user": user}
        return await self.request("GET", f"/graph/{escape(name)}/state", params=params)

    async def plane_metrics(self) -> str:
        """Return the control API's metrics in the Prometheus text format."""
        return (await self._control.request("GET", "/metrics", timeout=5.0)).text


def _up_to_place(text: str) -> tuple[str, str, str]:
    """Return the lines before the last mark, the text after it, and the mark's position."""
    complete: list[str] = []
    pending: list[str] = []
    place = ""
    *lines, rest = text.split("\n")
    for line in lines:
        if line.startswith(_MARK):
            place = line.removeprefix(_MARK)
            complete += pending
            pending = []
        else:
            pending.append(f"{line}\n")
    return "".join(complete), "".join(pending) + rest, place
