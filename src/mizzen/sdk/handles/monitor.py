"""Monitor: the monitoring tool of one model, for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.handles.plane_protocol import SynchronousPlane


class Monitor:
    """The monitor of a model: a tool such as TensorBoard over all its versions and jobs."""

    def __init__(self, plane: SynchronousPlane, model: str) -> None:
        self.plane = plane
        self.model = model

    def __repr__(self) -> str:
        return f"<mizzen.Monitor of {self.model}>"

    @property
    def url(self) -> str:
        """The tool's address, which requires a token. Raises NotFound if the monitor was stopped."""
        return str(self.plane.run(self.plane.calls.monitor(self.model))["url"])

    @property
    def tool(self) -> str:
        """`tensorboard`, or `scalars`: Mizzen's own viewer. Raises NotFound if the monitor was stopped."""
        return str(self.plane.run(self.plane.calls.monitor(self.model))["tool"])

    def ticket(self) -> str:
        """Return an address for a browser, which has no token: valid once, for one minute."""
        return self.plane.run(self.plane.calls.monitor_ticket(self.model))

    def scalars(
        self,
        tag: str | None = None,
        *,
        version: str | int | None = None,
        job: str | None = None,
        points: int | None = None,
    ) -> dict[str, Any]:
        """Return the scalars that versions and jobs logged, by step: {"tags", "series": [{"version", "job", "tag",
        "points"}], "live"}. Points are [step, value, time]."""
        found = self.plane.calls.scalars(self.model, tag=tag, version=version, job=job, points=points)
        return self.plane.run(found)

    def stop(self) -> None:
        """Stop the tool; logged data stays. Stopping it again is harmless."""
        self.plane.run(self.plane.calls.stop_monitor(self.model))
