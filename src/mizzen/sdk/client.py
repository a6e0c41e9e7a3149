"""AsyncPlane: every call on a plane's two APIs, and the operations that take several calls.

`sync.py` wraps it for programs without an event loop.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mizzen import errors
from mizzen.sdk.api.access import AccessCalls
from mizzen.sdk.api.jobs import JobCalls, JobRef
from mizzen.sdk.api.monitors import MonitorCalls
from mizzen.sdk.api.resources import plural
from mizzen.sdk.keywords import LoadKeywords, takes
from mizzen.sdk.operations import deploy as deploying
from mizzen.sdk.operations import rollback as undoing
from mizzen.sdk.packaging import requirements as packaging_requirements

if TYPE_CHECKING:
    from mizzen.manifests.lint import Checked
    from mizzen.sdk.operations.apply import Applied, Manifests
    from mizzen.sdk.operations.compare import Comparison
    from mizzen.sdk.operations.rollback import Undone
    from mizzen.sdk.operations.train import Look


class AsyncPlane(JobCalls, MonitorCalls, AccessCalls):
    """A client of one plane. Create and use it on one event loop; `close` it, or use it as a context manager.

    Single calls are inherited from `sdk.api`. The methods here take several calls; their code is in `sdk.operations`.
    """

    async def apply(
        self, manifests: Manifests, *, dry_run: bool = False, namespace: str | None = None
    ) -> builtins.list[Applied]:
        """Create or update every object of a file, a folder, a YAML text or data.

        First all objects are sent as a dry run. If any is rejected, nothing is written, and Invalid (or the error that
        they all share, such as Forbidden) lists every fault. Objects are then sent and returned in dependency order:
        models, versions, servers, and so on. With `dry_run` nothing is written.
        """
        from mizzen.sdk.operations import apply as operations_apply

        return await operations_apply.apply(
            self, operations_apply.documents(manifests), dry_run=dry_run, namespace=namespace
        )

    async def diff(self, manifests: Manifests, *, namespace: str | None = None) -> str:
        """Return what `apply` would change, as a unified diff of YAML; empty if nothing would."""
        from mizzen.sdk.operations import apply as operations_apply

        return await operations_apply.diff(self, operations_apply.documents(manifests), namespace=namespace)

    def lint(self, manifests: Manifests) -> builtins.list[Checked]:
        """Return the errors and warnings for each object of a file, a folder, a YAML text or data. Needs no plane."""
        from mizzen.sdk.operations import apply as operations_apply

        return operations_apply.lint(manifests)

    def explain(self, path: str) -> dict[str, Any]:
        """Describe a kind and its fields, or one field (`model.track`). Needs no plane."""
        from mizzen.kinds.schema import explain as schema_explain

        return schema_explain.explain(path)

    async def remove(
        self, kind: str, name: str, *, cascade: bool = False, wait: bool = True, namespace: str | None = None
    ) -> None:
        """Delete an object. Models are deleted with their versions; `cascade` first stops their servers.

        Raises NotFound, Conflict. Without `wait` it returns once deletion has begun: `get` finds the object until its
        processes have ended.
        """
        if plural(kind) == "models":
            await self.delete_model(name, cascade=cascade, wait=wait, namespace=namespace)
            return
        if cascade:
            raise errors.Invalid(f"cascade applies only to models, not to a {kind}")
        await self.delete(kind, name, namespace=namespace)
        if wait:
            await deploying.wait_gone(self, kind, [name], namespace=namespace)

    @takes(LoadKeywords)
    async def deploy(
        self,
        name: str,
        path: str | Path,
        *,
        promote: bool = True,
        wait: bool = True,
        timeout: float = deploying.TIMEOUT,  # noqa: ASYNC109 - the public parameter
        progress: deploying.Progress = deploying.silent,
        **options: Unpack[LoadKeywords],
    ) -> deploying.Deployment:
        """Register the file or folder at `path` as the next version of `name`, serve it, wait, make it current.

        `requirements` are packages as for pip, or a file of them (default: a requirements.txt in the folder). With
        these or with `python` (such as 3.12), the version runs in its own environment. Without `wait`, it returns as
        soon as the server is created, and does not promote the version. Raises ModelFailed if the model cannot be
        loaded: its server is then removed; the version stays.
        """
        registered = await deploying.register(self, name, Path(path), **options)
        version = str(registered["version"])
        progress(f"registered version {version}{packaging_requirements.describe(registered)}")
        server = await self.serve(name, version)
        url = await self.inference_url(name if promote else server)
        begun = deploying.Deployment(name, version, server, url)
        if wait:
            await self.finish(begun, promote=promote, timeout=timeout, progress=progress)
        return begun

    async def finish(
        self,
        begun: deploying.Deployment,
        *,
        promote: bool = True,
        timeout: float = deploying.TIMEOUT,  # noqa: ASYNC109
        progress: deploying.Progress = deploying.silent,
    ) -> None:
        """Wait for and promote a deployment that `deploy` started without `wait`."""
        progress("starting")
        await deploying.wait_loaded(self, begun.server, timeout, progress=progress)
        progress("ready")
        if promote:
            await self.promote(begun.model, begun.version)
            progress("current")
        await deploying.wait_answering(self, begun.model, begun.version, begun.server, current=promote, seconds=timeout)

    async def rollback(self, model: str, version: str | int | None = None, *, force: bool = False) -> str:
        """Make the previous version current again, or the given one, and return it. It is served first if it is not
        yet."""
        return await undoing.roll_back_model(self, model, None if version is None else str(version), force=force)

    async def restore(self, kind: str, name: str, number: int | None = None) -> Undone:
        """Restore the spec of an earlier revision of any object; default: the last one that differs from the present
        spec.

        Raises NotFound, Conflict. A Model keeps its current version: only a rollback changes that.
        """
        return await undoing.restore(self, kind, name, number)

    async def compare(self, before: str, after: str) -> Comparison:
        """Compare two versions, each `model:version`, `model@alias`, or `model` for its current version.

        Raises NotFound, Invalid.
        """
        from mizzen.sdk.operations import compare as operations_compare

        return await operations_compare.compare(self, before, after)

    async def undeploy(self, model: str, version: str | None = None, *, force: bool = False) -> builtins.list[str]:
        """Stop serving a model or one version of it, wait until its processes have ended, and return the servers'
        names.

        Raises Conflict if that version is current while others are served, unless `force`.
        """
        return await deploying.undeploy(self, model, version, force=force)

    async def scale(
        self,
        name: str,
        replicas: int,
        *,
        wait: bool = True,
        timeout: float = deploying.TIMEOUT,  # noqa: ASYNC109
    ) -> str:
        """Set the replicas of an InferenceModel, or of the server of a model's current version. Returns the server's
        name.

        With `wait`, waits until they are ready. Raises NotFound; ModelFailed if they cannot be started;
        DeadlineExceeded.
        """
        from mizzen.sdk.operations import scale as operations_scale

        return await operations_scale.scale(self, name, replicas, wait=wait, seconds=timeout)

    async def autoscale(
        self,
        name: str,
        limits: Mapping[str, float] | None,
        *,
        replicas: int | None = None,
        wait: bool = True,
        timeout: float = deploying.TIMEOUT,  # noqa: ASYNC109
    ) -> str:
        """Scale with the load, within limits: fields of `spec.autoScale`, such as {"minReplicas": 0, "maxReplicas": 3}.
        Fields that are not given keep their values. None turns autoscaling off; `replicas` then sets the number."""
        from mizzen.sdk.operations import scale as operations_scale

        return await operations_scale.autoscale(self, name, limits, replicas=replicas, wait=wait, seconds=timeout)

    async def wait_ready(
        self,
        server: str,
        timeout: float = deploying.TIMEOUT,  # noqa: ASYNC109
        progress: deploying.Progress = deploying.silent,
    ) -> None:
        """Wait until an InferenceModel is ready. Raises ModelFailed if it cannot become ready, or DeadlineExceeded."""
        await deploying.wait_loaded(self, server, timeout, keep=True, progress=progress)

    async def wait_job(
        self,
        job: JobRef | str,
        timeout: float | None = None,  # noqa: ASYNC109 - the public parameter
        look: Look | None = None,
    ) -> dict[str, Any]:
        """Wait until the job set has succeeded, and return it. Each poll calls `look` with the job's state.

        Raises TrainingFailed, with the reason and the last lines of the log, or DeadlineExceeded.
        """
        from mizzen.sdk.operations import train

        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        return await train.wait(self, ref, timeout, look or train.unseen)

    async def job_logs(
        self,
        job: JobRef | str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: str | None = None,
        replica: str | None = None,
    ) -> AsyncIterator[str]:
        """Yield the replicas' output in order, in chunks of whole lines that begin with `[replica]`.

        With `follow`, until the job has ended; if read from the beginning, also across restarts of the plane. `since`
        is an ISO time or an age: `10m`.
        """
        from mizzen.sdk.operations import follow_logs

        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        query = {"tail": tail, "since": since, "replica": replica}
        if follow:
            whole = tail is None and since is None
            pieces = follow_logs.follow(self, ref, lambda: self.read_job_logs(ref, follow=True, **query), whole=whole)
        else:
            pieces = self.read_job_logs(ref, **query)
        async for piece in pieces:
            yield piece
