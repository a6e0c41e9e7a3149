"""Job sets in the words of the /model API: starting them, looking at them, and what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.sdk.api.models import Objects, Registry, _model, _version
from mizzen.sdk.api.session import escaped

if TYPE_CHECKING:
    from mizzen.sdk.operations.train import Look

UNVERSIONED: Final = "unversioned"
"""In paths, of a job that runs a command and no version."""
TIMEOUT: Final = 120.0
"""Seconds for the processes of a job set to end."""
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class JobRef:
    """Where a job set is found."""

    model: str
    version: str
    """Empty when it has none."""
    id: str


class Jobs(Registry):
    async def start_job(
        self, model: str, version: str | int, spec: Mapping[str, Any], *, key: str | None = None
    ) -> dict[str, Any]:
        """Train a version of a model; `spec` holds fields of a TrainingJob. The job set, as the plane tells it.

        Each call starts one, and only one: it is sent again when its answer is lost. With a `key` of your own, calls
        with the same key start one within a day.
        """
        headers = {"idempotency-key": key or uuid.uuid4().hex}
        path = f"{_model(model)}/train/{_version(model, version)}"
        return await self.request("POST", path, body=dict(spec), params=self.within(), headers=headers, repeatable=True)

    async def jobs(
        self, model: str | None = None, version: str | int | None = None, *, state: str | None = None
    ) -> Objects:
        """Job sets that go on or wait, newest first: of a model, of one version of it, or all. `state`: all,
        ongoing, succeeded or failed."""
        if model is not None:
            path = f"{_model(model)}/train" + ("" if version is None else f"/{_version(model, version)}")
            return _newest_first(await self._all(path, {"state": state}))
        names = {str(item["spec"]["modelName"]) async for item in self.objects("trainingjobs")}
        turns = asyncio.Semaphore(_AT_ONCE)

        async def of(name: str) -> Objects:
            async with turns:
                try:
                    return await self.jobs(name, state=state)
                except errors.NotFound:  # jobs of a model that is not there, or is no longer
                    return []

        return _newest_first([item for found in await asyncio.gather(*map(of, sorted(names))) for item in found])

    async def find_job(self, id: str) -> JobRef:  # noqa: A002 - what the plane calls it
        """The job set with this id: it is the only one in its namespace. Also one whose object is gone, and whose logs
        and checkpoints are there. NotFound."""
        try:
            spec = (await self.get("trainingjobs", id))["spec"]
        except errors.NotFound:
            spec = await self._spec_of_gone(id)
        return JobRef(str(spec["modelName"]), str(spec.get("version") or ""), id)

    async def job(self, job: JobRef | str) -> dict[str, Any]:
        """How it is doing: state, conditions, replicas, progress, and what came of it. NotFound."""
        return await self._of_job("GET", job)

    async def wait_job(
        self,
        job: JobRef | str,
        timeout: float | None = None,  # noqa: ASYNC109 - the caller's word
        look: Look | None = None,
    ) -> dict[str, Any]:
        """The job set, once it has succeeded. `look` is told how it is doing, each time it is asked.

        TrainingFailed, with the reason and what it printed last; DeadlineExceeded.
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
        """What its replicas printed, in order, in pieces of whole lines that begin with `[replica]`.

        With `follow`, until it has ended, and from the beginning also through restarts of the plane. `since`: an ISO
        time, or so long ago: `10m`.
        """
        from mizzen.sdk.operations import follow_logs

        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        path = f"{await self.job_path(ref)}/logs"
        asked = {"tail": tail, "since": since, "replica": replica, **self.within()}
        if follow:
            whole = tail is None and since is None
            pieces = follow_logs.followed(self, ref, lambda: self._pieces(path, {**asked, "follow": True}), whole=whole)
        else:
            pieces = self._pieces(path, asked)
        async for piece in pieces:
            yield piece

    async def stop_job(self, job: JobRef | str, *, wait: bool = True) -> dict[str, Any]:
        """End it; logs and checkpoints stay. One that has ended stays as it is. With `wait`, until it has ended."""
        return await self._of_job("DELETE", job, wait=wait or None, timeout=TIMEOUT if wait else None)

    async def suspend_job(self, job: JobRef | str) -> dict[str, Any]:
        """Stop all its replicas until it is resumed. Conflict when it has ended."""
        return await self._of_job("POST", job, "/suspend")

    async def resume_job(self, job: JobRef | str) -> dict[str, Any]:
        """Let its replicas go on from what they saved. Conflict when it has ended."""
        return await self._of_job("POST", job, "/resume")

    async def checkpoints(self, job: JobRef | str) -> Objects:
        """What it saved and is kept, newest first."""
        items: Objects = (await self.request("GET", f"{await self.job_path(job)}/checkpoint", params=self.within()))[
            "items"
        ]
        return items

    async def fetch_checkpoint(self, job: JobRef | str, checkpoint: str, folder: str | Path) -> Path:
        """Put the files of a checkpoint into a folder, which is made. NotFound; AlreadyExists for a file in the way."""
        from mizzen.sdk.packaging import tar_extract

        path = await self._checkpoint_path(job, checkpoint)
        with _listed_by(job):
            async with self._control.stream(f"{path}/files", self.within(), idle=TIMEOUT) as response:
                return await tar_extract.unpacked(response.aiter_bytes(), Path(folder))

    async def trust_checkpoint(self, job: JobRef | str, checkpoint: str) -> dict[str, Any]:
        """Vouch for a checkpoint of a job that somebody else started: it may be unpickled, and so served. Needs
        `admin` on the model."""
        path = await self._checkpoint_path(job, checkpoint)
        with _listed_by(job):
            return await self.request("POST", f"{path}/trust", params=self.within())

    async def delete_checkpoint(self, job: JobRef | str, checkpoint: str) -> dict[str, Any]:
        """Conflict while it is served."""
        path = await self._checkpoint_path(job, checkpoint)
        with _listed_by(job):
            return await self.request("DELETE", path, params=self.within())

    async def serve_job(self, job: JobRef | str, checkpoint: str | None = None, replicas: int = 1) -> str:
        """Serve what it saved last, or another checkpoint of it. The name of the InferenceModel that does.

        Conflict when it has saved nothing.
        """
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        if checkpoint is None:
            found = await self.checkpoints(ref)
            if not found:
                raise errors.Conflict(
                    f"job {ref.id} has saved no checkpoint that could be served",
                    hint=f"what it is to save goes into MIZZEN_CHECKPOINT_DIR; logs: 'mizzen train logs {ref.id}'",
                )
            checkpoint = str(found[0]["checkpoint_id"])
        return await self.serve(ref.model, ref.version, replicas, checkpoint=checkpoint)

    async def newest_version(self, model: str) -> str:
        """The version that was registered last. NotFound when there is none."""
        hint = f"'mizzen train start {model} --code FOLDER' registers one and trains it"
        try:
            found = await self.versions(model)
        except errors.NotFound as error:
            raise errors.NotFound(error.message, hint=hint) from error
        if not found:
            raise errors.NotFound(f"model '{model}' has no version to train", hint=hint)
        return str(found[-1]["spec"]["version"])

    async def _pieces(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[str]:
        async with self._control.stream(path, params) as response:
            async for piece in response.aiter_text():
                yield piece

    async def _spec_of_gone(self, id: str) -> Mapping[str, Any]:  # noqa: A002
        """As history tells."""
        try:
            last = (await self.revisions("TrainingJob", id))[-1]
        except errors.NotFound as error:
            raise errors.NotFound(
                f"there is no job '{id}'", hint="'mizzen train list --state all' lists what there is"
            ) from error
        spec: Mapping[str, Any] = last.get("after") or last.get("before") or {}
        return spec

    async def _of_job(
        self,
        method: str,
        job: JobRef | str,
        below: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - handed on
        **params: Any,
    ) -> dict[str, Any]:
        """What the plane says of one whose object is there. Errors say what to do in words of the command line."""
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        path, asked = f"{await self.job_path(ref)}{below}", {**params, **self.within()}
        try:
            return await self.request(method, path, params=asked, timeout=timeout)
        except errors.Conflict as error:
            again = " ".join(filter(None, ("mizzen train start", ref.model, ref.version)))
            raise errors.Conflict(error.message, hint=f"'{again}' starts another one", faults=error.faults) from error
        except errors.NotFound as error:
            raise await self._gone(ref) or error from error

    async def _gone(self, ref: JobRef) -> errors.NotFound | None:
        """What to say of one that was there, and of which only the object is gone."""
        try:
            await self._spec_of_gone(ref.id)
        except errors.MizzenError:
            return None
        return errors.NotFound(
            f"the record of job {ref.id} is gone: somebody deleted it, or its time was over after it had ended",
            hint=f"what it left is there: 'mizzen train logs {ref.id}', 'mizzen train checkpoints {ref.id}'",
        )

    async def _checkpoint_path(self, job: JobRef | str, checkpoint: str) -> str:
        if "/" in checkpoint or checkpoint in ("", ".", ".."):
            raise _no_checkpoint(job, f"'{checkpoint[:100]}' is no id of a checkpoint")
        return f"{await self.job_path(job)}/checkpoint/{escaped(checkpoint)}"

    async def job_path(self, job: JobRef | str) -> str:
        ref = job if isinstance(job, JobRef) else await self.find_job(job)
        return f"{_model(ref.model)}/train/{_version(ref.model, ref.version or UNVERSIONED)}/{escaped(ref.id)}"


@contextlib.contextmanager
def _listed_by(job: JobRef | str) -> Iterator[None]:
    """Whoever named a checkpoint that is not there is told how to list those that are."""
    try:
        yield
    except errors.NotFound as error:
        raise _no_checkpoint(job, error.message) from error


def _no_checkpoint(job: JobRef | str, message: str) -> errors.NotFound:
    named = job.id if isinstance(job, JobRef) else job
    return errors.NotFound(message, hint=f"'mizzen train checkpoints {named}' lists those it has")


def _newest_first(items: Objects) -> Objects:
    return sorted(items, key=lambda item: (str(item.get("createdAt") or ""), str(item["id"])), reverse=True)
