"""Model: one model of a plane, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mizzen import errors
from mizzen.sdk.api.jobs import JobRef
from mizzen.sdk.connection import times
from mizzen.sdk.handles.job import Job
from mizzen.sdk.handles.monitor import Monitor
from mizzen.sdk.keywords import JobKeywords, VersionKeywords, takes
from mizzen.sdk.operations import deploy
from mizzen.sdk.operations import train as operations_train
from mizzen.sdk.packaging import references

if TYPE_CHECKING:
    from mizzen.sdk.handles.plane_protocol import SynchronousPlane
    from mizzen.sdk.packaging.tensors import Prediction


class Model:
    """One model of a plane, by name. It need not exist yet."""

    def __init__(self, plane: SynchronousPlane, name: str) -> None:
        self.plane = plane
        self.name = name

    def __repr__(self) -> str:
        return f"<mizzen.Model {self.name}>"

    @property
    def versions(self) -> list[str]:
        """The registered versions, in the order of registration."""
        return [item["spec"]["version"] for item in self.plane.run(self.plane.calls.versions(self.name))]

    @property
    def current(self) -> str | None:
        """The version that serves requests to the model's name."""
        current = self._resource().get("status", {}).get("current") or {}
        return current.get("version")

    @property
    def aliases(self) -> dict[str, str]:
        """A map from each alias to its version."""
        return dict(self._resource()["spec"].get("aliases") or {})

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, by which it can be selected."""
        return dict(self._resource()["metadata"].get("labels") or {})

    def create(self, framework: str | None = None, labels: Mapping[str, str] | None = None) -> Model:
        """Create the model, without versions. Raises AlreadyExists."""
        self.plane.run(self.plane.calls.create_model(self.name, framework=framework, labels=labels))
        return self

    def describe(self) -> dict[str, Any]:
        """Return the model with its versions, aliases, servers, and the author of its last change."""
        return self.plane.run(self.plane.calls.describe_model(self.name))

    def delete(self, *, cascade: bool = False, wait: bool = True) -> None:
        """Delete the model with its versions; `cascade` first stops their servers. Raises Conflict, which names the
        obstacles."""
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
        """Call the current version, or the one that is named; see `Plane.predict`."""
        name = references.format_reference(self.name, version, alias)
        return self.plane.predict(name, inputs, outputs=outputs, timeout_ms=timeout_ms)

    @takes(VersionKeywords)
    def add_version(self, source: Any = None, **options: Unpack[VersionKeywords]) -> str:
        """Register files, a git revision or a URL as the next version, or as `version`. Returns the version.

        `git` is {"repo", "ref", "path"} or `<url>[@ref][#path]`; `url` needs `sha256`. `requirements`: packages as for
        pip, or a file of them; `python`: such as 3.12. `training`: this is code to train; the files to serve do not
        exist yet.
        """
        return str(self.plane.run(self.plane.calls.add_version(self.name, source, **options))["version"])

    def trust_version(self, version: str | int) -> None:
        """Trust a version that another user registered: its code and pickles may run."""
        self.plane.run(self.plane.calls.trust_version(self.name, version))

    def delete_version(self, version: str | int) -> None:
        """Delete a version. Raises Conflict while it is served, is current or has an alias."""
        self.plane.run(self.plane.calls.delete_version(self.name, version))

    @takes(JobKeywords)
    def train(
        self,
        version: str | int | None = None,
        command: Sequence[str] | str | None = None,
        params: Mapping[str, Any] | None = None,
        dataset: Mapping[str, Any] | str | Path | None = None,
        *,
        code: str | Path | None = None,
        framework: str | None = None,
        spec: Mapping[str, Any] | None = None,
        key: str | None = None,
        **options: Unpack[JobKeywords],
    ) -> Job:
        """Train a version, by default the newest; with `code`, first register that folder as the next version.

        `command`: the command to run, by default `python train.py`. `dataset`: `s3://bucket/prefix`, an http(s) address
        or a path. `replicas`: a number of workers, or {"Chief": 1, "Worker": 2}. `restart`: Never, OnFailure, Always or
        ExitCode. `deadline`: seconds, or `2h`. `keep`: the number of checkpoints to keep. `spec`: any other fields of a
        TrainingJob. `key`: calls with the same key within a day start only one job. Raises NotFound, Invalid.
        """
        of_job = None if code is not None else framework
        wanted = operations_train.spec_of(
            command=command, params=params, dataset=dataset, framework=of_job, more=spec, **options
        )

        async def start_job() -> JobRef:
            calls, chosen = self.plane.calls, version
            if code is not None:
                if version is not None:
                    raise errors.Invalid("code is registered as the next version: give code or a version, not both")
                operations_train.refuse_unstartable(self.name, Path(code), wanted)
                made = await deploy.register_code(calls, self.name, Path(code), framework=framework)
                chosen = str(made["version"])
            chosen = await calls.newest_version(self.name) if chosen is None else str(chosen)
            job = await calls.start_job(self.name, chosen, wanted, key=key)
            return JobRef(self.name, chosen, str(job["id"]))

        return Job(self.plane, self.plane.run(start_job()))

    def monitor(self, tool: str | None = None) -> Monitor:
        """Return the model's monitor once it responds; start one if there is none. `tool`: tensorboard or scalars."""
        self.plane.run(self.plane.calls.start_monitor(self.name, tool))
        self.plane.run(self.plane.calls.wait_monitor(self.name))
        return Monitor(self.plane, self.name)

    def serve(self, version: str | int, replicas: int = 1, *, checkpoint: str | None = None) -> str:
        """Serve one more version, wait until it is ready, and return the server's name. By default the server loads
        the version's last trained checkpoint, or its own files if it was never trained. `checkpoint` picks one by
        its id."""
        server = self.plane.run(self.plane.calls.serve(self.name, str(version), replicas, checkpoint=checkpoint))
        self.plane.run(self.plane.calls.wait_ready(server))
        return server

    def promote(self, version: str | int) -> None:
        """Make a version the one that serves requests to the model's name."""
        self.plane.run(self.plane.calls.promote(self.name, version))

    def rollback(self, version: str | int | None = None) -> str:
        """Make the previous version current again, or the given one, and return it. It is served first if it is not
        yet."""
        return self.plane.run(self.plane.calls.rollback(self.name, version))

    def alias(self, alias: str, version: str | int | None) -> None:
        """Point an alias at a version; None removes the alias."""
        calls = self.plane.calls
        self.plane.run(
            calls.delete_alias(self.name, alias) if version is None else calls.alias(self.name, alias, version)
        )

    def history(self, at: str | datetime | None = None) -> list[dict[str, Any]]:
        """List the changes to the model and its objects, oldest first; with `at` (a time, or `10m`), only those up to
        then."""
        entries = self.plane.run(self.plane.calls.history(self.name))
        if at is None:
            return entries
        until = _parse_time(at)
        return [entry for entry in entries if datetime.fromisoformat(entry["time"]) <= until]

    def as_of(self, at: str | datetime) -> dict[str, Any]:
        """Return the model as of a time: its spec, current version and versions. Raises NotFound."""
        return self.plane.run(self.plane.calls.as_of(self.name, _parse_time(at).isoformat()))

    def permit(self, principal: str, *verbs: str, alias: str | None = None) -> list[str]:
        """Let a principal read, predict, write or admin this model, or one alias of it. Returns its verbs."""
        return self.plane.run(self.plane.calls.permit(principal, *verbs, target=self._target(alias)))

    def forbid(self, principal: str, *verbs: str, alias: str | None = None) -> list[str]:
        """Revoke permissions that `permit` granted. Returns the remaining verbs."""
        return self.plane.run(self.plane.calls.forbid(principal, *verbs, target=self._target(alias)))

    def _resource(self) -> dict[str, Any]:
        return self.plane.run(self.plane.calls.get("models", self.name))

    def _target(self, alias: str | None) -> str:
        return f"{self.name}@{alias}" if alias else self.name


def _parse_time(at: str | datetime) -> datetime:
    """Times without a zone are local. Raises Invalid."""
    try:
        return times.parse(at) if isinstance(at, str) else at.astimezone(UTC)
    except ValueError as error:
        raise errors.Invalid(str(error)) from error
