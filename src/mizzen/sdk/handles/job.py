"""Job: one job set of a plane, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.handles.plane_protocol import SynchronousPlane
    from mizzen.sdk.operations.train import Look


class Job:
    """One job set, as returned by `Model.train` or `Plane.job`."""

    def __init__(self, plane: SynchronousPlane, ref: JobRef) -> None:
        self.plane = plane
        self._ref = ref

    def __repr__(self) -> str:
        return f"<mizzen.Job {self.id}>"

    @property
    def id(self) -> str:
        """Its id, the same in the API, the CLI and the logs."""
        return self._ref.id

    @property
    def model(self) -> str:
        """The model it trains."""
        return self._ref.model

    @property
    def version(self) -> str:
        """The version whose code runs; empty for a command without a version."""
        return self._ref.version

    @property
    def state(self) -> str:
        """Created, Queued, Running, Restarting, Suspended, Succeeded or Failed."""
        return str(self.describe()["state"])

    @property
    def progress(self) -> dict[str, Any]:
        """The last progress that the code reported: step, total, metrics, message; and `eta_seconds`. Empty before the
        first report."""
        return dict(self.describe().get("progress") or {})

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """Its retained checkpoints, newest first: checkpoint_id, uri, name, step, metrics, sha256, created."""
        return self.plane.run(self.plane.calls.checkpoints(self._ref))

    def describe(self) -> dict[str, Any]:
        """Return its conditions, replicas, times, progress and outcome. Raises NotFound."""
        return self.plane.run(self.plane.calls.job(self._ref))

    def wait(self, timeout: float | None = None, *, look: Look | None = None) -> Job:
        """Wait until the job has succeeded, and return it. Each poll calls `look` with `describe()`.

        Raises TrainingFailed, with the reason and the last lines of the log; or DeadlineExceeded, while the job keeps
        running.
        """
        self.plane.run(self.plane.calls.wait_job(self._ref, timeout, look))
        return self

    def logs(
        self, follow: bool = False, tail: int | None = None, *, since: str | None = None, replica: str | None = None
    ) -> Iterator[str]:
        """Yield the replicas' output in chunks of whole lines that begin with `[replica]`; with `follow`, until the job
        has ended. `since` is an ISO time or an age: `10m`."""
        found = self.plane.calls.job_logs(self._ref, follow=follow, tail=tail, since=since, replica=replica)
        return self.plane.iterate(found)

    def stop(self, *, wait: bool = True) -> None:
        """Stop the job. Logs and checkpoints stay."""
        self.plane.run(self.plane.calls.stop_job(self._ref, wait=wait))

    def suspend(self) -> None:
        """Stop its replicas until `resume`. Raises Conflict if the job has ended."""
        self.plane.run(self.plane.calls.suspend_job(self._ref))

    def resume(self) -> None:
        """Resume from the last checkpoint. Raises Conflict if the job has ended."""
        self.plane.run(self.plane.calls.resume_job(self._ref))

    def serve(self, checkpoint: str | None = None, replicas: int = 1) -> str:
        """Serve its last checkpoint, or the one with this id, wait until it is ready, and return the server's name.
        `Model.promote` makes the version current. Raises Conflict if the job has no checkpoint."""
        server = self.plane.run(self.plane.calls.serve_job(self._ref, checkpoint, replicas))
        self.plane.run(self.plane.calls.wait_ready(server))
        return server

    def fetch(self, checkpoint: str, folder: str | Path) -> Path:
        """Download a checkpoint into a folder, which is created. Raises AlreadyExists if a file would be
        overwritten."""
        return self.plane.run(self.plane.calls.fetch_checkpoint(self._ref, checkpoint, folder))

    def trust(self, checkpoint: str) -> None:
        """Trust a checkpoint of another user's job, so that it may be served even if it is a pickle. Needs `admin` on
        the model."""
        self.plane.run(self.plane.calls.trust_checkpoint(self._ref, checkpoint))
