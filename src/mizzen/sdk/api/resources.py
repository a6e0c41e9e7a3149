"""Calls of the resource API: objects of every kind. `kind` is Model, model or models, in any case."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Unpack
from urllib.parse import quote

from mizzen import errors
from mizzen.sdk.api.session import ROOT, Calls, escape
from mizzen.sdk.connection.warnings import Warned
from mizzen.sdk.keywords import WriteKeywords, takes

ALL: Final = "*"
"""Stands for all namespaces."""

PAGE: Final = 500
_PAUSE: Final = 0.05

Selection = str | Mapping[str, str] | None
"""A selector in Kubernetes syntax, or a map of labels that must be equal."""


class ResourceCalls(Calls):
    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return one object. `kind` is Model, ModelVersion, InferenceModel, …, in any case, singular or plural."""
        return await self.request("GET", self.path(kind, name, namespace=namespace))

    async def objects(
        self,
        kind: str,
        *,
        labels: Selection = None,
        fields: Selection = None,
        page: int = PAGE,
        namespace: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield each object of a kind, page by page. Raises Expired if reading takes so long that a page's token
        expires."""
        async for listing in self._pages(kind, labels, fields, page, namespace):
            for item in listing["items"]:
                yield item

    async def list(
        self,
        kind: str,
        *,
        labels: Selection = None,
        fields: Selection = None,
        limit: int | None = None,
        namespace: str | None = None,
    ) -> dict[str, Any]:
        """List objects of a kind, at most `limit`: {"items": […], "metadata": {"resourceVersion": …}}, pages joined."""
        items: builtins.list[Any] = []
        listing: dict[str, Any] = {}
        async for listing in self._pages(kind, labels, fields, min(limit or PAGE, PAGE), namespace):
            items += listing["items"]
            if limit is not None and len(items) >= limit:
                break
        return {**listing, "items": items[:limit]}

    @takes(WriteKeywords)
    async def create(self, manifest: Mapping[str, Any], **options: Unpack[WriteKeywords]) -> dict[str, Any]:
        """Create an object. Raises AlreadyExists."""
        return await self._write("POST", manifest, **options)

    @takes(WriteKeywords)
    async def replace(self, manifest: Mapping[str, Any], **options: Unpack[WriteKeywords]) -> dict[str, Any]:
        """Replace an object. Raises Conflict if the manifest names an outdated `resourceVersion`."""
        return await self._write("PUT", manifest, manifest["metadata"]["name"], **options)

    async def _write(
        self,
        method: str,
        manifest: Mapping[str, Any],
        name: str = "",
        *,
        dry_run: bool = False,
        assume: Sequence[str] | None = None,
        on_warning: Warned | None = None,
    ) -> dict[str, Any]:
        """`assume`: for a dry run, objects to treat as existing, each Kind/name."""
        path = self.path(manifest["kind"], name, namespace=manifest["metadata"].get("namespace"))
        params = {"dryRun": "All", "assume": ",".join(assume or ()) or None} if dry_run else {}
        return await self.request(method, path, body=manifest, params=params, on_warning=on_warning)

    async def delete(self, kind: str, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        return await self.request("DELETE", self.path(kind, name, namespace=namespace))

    async def wait(
        self,
        kind: str,
        name: str,
        condition: str = "Ready",
        timeout: float = 120.0,  # noqa: ASYNC109 - the public parameter
        *,
        namespace: str | None = None,
    ) -> dict[str, Any]:
        """Wait until the condition holds for the present spec, and return the object. Raises DeadlineExceeded, or
        Invalid if the spec is rejected."""
        last = "no status yet"
        resource = await self.get(kind, name, namespace=namespace)  # at least once, however short the timeout
        try:
            async with asyncio.timeout(timeout):
                while True:
                    if holds(resource, condition):
                        return resource
                    if refused := _refusal_of(resource):
                        raise errors.Invalid(f"{kind} {name} is not accepted: {refused}")
                    found = condition_of(resource, condition)
                    last = f"{found.get('reason')}: {found.get('message')}" if found else last
                    await asyncio.sleep(_PAUSE)
                    resource = await self.get(kind, name, namespace=namespace)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"{kind} {name} was not {condition} within {timeout:g} s", hint=f"last condition: {last}"
            ) from None

    async def watch(
        self, kind: str, since: str | None = None, *, labels: Selection = None, namespace: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield {"type", "object"} for each change after `since`, without end, across lost connections.

        Without `since`, first ADDED for all existing objects. Raises Expired if `since` is too old to continue from.
        """
        if since is None:
            listing = await self.list(kind, labels=labels, namespace=namespace)
            for item in listing["items"]:
                yield {"type": "ADDED", "object": item}
            since = str(listing["metadata"]["resourceVersion"])
        failing_since: float | None = None
        clock = asyncio.get_running_loop().time
        path, selected = self.path(kind, namespace=namespace), {"labelSelector": _selector(labels)}
        while True:
            try:
                async for event in self._changes(path, {"watch": True, "resourceVersion": since, **selected}):
                    failing_since = None
                    since = str(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        yield event
            except errors.Unavailable:
                failing_since = failing_since or clock()
                if clock() - failing_since > self._patience:
                    raise
            await asyncio.sleep(0.1)

    async def revisions(self, kind: str, name: str, *, namespace: str | None = None) -> builtins.list[dict[str, Any]]:
        """List the revisions of an object, oldest first: number, time, actor, action, before, after. Raises
        NotFound."""
        wanted = {"spec.kind": kind, "spec.name": name}
        found = [item["spec"] async for item in self.objects("revisions", fields=wanted, namespace=namespace)]
        if not found:
            raise errors.NotFound(
                f"{kind}/{name} has no history: it never existed", hint=f"see 'mizzen get {kind.lower()}'"
            )
        return sorted(found, key=lambda spec: int(spec["number"]))

    def path(self, kind: str, name: str = "", *, namespace: str | None = None) -> str:
        space = namespace or self.namespace
        within = "" if space == ALL else f"/namespaces/{escape(space)}"
        return f"{ROOT}{within}/{quote(plural(kind))}" + (f"/{escape(name)}" if name else "")

    def _pages(
        self, kind: str, labels: Selection, fields: Selection, limit: int, namespace: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        params = {"labelSelector": _selector(labels), "fieldSelector": _selector(fields), "limit": limit}
        return self.pages(self.path(kind, namespace=namespace), params)

    async def _changes(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async with self._control.stream(path, params) as response:
            async for line in response.aiter_lines():
                if not line.strip():
                    continue
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    family = errors.FAMILY.get(str(status.get("reason")), errors.MizzenError)
                    raise family(str(status.get("message", "the watch failed")))
                yield event


def plural(kind: str) -> str:
    word = kind.lower()
    return word if word.endswith("s") else f"{word}s"


def condition_of(resource: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return the condition of this type; empty if there is none."""
    conditions = resource.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == type_), {})


def holds(resource: Mapping[str, Any], condition: str) -> bool:
    """Return whether the condition is true of the present spec."""
    found = condition_of(resource, condition)
    seen = found.get("observedGeneration") or resource["metadata"].get("generation", 0)
    return found.get("status") == "True" and seen >= resource["metadata"].get("generation", 0)


def _refusal_of(resource: Mapping[str, Any]) -> str:
    """Return why the present spec was rejected; empty if it was not, or not yet checked."""
    found = condition_of(resource, "Accepted")
    current = found.get("observedGeneration", 0) >= resource["metadata"].get("generation", 0)
    return str(found.get("message") or found.get("reason")) if found.get("status") == "False" and current else ""


def _selector(given: Selection) -> str | None:
    if isinstance(given, Mapping):
        return ",".join(f"{key}={value}" for key, value in given.items()) or None
    return given or None
