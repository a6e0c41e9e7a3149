"""Job set calls of the /model API: starting, inspecting and stopping them, and their checkpoints and logs."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.models import ModelCalls, Objects, model_path, version_segment
from mizzen.sdk.api.session import escape

UNVERSIONED: Final = "unversioned"
"""Stands for the version in the path of a job that runs a command without a version."""
TIMEOUT: Final = 120.0
"""Seconds to wait for the processes of a job set to end."""
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class JobRef:
    """The location of a job set."""

    model: str
    version: str
    """Empty if the job has no version."""
    id: str


class JobCalls(ModelCalls):
    async def start_job(
        self, model: str, version: str | int, spec: Mapping[str, Any], *, key: str | None = None
    ) -> dict[str, Any]:
        """Train a version of a model; `spec` holds fields of a TrainingJob. Returns the job set.

        Each call starts exactly one job, even when the request is sent again because its response was lost. With the
        caller's own `key`, calls with the same key within a day start only one.
        """
        headers = {"idempotency-key": key or uuid.uuid4().hex}
        path = f"{model_path(model)}/train/{version_segment(model, version)}"
        return await self.request("POST", path, body=dict(spec), params=self.within(), headers=headers, repeatable=True)

    async def jobs(
        self, model: str | None = None, version: str | int | None = None, *, state: str | None = None
    ) -> Objects:
        """List running and waiting job sets, newest first: all, or those of a model or version. `state`: all, ongoing,
        succeeded or failed."""
        if model is not None:
            path = f"{model_path(model)}/train" + ("" if version is None else f"/{version_segment(model, version)}")
            return _sort_newest_first(await self._all(path, {"state": state}))
        names = {str(item["spec"]["modelName"]) async for item in self.objects("trainingjobs")}
        turns = asyncio.Semaphore(_AT_ONCE)

        async def of(name: str) -> Objects:
            async with turns:
                try:
                    return await self.jobs(name, state=state)
                except errors.NotFound:  # the model does not exist, or no longer does
                    return []

        return _sort_newest_first([item for found in await asyncio.gather(*map(of, sorted(names))) for item in found])

    async def find_job(self, id: str) -> JobRef:  # noqa: A002 - the plane's name for it
        """Find a job set by its id, which is unique in its namespace. This also finds a deleted one whose logs and
        checkpoints remain. Raises NotFound."""
        try:
            spec = (await self.get("trainingjobs", id))["spec"]
        except errors.NotFound:
            spec = await self._spec_of_gone(id)
        return JobRef(str(spec["modelName"]), str(spec.get("version") or ""), id)

    async def job(self, job: JobRef | str) -> dict[str, Any]:
        """Return its state, conditions, replicas, progress and outcome. Raises NotFound."""
        return await self._of_job("GET", job)

    async def stop_job(self, job: JobRef | str, *, wait: bool = True) -> dict[str, Any]:
        """Stop it; logs and checkpoints stay. A job that has ended is not changed. With `wait`, waits until it has
        ended."""
        return await self._of_job("DELETE", job, wait=wait or None, timeout=TIMEOUT if wait else None)

    async def suspend_job(self, job: JobRef | str) -> dict[str, Any]:
        """Stop all its replicas until it is resumed. Raises Conflict if it has ended."""
        return await self._of_job("POST", job, "/suspend")

    async def resume_job(self, job: JobRef | str) -> dict[str, Any]:
        """Resume its replicas from their checkpoints. Raises Conflict if it has ended."""
        return await self._of_job("POST", job, "/resume")

    async def checkpoints(self, job: JobRef | str) -> Objects:
        """List its retained checkpoints, newest first."""
        items: Objects = (await self.request("GET", f"{await self.job_path(job)}/checkpoint", params=self.within()))[
            "items"
        ]
        return items

    async def fetch_checkpoint(self, job: JobRef | str, checkpoint: str, folder: str | Path) -> Path:
        """Download a checkpoint into a folder, which is created. Raises NotFound; AlreadyExists if a file would be
        overwritten."""
        from mizzen.sdk.packaging import tar_extract

        path = await self._checkpoint_path(job, checkpoint)
        with _hint_checkpoints(job):
            async with self._control.stream(f"{path}/files", self.within(), idle=TIMEOUT) as response:
                return await tar_extract.extract(response.aiter_bytes(), Path(folder))

    async def trust_checkpoint(self, job: JobRef | str, checkpoint: str) -> dict[str, Any]:
        """Trust a checkpoint of another user's job: it may be unpickled, and so served. Needs `admin` on the model."""
        path = await self._checkpoint_path(job, checkpoint)
        with _hint_checkpoints(job):
            return await self.request("POST", f"{path}/trust", params=self.within())

    async def delete_checkpoint(self, job: JobRef | str, checkpoint: str) -> dict[str, Any]:
        """Raises Conflict while it is served."""
        path = await self._checkpoint_path(job, checkpoint)
        with _hint_checkpoints(job):
            return await self.request("DELETE", path, params=self.within())

    async def serve_job(self, job: JobRef | str, checkpoint: str | None = None, replicas: int = 1) -> str:
        """Serve its last checkpoint, or another one. Returns the name of the InferenceModel.

        Raises Conflict if it has no checkpoint.
        """
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        if checkpoint is None:
            found = await self.checkpoints(ref)
            if not found:
                raise errors.Conflict(
                    f"job {ref.id} has no checkpoint to serve",
                    hint=f"its code must save checkpoints in MIZZEN_CHECKPOINT_DIR; logs: 'mizzen train logs {ref.id}'",
                )
            checkpoint = str(found[0]["checkpoint_id"])
        return await self.serve(ref.model, ref.version, replicas, checkpoint=checkpoint)

    async def newest_version(self, model: str) -> str:
        """Return the version registered last. Raises NotFound if there is none."""
        hint = f"'mizzen train start {model} --code FOLDER' registers one and trains it"
        try:
            found = await self.versions(model)
        except errors.NotFound as error:
            raise errors.NotFound(error.message, hint=hint) from error
        if not found:
            raise errors.NotFound(f"model '{model}' has no version to train", hint=hint)
        return str(found[-1]["spec"]["version"])

    async def read_job_logs(self, job: JobRef | str, **query: Any) -> AsyncIterator[str]:
        """Yield one response of the log route, in chunks as they arrive; `query` holds its parameters."""
        path = f"{await self.job_path(job)}/logs"
        async with self._control.stream(path, {**query, **self.within()}) as response:
            async for piece in response.aiter_text():
                yield piece

    async def _spec_of_gone(self, id: str) -> Mapping[str, Any]:  # noqa: A002
        """Return the spec of a deleted job from its history."""
        try:
            last = (await self.revisions("TrainingJob", id))[-1]
        except errors.NotFound as error:
            raise errors.NotFound(
                f"there is no job '{id}'", hint="'mizzen train list --state all' lists all jobs"
            ) from error
        spec: Mapping[str, Any] = last.get("after") or last.get("before") or {}
        return spec

    async def _of_job(
        self,
        method: str,
        job: JobRef | str,
        below: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - passed on
        **params: Any,
    ) -> dict[str, Any]:
        """Call the route of a job whose object exists. Errors suggest commands of the CLI."""
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        path, query = f"{await self.job_path(ref)}{below}", {**params, **self.within()}
        try:
            return await self.request(method, path, params=query, timeout=timeout)
        except errors.Conflict as error:
            again = " ".join(filter(None, ("mizzen train start", ref.model, ref.version)))
            raise errors.Conflict(error.message, hint=f"'{again}' starts another one", faults=error.faults) from error
        except errors.NotFound as error:
            raise await self._explain_gone(ref) or error from error

    async def _explain_gone(self, ref: JobRef) -> errors.NotFound | None:
        """Return the error for a job whose object was deleted; None if it never existed."""
        try:
            await self._spec_of_gone(ref.id)
        except errors.MizzenError:
            return None
        return errors.NotFound(
            f"the record of job {ref.id} is gone: a user deleted it, or its time to live ended",
            hint=f"its logs and checkpoints remain: 'mizzen train logs {ref.id}', 'mizzen train checkpoints {ref.id}'",
        )

    async def _checkpoint_path(self, job: JobRef | str, checkpoint: str) -> str:
        if "/" in checkpoint or checkpoint in ("", ".", ".."):
            raise _checkpoint_error(job, f"'{checkpoint[:100]}' is not a valid checkpoint id")
        return f"{await self.job_path(job)}/checkpoint/{escape(checkpoint)}"

    async def job_path(self, job: JobRef | str) -> str:
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        return (
            f"{model_path(ref.model)}/train/{version_segment(ref.model, ref.version or UNVERSIONED)}/{escape(ref.id)}"
        )


@contextlib.contextmanager
def _hint_checkpoints(job: JobRef | str) -> Iterator[None]:
    """Add to a NotFound about a checkpoint how to list the existing ones."""
    try:
        yield
    except errors.NotFound as error:
        raise _checkpoint_error(job, error.message) from error


def _checkpoint_error(job: JobRef | str, message: str) -> errors.NotFound:
    named = job.id if isinstance(job, JobRef) else job
    return errors.NotFound(message, hint=f"'mizzen train checkpoints {named}' lists its checkpoints")


def _sort_newest_first(items: Objects) -> Objects:
    return sorted(items, key=lambda item: (str(item.get("createdAt") or ""), str(item["id"])), reverse=True)
