"""The /model API: models, their versions and aliases, what serves them, and their history."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.sdk.api.logs_and_usage import Looking
from mizzen.sdk.api.predictions import Predictions
from mizzen.sdk.api.resources import Selection, _selector, plural
from mizzen.sdk.api.session import escaped
from mizzen.sdk.operations import deploy as operations_deploy
from mizzen.sdk.operations import rollback as operations_rollback
from mizzen.sdk.packaging import requirements as packaging_requirements

if TYPE_CHECKING:
    from mizzen.sdk.operations.compare import Comparison
    from mizzen.sdk.operations.rollback import Undone
    from mizzen.sdk.packaging.requirements import Required

Objects = builtins.list[dict[str, Any]]
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Registry(Looking, Predictions):
    async def create_model(
        self, name: str, *, framework: str | None = None, labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Make a model without versions. AlreadyExists."""
        body = {"name": name, "framework": framework, "labels": dict(labels) if labels else None}
        given = {key: value for key, value in body.items() if value is not None}
        return await self.request("POST", "/model", body=given, params=self.within())

    async def models(self, labels: Selection = None) -> Objects:
        """All models, as objects of the resource API."""
        items: Objects = (await self.list("models", labels=labels))["items"]
        return items

    async def list_models(self, labels: Selection = None) -> Objects:
        """All models in the words of the /model API."""
        return await self._all("/model", {"labelSelector": _selector(labels)})

    async def describe_model(self, name: str) -> dict[str, Any]:
        """With its versions, aliases, servers, and who changed it last."""
        return await self.request("GET", _model(name), params=self.within())

    async def remove(
        self, kind: str, name: str, *, cascade: bool = False, wait: bool = True, namespace: str | None = None
    ) -> None:
        """Delete an object of any kind, a model as `delete_model` does, and wait until its processes have ended."""
        if plural(kind) == "models":
            await self.delete_model(name, cascade=cascade, wait=wait, namespace=namespace)
            return
        if cascade:
            raise errors.Invalid(f"cascade is for a model, not for a {kind}")
        await self.delete(kind, name, namespace=namespace)
        if wait:
            await operations_deploy.wait_gone(self, kind, [name], namespace=namespace)

    async def delete_model(
        self, name: str, *, cascade: bool = False, wait: bool = True, namespace: str | None = None
    ) -> dict[str, Any]:
        """Delete a model with its versions; with `cascade`, end what serves them first. Conflict, saying what is in
        the way. Without `wait` it returns when the model is marked; nobody can use it any more from then on."""
        params = {"cascade": cascade or None, "wait": wait or None, **self.within(namespace)}
        return await self.request(
            "DELETE", _model(name), params=params, timeout=operations_deploy.TIMEOUT if wait else None
        )

    async def versions(self, model: str) -> Objects:
        """The ModelVersions of a model, in the order they were made."""
        await self.get("models", named(model))
        found = self.objects("modelversions", fields={"spec.modelName": model})
        items = [item async for item in found]
        return sorted(items, key=lambda item: (item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]))

    async def list_versions(self, model: str) -> Objects:
        """The versions in the words of the /model API: numbers in order, then names."""
        return sorted(await self._all(f"{_model(model)}/version", {}), key=_version_order)

    async def describe_version(self, model: str, version: str | int) -> dict[str, Any]:
        """One version: its files, who made it, and whether code or data changed since the one before. NotFound."""
        return await self.request("GET", f"{_model(model)}/version/{_version(model, version)}", params=self.within())

    async def add_version(
        self,
        model: str,
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
    ) -> dict[str, Any]:
        """Register the next version of a model, or the one named; `upload` says which sources it takes.

        In place of `source`: `git`, {"repo", "ref", "path"} or `<url>[@ref][#path]`; or `url` with `sha256`.
        `training`: it is code to be trained, and need not say what is loaded to serve it.
        """
        from mizzen.sdk.packaging import upload

        return await upload.add_version(
            self,
            named(model),
            upload.sourced(source, git, url, sha256),
            version=None if version is None else str(version),
            framework=framework,
            entrypoint=entrypoint,
            requirements=requirements,
            python=python,
            labels=labels,
            training=training,
            progress=progress,
        )

    async def trust_version(self, model: str, version: str | int) -> dict[str, Any]:
        """Vouch for a version that somebody else brought: what is in it may run. Needs `admin` on the model."""
        path = f"{_model(model)}/version/{_version(model, version)}/trust"
        return await self.request("POST", path, params=self.within())

    async def delete_version(self, model: str, version: str | int) -> dict[str, Any]:
        """Conflict while it is served, current or has an alias."""
        return await self.request("DELETE", f"{_model(model)}/version/{_version(model, version)}", params=self.within())

    async def alias(self, model: str, alias: str, version: str | int, *, force: bool = False) -> dict[str, Any]:
        """Let an alias stand for a version, from now on. Conflict when its callers could not call that one, unless
        `force`."""
        path, body = f"{_model(model)}/alias/{escaped(alias)}", _forced({"version": str(version)}, force)
        return await self.request("PUT", path, body=body, params=self.within())

    async def delete_alias(self, model: str, alias: str) -> dict[str, Any]:
        """Remove an alias; the version stays. NotFound."""
        return await self.request("DELETE", f"{_model(model)}/alias/{escaped(alias)}", params=self.within())

    async def deploy(
        self,
        name: str,
        path: str | Path,
        *,
        framework: str | None = None,
        entrypoint: str | None = None,
        requirements: Required | None = None,
        python: str | None = None,
        promote: bool = True,
        wait: bool = True,
        timeout: float = operations_deploy.TIMEOUT,  # noqa: ASYNC109 - the caller's word
        progress: operations_deploy.Progress = operations_deploy.silent,
    ) -> operations_deploy.Deployment:
        """Register the file or folder at `path` as the next version of `name`, serve it, wait, make it current.

        With `requirements` (packages as for pip, or a file of them; default: a requirements.txt in the folder) or
        `python` (such as 3.12) it runs in an environment of its own. Without `wait` it returns when the version is on
        its way, and does not promote it. ModelFailed when the model cannot be loaded: its server is removed again, the
        version stays.
        """
        registered = await operations_deploy.register(
            self,
            name,
            Path(path),
            framework=framework,
            entrypoint=entrypoint,
            requirements=requirements,
            python=python,
        )
        version = str(registered["version"])
        progress(f"registered version {version}{packaging_requirements.told(registered)}")
        server = await self.serve(name, version)
        url = await self.inference_url(name if promote else server)
        begun = operations_deploy.Deployment(name, version, server, url)
        if wait:
            await self.finish(begun, promote=promote, timeout=timeout, progress=progress)
        return begun

    async def finish(
        self,
        begun: operations_deploy.Deployment,
        *,
        promote: bool = True,
        timeout: float = operations_deploy.TIMEOUT,  # noqa: ASYNC109
        progress: operations_deploy.Progress = operations_deploy.silent,
    ) -> None:
        """The second half of `deploy`, for one that did not wait."""
        progress("starting")
        await operations_deploy.wait_loaded(self, begun.server, timeout, progress=progress)
        progress("ready")
        if promote:
            await self.promote(begun.model, begun.version)
            progress("current")
        await operations_deploy.wait_answering(
            self, begun.model, begun.version, begun.server, current=promote, seconds=timeout
        )

    async def serve(self, model: str, version: str | int, replicas: int = 1, *, checkpoint: str | None = None) -> str:
        """Serve one more version of a model: what was trained of it last, or its own files when it never was. The name
        of the InferenceModel that does. `checkpoint`: this one, by its id. NotFound; Conflict when there is nothing."""
        path = f"{_model(model)}/serve/{_version(model, version)}"
        body = {"replicas": replicas, **({"checkpoint_id": checkpoint} if checkpoint else {})}
        answer = await self.request("POST", path, body=body, params=self.within())
        return str(answer["id"])

    async def promote(self, model: str, version: str | int, *, force: bool = False) -> None:
        """Make a version the one that answers to the model's name. Conflict when its callers could not call that one,
        unless `force`."""
        body = _forced({"version": str(version)}, force)
        await self.request("POST", f"{_model(model)}/current", body=body, params=self.within())

    async def rollback(self, model: str, version: str | int | None = None, *, force: bool = False) -> str:
        """Make the version current that was so before, or any other; it is served first if it is not. The version."""
        return await operations_rollback.roll_back_model(
            self, model, None if version is None else str(version), force=force
        )

    async def restore(self, kind: str, name: str, number: int | None = None) -> Undone:
        """Give an object of any kind the spec of an earlier revision; default: the last that differs from the present.

        NotFound, Conflict. A Model keeps its current version: `rollback` moves that.
        """
        return await operations_rollback.restore(self, kind, name, number)

    async def compare(self, before: str, after: str) -> Comparison:
        """How two versions differ, each `model:version`, `model@alias`, or `model` for its current version.

        NotFound, Invalid.
        """
        from mizzen.sdk.operations import compare as operations_compare

        return await operations_compare.compare(self, before, after)

    async def undeploy(self, model: str, version: str | None = None, *, force: bool = False) -> builtins.list[str]:
        """Stop serving a model, or one version of it, and wait until that has ended. The names of the servers ended.

        Conflict when that version is current while others are served, unless `force`.
        """
        return await operations_deploy.undeploy(self, model, version, force=force)

    async def scale(
        self,
        name: str,
        replicas: int,
        *,
        wait: bool = True,
        timeout: float = operations_deploy.TIMEOUT,  # noqa: ASYNC109
    ) -> str:
        """Let so many processes answer: of an InferenceModel, or of what serves a model's current version. Its name.

        With `wait`, until it is so. NotFound; ModelFailed when they cannot be started, DeadlineExceeded.
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
        timeout: float = operations_deploy.TIMEOUT,  # noqa: ASYNC109
    ) -> str:
        """Let the number of processes follow the load, within limits: fields of `spec.autoScale`, such as
        {"minReplicas": 0, "maxReplicas": 3}; those that are not given stay as they are. None: let `replicas` say it."""
        from mizzen.sdk.operations import scale as operations_scale

        return await operations_scale.autoscale(self, name, limits, replicas=replicas, wait=wait, seconds=timeout)

    async def wait_ready(
        self,
        server: str,
        timeout: float = operations_deploy.TIMEOUT,  # noqa: ASYNC109
        progress: operations_deploy.Progress = operations_deploy.silent,
    ) -> None:
        """Until an InferenceModel is ready. ModelFailed when it cannot become so, DeadlineExceeded."""
        await operations_deploy.wait_loaded(self, server, timeout, keep=True, progress=progress)

    async def history(self, model: str) -> Objects:
        """Who did what to a model and what belongs to it, oldest first."""
        return await self._all(f"{_model(model)}/history", {})

    async def as_of(self, model: str, at: str) -> dict[str, Any]:
        """What a model looked like at an ISO time: its spec, current version and versions. NotFound."""
        return await self.request("GET", f"{_model(model)}/history", params={"at": at, **self.within()})

    async def _all(self, path: str, params: Mapping[str, Any]) -> Objects:
        """The items of all pages."""
        items: Objects = []
        token = None
        while True:
            answer = await self.request("GET", path, params={**params, **self.within(), "continue": token})
            items += answer["items"]
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return items


def _version_order(version: Mapping[str, Any]) -> tuple[int, str]:
    """Each page is in order; all of them together are not. Numbers have no leading zeros: the longer is the larger."""
    text = str(version["version"])
    return (len(text), text) if text.isdecimal() else (1_000_000, text)


def named(name: str) -> str:
    """The name of a model. Invalid when it can be none: then it is no use to ask whether it is there."""
    if not _NAME.fullmatch(name):
        raise errors.Invalid(
            f"'{name[:100]}' is no name of a model", hint="lower-case letters, digits and '-', at most 63"
        )
    return name


def _forced(body: dict[str, Any], force: bool) -> dict[str, Any]:
    return {**body, "force": True} if force else body


def _model(name: str) -> str:
    return f"/model/{escaped(named(name))}"


def _version(model: str, version: str | int) -> str:
    """A version as one segment of a path. NotFound for what would be several, or none: it can name no version."""
    text = str(version)
    if "/" in text or text in ("", ".", ".."):
        raise errors.NotFound(
            f"model '{model}' has no such version: '{text[:100]}' is none",
            hint=f"'mizzen version list {model}' lists those it has",
        )
    return escaped(text)
