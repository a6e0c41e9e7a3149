"""Calls of the /model API: models, their versions, aliases, servers and history."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Any, Final, Unpack

from mizzen import errors
from mizzen.sdk.api.logs_and_usage import ObservationCalls
from mizzen.sdk.api.predictions import PredictionCalls
from mizzen.sdk.api.resources import Selection, _selector
from mizzen.sdk.api.session import escape, without_none
from mizzen.sdk.keywords import VersionKeywords, takes

Objects = builtins.list[dict[str, Any]]
DELETE_TIMEOUT: Final = 120.0
"""Seconds to wait for the processes of a deleted model to end."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class ModelCalls(ObservationCalls, PredictionCalls):
    async def create_model(
        self, name: str, *, framework: str | None = None, labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Create a model without versions. Raises AlreadyExists."""
        body = without_none(name=name, framework=framework, labels=dict(labels) if labels else None)
        return await self.request("POST", "/model", body=body, params=self.within())

    async def models(self, labels: Selection = None) -> Objects:
        """List all models, as objects of the resource API."""
        items: Objects = (await self.list("models", labels=labels))["items"]
        return items

    async def list_models(self, labels: Selection = None) -> Objects:
        """List all models, in the format of the /model API."""
        return await self._all("/model", {"labelSelector": _selector(labels)})

    async def describe_model(self, name: str) -> dict[str, Any]:
        """Return the model with its versions, aliases, servers, and the author of its last change."""
        return await self.request("GET", model_path(name), params=self.within())

    async def delete_model(
        self, name: str, *, cascade: bool = False, wait: bool = True, namespace: str | None = None
    ) -> dict[str, Any]:
        """Delete a model with its versions; `cascade` first stops their servers. Raises Conflict, which names the
        obstacles. Without `wait` it returns once the model is marked for deletion; from then on it cannot be used."""
        params = {"cascade": cascade or None, "wait": wait or None, **self.within(namespace)}
        return await self.request("DELETE", model_path(name), params=params, timeout=DELETE_TIMEOUT if wait else None)

    async def versions(self, model: str) -> Objects:
        """List the ModelVersions of a model, in the order of registration."""
        await self.get("models", check_model_name(model))
        found = self.objects("modelversions", fields={"spec.modelName": model})
        items = [item async for item in found]
        return sorted(items, key=lambda item: (item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]))

    async def list_versions(self, model: str) -> Objects:
        """List the versions in the format of the /model API: numbers in order, then names."""
        return sorted(await self._all(f"{model_path(model)}/version", {}), key=_version_order)

    async def describe_version(self, model: str, version: str | int) -> dict[str, Any]:
        """Return one version: its files, its author, and whether code or data changed since the one before. Raises
        NotFound."""
        return await self.request("GET", _version_path(model, version), params=self.within())

    @takes(VersionKeywords)
    async def add_version(self, model: str, source: Any = None, **options: Unpack[VersionKeywords]) -> dict[str, Any]:
        """Register the next version of a model, or the named one; `packaging.upload` documents the possible sources.

        In place of `source`: `git`, {"repo", "ref", "path"} or `<url>[@ref][#path]`; or `url` with `sha256`.
        `training`: this is code to train, and need not name what to load for serving.
        """
        from mizzen.sdk.packaging import upload

        return await upload.add_version(self, check_model_name(model), source, **options)

    async def trust_version(self, model: str, version: str | int) -> dict[str, Any]:
        """Trust a version that another user registered: its code may run. Needs `admin` on the model."""
        return await self.request("POST", f"{_version_path(model, version)}/trust", params=self.within())

    async def delete_version(self, model: str, version: str | int) -> dict[str, Any]:
        """Raises Conflict while it is served, is current or has an alias."""
        return await self.request("DELETE", _version_path(model, version), params=self.within())

    async def alias(self, model: str, alias: str, version: str | int, *, force: bool = False) -> dict[str, Any]:
        """Point an alias at a version. Raises Conflict if that version is incompatible with the alias's callers, unless
        `force`."""
        path, body = f"{model_path(model)}/alias/{escape(alias)}", _with_force({"version": str(version)}, force)
        return await self.request("PUT", path, body=body, params=self.within())

    async def delete_alias(self, model: str, alias: str) -> dict[str, Any]:
        """Remove an alias; the version stays. Raises NotFound."""
        return await self.request("DELETE", f"{model_path(model)}/alias/{escape(alias)}", params=self.within())

    async def serve(self, model: str, version: str | int, replicas: int = 1, *, checkpoint: str | None = None) -> str:
        """Serve one more version of a model, and return the name of the InferenceModel. It loads the version's last
        trained checkpoint, or its own files if it was never trained. `checkpoint` picks one by its id. Raises NotFound;
        Conflict if there is nothing to serve."""
        path = f"{model_path(model)}/serve/{version_segment(model, version)}"
        body = {"replicas": replicas, **({"checkpoint_id": checkpoint} if checkpoint else {})}
        answer = await self.request("POST", path, body=body, params=self.within())
        return str(answer["id"])

    async def promote(self, model: str, version: str | int, *, force: bool = False) -> None:
        """Make a version the one that serves requests to the model's name. Raises Conflict if it is incompatible with
        the model's callers, unless `force`."""
        body = _with_force({"version": str(version)}, force)
        await self.request("POST", f"{model_path(model)}/current", body=body, params=self.within())

    async def history(self, model: str) -> Objects:
        """List the changes to a model and its objects, oldest first."""
        return await self._all(f"{model_path(model)}/history", {})

    async def as_of(self, model: str, at: str) -> dict[str, Any]:
        """Return the model as of an ISO time: its spec, current version and versions. Raises NotFound."""
        return await self.request("GET", f"{model_path(model)}/history", params={"at": at, **self.within()})

    async def _all(self, path: str, params: Mapping[str, Any]) -> Objects:
        """Return the items of all pages."""
        pages = self.pages(path, {**params, **self.within()})
        return [item async for page in pages for item in page["items"]]


def _version_order(version: Mapping[str, Any]) -> tuple[int, str]:
    """Sort key for versions: pages are sorted one by one, not together. Numbers have no leading zeros, so longer is
    larger."""
    text = str(version["version"])
    return (len(text), text) if text.isdecimal() else (1_000_000, text)


def check_model_name(name: str) -> str:
    """Return the name if it is a valid model name, else raise Invalid: no request is needed then."""
    if not _NAME.fullmatch(name):
        raise errors.Invalid(
            f"'{name[:100]}' is not a valid model name", hint="expected at most 63 lower-case letters, digits and '-'"
        )
    return name


def _with_force(body: dict[str, Any], force: bool) -> dict[str, Any]:
    return {**body, "force": True} if force else body


def model_path(name: str) -> str:
    return f"/model/{escape(check_model_name(name))}"


def _version_path(model: str, version: str | int) -> str:
    return f"{model_path(model)}/version/{version_segment(model, version)}"


def version_segment(model: str, version: str | int) -> str:
    """Return a version as one path segment. Raises NotFound for a text with several or none: it cannot name a
    version."""
    text = str(version)
    if "/" in text or text in ("", ".", ".."):
        raise errors.NotFound(
            f"model '{model}' has no such version: '{text[:100]}'",
            hint=f"'mizzen version list {model}' lists its versions",
        )
    return escape(text)
