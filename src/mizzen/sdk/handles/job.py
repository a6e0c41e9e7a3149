"""Job: one job set of a plane, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.operations.train import Look
    from mizzen.sdk.sync import Plane


class Job:
    """One job set, as `Model.train` starts it or `Plane.job` finds it."""

    def __init__(self, plane: Plane, ref: JobRef) -> None:
        self.plane = plane
        self._ref = ref

    def __repr__(self) -> str:
        return f"<mizzen.Job {self.id}>"

    @property
    def id(self) -> str:
        """What it is called everywhere."""
        return self._ref.id

    @property
    def model(self) -> str:
        """The model that is trained."""
        return self._ref.model

    @property
    def version(self) -> str:
        """The version whose code runs; empty when it runs none."""
        return self._ref.version

    @property
    def state(self) -> str:
        """Created, Queued, Running, Restarting, Suspended, Succeeded or Failed."""
        return str(self.describe()["state"])

    @property
    def progress(self) -> dict[str, Any]:
        """What the code reported last: step, total, metrics, message; and `eta_seconds`. Empty before it has."""
        return dict(self.describe().get("progress") or {})

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """What it saved and is kept, newest first: checkpoint_id, uri, name, step, metrics, sha256, created."""
        return self.plane.run(self.plane.calls.checkpoints(self._ref))

    def describe(self) -> dict[str, Any]:
        """Conditions, replicas, times, progress, and what came of it. NotFound."""
        return self.plane.run(self.plane.calls.job(self._ref))

    def wait(self, timeout: float | None = None, *, look: Look | None = None) -> Job:
        """Until it has succeeded; itself. `look` is called with `describe()` as it goes on.

        TrainingFailed, with the reason and what it printed last; DeadlineExceeded, and it goes on.
        """
        self.plane.run(self.plane.calls.wait_job(self._ref, timeout, look))
        return self

    def logs(
        self, follow: bool = False, tail: int | None = None, *, since: str | None = None, replica: str | None = None
    ) -> Iterator[str]:
        """What its replicas printed, in pieces of whole lines that begin with `[replica]`; with `follow`, until it has
        ended. `since`: an ISO time, or so long ago: `10m`."""
        found = self.plane.calls.job_logs(self._ref, follow=follow, tail=tail, since=since, replica=replica)
        return self.plane.iterate(found)

    def stop(self, *, wait: bool = True) -> None:
        """End it. Logs and checkpoints stay."""
        self.plane.run(self.plane.calls.stop_job(self._ref, wait=wait))

    def suspend(self) -> None:
        """Stop its replicas until `resume`. Conflict when it has ended."""
        self.plane.run(self.plane.calls.suspend_job(self._ref))

    def resume(self) -> None:
        """Let it go on from what it saved. Conflict when it has ended."""
        self.plane.run(self.plane.calls.resume_job(self._ref))

    def serve(self, checkpoint: str | None = None, replicas: int = 1) -> str:
        """Serve what it saved last, or the checkpoint with this id, and wait until that is ready. The name of its
        server; `Model.promote` makes the version current. Conflict when it saved nothing."""

        async def served() -> str:
            server = await self.plane.calls.serve_job(self._ref, checkpoint, replicas)
            await self.plane.calls.wait_ready(server)
            return server

        return self.plane.run(served())

    def fetch(self, checkpoint: str, folder: str | Path) -> Path:
        """Put the files of a checkpoint into a folder, which is made. AlreadyExists for a file in the way."""
        return self.plane.run(self.plane.calls.fetch_checkpoint(self._ref, checkpoint, folder))

    def trust(self, checkpoint: str) -> None:
        """Vouch for a checkpoint of a job that somebody else started, so that it may be served even if it is a pickle.
        Needs `admin` on the model."""
        self.plane.run(self.plane.calls.trust_checkpoint(self._ref, checkpoint))
