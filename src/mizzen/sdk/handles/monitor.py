"""Monitor: the monitoring tool of one model, for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.sync import Plane


class Monitor:
    """The monitor of a model: a tool such as TensorBoard over all its versions and jobs."""

    def __init__(self, plane: Plane, model: str) -> None:
        self.plane = plane
        self.model = model

    def __repr__(self) -> str:
        return f"<mizzen.Monitor of {self.model}>"

    @property
    def url(self) -> str:
        """Where the tool answers whoever has a token. NotFound when it was stopped."""
        return str(self.plane.run(self.plane.calls.monitor(self.model))["url"])

    @property
    def tool(self) -> str:
        """`tensorboard`, or `scalars`: our own viewer. NotFound when it was stopped."""
        return str(self.plane.run(self.plane.calls.monitor(self.model))["tool"])

    def ticket(self) -> str:
        """An address for a browser, which has no token: good once, and only for a minute."""
        return self.plane.run(self.plane.calls.monitor_ticket(self.model))

    def scalars(
        self,
        tag: str | None = None,
        *,
        version: str | int | None = None,
        job: str | None = None,
        points: int | None = None,
    ) -> dict[str, Any]:
        """What versions and jobs logged, compared by step: {"tags", "series": [{"version", "job", "tag", "points"}],
        "live"}; points are [step, value, time]."""
        found = self.plane.calls.scalars(self.model, tag=tag, version=version, job=job, points=points)
        return self.plane.run(found)

    def stop(self) -> None:
        """End the tool; what was logged stays. Once more does no harm."""
        self.plane.run(self.plane.calls.stop_monitor(self.model))
