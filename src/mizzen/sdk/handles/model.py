"""Model: one model of a plane, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mizzen import errors
from mizzen.sdk.api.jobs import JobRef
from mizzen.sdk.connection import times
from mizzen.sdk.handles.job import Job
from mizzen.sdk.handles.monitor import Monitor
from mizzen.sdk.operations import deploy
from mizzen.sdk.operations import train as operations_train
from mizzen.sdk.packaging import references

if TYPE_CHECKING:
    from mizzen.sdk.packaging.requirements import Required
    from mizzen.sdk.packaging.tensors import Prediction
    from mizzen.sdk.sync import Plane


class Model:
    """One model of a plane, by name. It need not exist yet."""

    def __init__(self, plane: Plane, name: str) -> None:
        self.plane = plane
        self.name = name

    def __repr__(self) -> str:
        return f"<mizzen.Model {self.name}>"

    @property
    def versions(self) -> list[str]:
        """The versions registered, in the order they were made."""
        return [item["spec"]["version"] for item in self.plane.run(self.plane.calls.versions(self.name))]

    @property
    def current(self) -> str | None:
        """The version that answers to the model's name."""
        current = self.plane.get("models", self.name).get("status", {}).get("current") or {}
        return current.get("version")

    @property
    def aliases(self) -> dict[str, str]:
        """The version each alias stands for."""
        return dict(self.plane.get("models", self.name)["spec"].get("aliases") or {})

    @property
    def labels(self) -> dict[str, str]:
        """What it can be selected by."""
        return dict(self.plane.get("models", self.name)["metadata"].get("labels") or {})

    def create(self, framework: str | None = None, labels: Mapping[str, str] | None = None) -> Model:
        """Make it, without versions. AlreadyExists."""
        self.plane.run(self.plane.calls.create_model(self.name, framework=framework, labels=labels))
        return self

    def describe(self) -> dict[str, Any]:
        """With versions, aliases, servers, and who changed it last."""
        return self.plane.run(self.plane.calls.describe_model(self.name))

    def delete(self, *, cascade: bool = False, wait: bool = True) -> None:
        """With its versions; with `cascade`, end what serves them first. Conflict, saying what is in the way."""
        self.plane.run(self.plane.calls.delete_model(self.name, cascade=cascade, wait=wait))

    def predict(
        self,
        inputs: Any,
        *,
        version: str | int | None = None,
        alias: str | None = None,
        outputs: Sequence[str] | None = None,
        timeout_ms: int | None = None,
    ) -> Prediction:
        """Ask the current version, or the one that is named; see `Plane.predict`."""
        name = references.written(self.name, version, alias)
        return self.plane.predict(name, inputs, outputs=outputs, timeout_ms=timeout_ms)

    def add_version(
        self,
        source: Any = None,
        *,
        git: str | Mapping[str, str] | None = None,
        url: str | None = None,
        sha256: str | None = None,
        version: str | int | None = None,
        framework: str | None = None,
        entrypoint: str | None = None,
        requirements: Required | None = None,
        python: str | None = None,
        labels: Mapping[str, str] | None = None,
        training: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> str:
        """Register files, a git revision or a URL as the next version, or as the one named. The version.

        `git` is {"repo", "ref", "path"} or `<url>[@ref][#path]`; `url` needs `sha256`. `requirements`: packages as
        for pip, or a file of them; `python`: such as 3.12. `training`: it is code to be trained, and what is loaded to
        serve it is still to be made.
        """
        added = self.plane.calls.add_version(
            self.name,
            source,
            git=git,
            url=url,
            sha256=sha256,
            version=version,
            framework=framework,
            entrypoint=entrypoint,
            requirements=requirements,
            python=python,
            labels=labels,
            training=training,
            progress=progress,
        )
        return str(self.plane.run(added)["version"])

    def trust_version(self, version: str | int) -> None:
        """Vouch for a version that somebody else brought: its code and pickles may run."""
        self.plane.run(self.plane.calls.trust_version(self.name, version))

    def delete_version(self, version: str | int) -> None:
        """Conflict while it is served, current or has an alias."""
        self.plane.run(self.plane.calls.delete_version(self.name, version))

    def train(
        self,
        version: str | int | None = None,
        command: Sequence[str] | str | None = None,
        params: Mapping[str, Any] | None = None,
        dataset: Mapping[str, Any] | str | Path | None = None,
        *,
        code: str | Path | None = None,
        replicas: int | Mapping[str, Any] | None = None,
        env: Mapping[str, Any] | None = None,
        restart: str | None = None,
        deadline: float | str | None = None,
        cpu: float | str | None = None,
        memory: str | None = None,
        gpu: float | None = None,
        priority: int | None = None,
        keep: int | None = None,
        framework: str | None = None,
        spec: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Job:
        """Train a version, the newest unless it is named; with `code`, a folder that becomes the next one first.

        `command`: what is run in it, `python train.py` unless said. `dataset`: `s3://bucket/prefix`, an http(s) address
        or a path. `replicas`: so many workers, or {"Chief": 1, "Worker": 2}. `restart`: Never, OnFailure, Always or
        ExitCode. `deadline`: seconds, or `2h`. `keep`: so many checkpoints. `spec`: any other field of a TrainingJob.
        `key`: calls with the same one start one job within a day. NotFound, Invalid.
        """
        wanted = operations_train.spec_of(
            command=command,
            params=params,
            dataset=dataset,
            replicas=replicas,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            priority=priority,
            restart=restart,
            deadline=deadline,
            keep=keep,
            env=env,
            framework=None if code is not None else framework,
            more=spec,
        )

        async def started() -> JobRef:
            calls, chosen = self.plane.calls, version
            if code is not None:
                if version is not None:
                    raise errors.Invalid("code becomes the next version: give it or a version, not both")
                operations_train.refuse_unstartable(self.name, Path(code), wanted)
                made = await deploy.register_code(calls, self.name, Path(code), framework=framework)
                chosen = str(made["version"])
            chosen = await calls.newest_version(self.name) if chosen is None else str(chosen)
            job = await calls.start_job(self.name, chosen, wanted, key=key)
            return JobRef(self.name, chosen, str(job["id"]))

        return Job(self.plane, self.plane.run(started()))

    def monitor(self, tool: str | None = None) -> Monitor:
        """Its monitor, which is started when there is none, once it answers. `tool`: tensorboard or scalars."""

        async def watched() -> None:
            await self.plane.calls.start_monitor(self.name, tool)
            await self.plane.calls.wait_monitor(self.name)

        self.plane.run(watched())
        return Monitor(self.plane, self.name)

    def serve(self, version: str | int, replicas: int = 1, *, checkpoint: str | None = None) -> str:
        """Serve one more version and wait until it is ready: what was trained of it last, or the checkpoint with this
        id; its own files when it was never trained. The name of its server."""

        async def served() -> str:
            server = await self.plane.calls.serve(self.name, str(version), replicas, checkpoint=checkpoint)
            await self.plane.calls.wait_ready(server)
            return server

        return self.plane.run(served())

    def promote(self, version: str | int) -> None:
        """Make a version the one that answers to the model's name."""
        self.plane.run(self.plane.calls.promote(self.name, version))

    def rollback(self, version: str | int | None = None) -> str:
        """Make the version current that was so before, or another; it is served first if it is not. The version."""
        return self.plane.run(self.plane.calls.rollback(self.name, version))

    def alias(self, alias: str, version: str | int | None) -> None:
        """Let an alias stand for a version; None removes it."""
        calls = self.plane.calls
        self.plane.run(
            calls.delete_alias(self.name, alias) if version is None else calls.alias(self.name, alias, version)
        )

    def history(self, at: str | datetime | None = None) -> list[dict[str, Any]]:
        """Who did what to the model and what belongs to it, oldest first; with `at` (a time, or `10m`), until then."""
        entries = self.plane.run(self.plane.calls.history(self.name))
        if at is None:
            return entries
        until = _time(at)
        return [entry for entry in entries if datetime.fromisoformat(entry["time"]) <= until]

    def as_of(self, at: str | datetime) -> dict[str, Any]:
        """What the model looked like then: its spec, current version and versions. NotFound."""
        return self.plane.run(self.plane.calls.as_of(self.name, _time(at).isoformat()))

    def permit(self, principal: str, *verbs: str, alias: str | None = None) -> list[str]:
        """Let somebody read, predict, write or admin this model, or one alias of it. The verbs they have now."""
        return self.plane.permit(principal, *verbs, target=f"{self.name}@{alias}" if alias else self.name)

    def forbid(self, principal: str, *verbs: str, alias: str | None = None) -> list[str]:
        """Take back what `permit` gave. The verbs that are left."""
        return self.plane.forbid(principal, *verbs, target=f"{self.name}@{alias}" if alias else self.name)


def _time(at: str | datetime) -> datetime:
    """Without a zone, local time. Invalid."""
    try:
        return times.parse(at) if isinstance(at, str) else at.astimezone(UTC)
    except ValueError as error:
        raise errors.Invalid(str(error)) from error
