"""AsyncPlane: every call on a plane's two APIs. The real code; `sync.py` dresses it for programs without a loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from mizzen import errors
from mizzen.sdk import deployment
from mizzen.sdk.locate import Place
from mizzen.sdk.transport import PATIENCE, Transport

if TYPE_CHECKING:
    from mizzen.sdk.payload import Prediction, Tensor

Objects = list[dict[str, Any]]
Names = list[str]

RESOURCES = "/apis/mizzen.dev/v1alpha1/namespaces/default"


class AsyncPlane:
    """A client of one plane. Made and used on one event loop; `close` it, or use it as a context manager."""

    def __init__(self, place: Place, *, patience: float = PATIENCE) -> None:
        self.place = place
        self._patience = patience
        self._control = Transport(place.control_url, place.token, hint=place.hint, patience=patience)
        self._inference: Transport | None = None
        self._signatures: dict[str, tuple[Tensor, ...]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._control.close()
        if self._inference is not None:
            await self._inference.close()

    # -- resources ----------------------------------------------------------------------------------------------------

    async def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Any call of the control API that answers JSON: `body`, `params` and `timeout` may be given."""
        return await self._control.json(method, path, **more)

    async def get(self, plural: str, name: str) -> dict[str, Any]:
        return await self.request("GET", _object(plural, name))

    async def list(self, plural: str) -> dict[str, Any]:
        """All objects of a kind: {"items": […], "metadata": {"resourceVersion": …}}, pages joined."""
        listing = await self.request("GET", f"{RESOURCES}/{quote(plural)}")
        while token := listing.get("metadata", {}).get("continue"):
            page = await self.request("GET", f"{RESOURCES}/{quote(plural)}", params={"continue": token})
            listing = page | {"items": [*listing["items"], *page["items"]]}
        return listing

    async def delete(self, plural: str, name: str) -> dict[str, Any]:
        return await self.request("DELETE", _object(plural, name))

    async def delete_model(self, name: str) -> dict[str, Any]:
        """Delete a model with its versions, once all that serves them has ended."""
        return await self.request("DELETE", f"/model/{quote(name, safe='')}", params={"cascade": True})

    async def watch(self, plural: str, since: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """{"type", "object"} for each change after `since`, for ever, through lost connections.

        Without `since`, first ADDED for all there is. Expired when `since` is too old to go on from.
        """
        if since is None:
            listing = await self.list(plural)
            for item in listing["items"]:
                yield {"type": "ADDED", "object": item}
            since = str(listing["metadata"]["resourceVersion"])
        failing_since: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async for event in self._changes(plural, since):
                    failing_since = None
                    since = str(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        yield event
            except errors.Unavailable:
                failing_since = failing_since or clock()
                if clock() - failing_since > self._patience:
                    raise
            await asyncio.sleep(0.1)

    async def _changes(self, plural: str, since: str) -> AsyncIterator[dict[str, Any]]:
        params = {"watch": True, "resourceVersion": since}
        async with self._control.stream(f"{RESOURCES}/{quote(plural)}", params) as response:
            async for line in response.aiter_lines():
                if not line.strip():
                    continue
                event: dict[str, Any] = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    kind = errors.FAMILY.get(str(status.get("reason")), errors.MizzenError)
                    raise kind(str(status.get("message", "the watch failed")))
                yield event

    async def logs(self, name: str, *, tail: int | None = None, follow: bool = False) -> AsyncIterator[str]:
        """What the replicas of an InferenceModel printed, in pieces of whole lines."""
        params = {"tail": tail, "follow": follow or None}
        async with self._control.stream(f"{_object('inferencemodels', name)}/log", params) as response:
            async for piece in response.aiter_text():
                yield piece

    # -- models -------------------------------------------------------------------------------------------------------

    async def models(self) -> Objects:
        answer = await self.list("models")
        items: Objects = answer["items"]
        return items

    async def versions(self, model: str) -> Objects:
        """The ModelVersions of a model, in the order they were made."""
        await self.get("models", model)
        items = [item for item in (await self.list("modelversions"))["items"] if item["spec"]["modelName"] == model]
        return sorted(items, key=lambda item: (item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]))

    async def deploy(
        self,
        name: str,
        path: str | Path,
        *,
        framework: str | None = None,
        entrypoint: str | None = None,
        promote: bool = True,
        wait: bool = True,
        timeout: float = deployment.TIMEOUT,  # noqa: ASYNC109 - the caller's word
        progress: deployment.Progress = deployment.silent,
    ) -> deployment.Deployment:
        """Register the file or folder at `path` as the next version of `name`, serve it, wait, make it current.

        Without `wait` it returns when the version is on its way, and does not promote it. ModelFailed when the model
        cannot be loaded: its server is removed again, the version stays.
        """
        version = await deployment.register(self, name, Path(path), framework, entrypoint)
        progress(f"registered version {version}")
        server = await self.serve(name, version)
        url = await self.inference_url(name if promote else server)
        begun = deployment.Deployment(name, version, server, url)
        if wait:
            await self.finish(begun, promote=promote, timeout=timeout, progress=progress)
        return begun

    async def finish(
        self,
        begun: deployment.Deployment,
        *,
        promote: bool = True,
        timeout: float = deployment.TIMEOUT,  # noqa: ASYNC109
        progress: deployment.Progress = deployment.silent,
    ) -> None:
        """The second half of `deploy`, for one that did not wait."""
        progress("starting")
        await deployment.wait_loaded(self, begun.server, timeout)
        progress("ready")
        if promote:
            await self.promote(begun.model, begun.version)
            progress("current")
        await deployment.wait_answering(
            self, begun.model, begun.version, begun.server, current=promote, seconds=timeout
        )

    async def serve(self, model: str, version: str, replicas: int = 1) -> str:
        """Serve one more version of a model. The name of the InferenceModel that does."""
        path = f"/model/{quote(model)}/serve/{quote(version)}"
        answer = await self.request("POST", path, body={"replicas": replicas})
        return str(answer["id"])

    async def promote(self, model: str, version: str) -> None:
        """Make a version the one that answers to the model's name."""
        await self.request("POST", f"/model/{quote(model)}/current", body={"version": str(version)})

    async def undeploy(self, model: str, version: str | None = None) -> Names:
        """Stop serving a model, or one version of it, and wait until that has ended. The names of the servers ended."""
        return await deployment.undeploy(self, model, version)

    async def wait_ready(self, server: str, timeout: float = deployment.TIMEOUT) -> None:  # noqa: ASYNC109
        """Until an InferenceModel is ready. ModelFailed when it cannot become so, DeadlineExceeded."""
        await deployment.wait_loaded(self, server, timeout, keep=True)

    async def history(self, model: str) -> Objects:
        """Who did what to a model and what belongs to it, oldest first."""
        answer = await self.request("GET", f"/model/{quote(model)}/history")
        items: Objects = answer["items"]
        return items

    # -- predictions --------------------------------------------------------------------------------------------------

    async def predict(
        self,
        name: str,
        inputs: Any,
        *,
        outputs: Sequence[str] | None = None,
        id: str | None = None,  # noqa: A002 - the protocol's word
        timeout_ms: int | None = None,
    ) -> Prediction:
        """Ask a model, or one served version by its server's name. `payload` says which inputs it understands."""
        from mizzen.sdk import payload

        return payload.decode(await self.infer(name, inputs, outputs=outputs, id=id, timeout_ms=timeout_ms))

    async def infer(
        self,
        name: str,
        inputs: Any,
        *,
        outputs: Sequence[str] | None = None,
        id: str | None = None,  # noqa: A002
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """As `predict`, with the V2 answer as it came. `inputs` may be the body of a V2 request."""
        from mizzen.sdk import payload

        extra: dict[str, Any] = {}
        if outputs is not None:
            extra["outputs"] = [{"name": output} for output in outputs]
        if id is not None:
            extra["id"] = id
        if timeout_ms is not None:
            extra["parameters"] = {"timeout": timeout_ms * 1000}  # V2 counts in microseconds
        if payload.is_v2(inputs):
            both = {"parameters": {**(inputs.get("parameters") or {}), **extra.pop("parameters", {})}}
            return await self._infer(name, {**inputs, **extra, **(both if both["parameters"] else {})})
        known = self._signatures.get(name)
        try:
            body = {"inputs": payload.encode(inputs, known if known is not None else await self._signature(name))}
            return await self._infer(name, body | extra)
        except errors.BadRequest:
            # The signature kept may be that of a version that is no longer current.
            if known is None or known == (fresh := await self._signature(name)):
                raise
            return await self._infer(name, {"inputs": payload.encode(inputs, fresh)} | extra)

    async def metadata(self, name: str) -> dict[str, Any]:
        """What a model says of itself: versions, inputs and outputs."""
        return await (await self._inference_api()).json("GET", f"/v2/models/{quote(name)}")

    async def answers(self, path: str) -> dict[str, Any] | None:
        """What the inference API says at `path` to a fresh connection; None while it says no."""
        inference = await self._inference_api()
        try:
            response = await inference.request("GET", path, fresh=True, timeout=5.0)
        except (errors.NotFound, errors.Unavailable, errors.DeadlineExceeded):
            return None
        return dict(response.json()) if response.content else {}

    async def up(self) -> bool:
        """Are both APIs ready to work?"""
        try:
            await self._control.request("GET", "/readyz", fresh=True, timeout=5.0)
        except (errors.Unavailable, errors.DeadlineExceeded):
            return False
        return await self.answers("/v2/health/ready") is not None

    async def metrics(self) -> str:
        """The inference API's metrics, as text for Prometheus."""
        return (await (await self._inference_api()).request("GET", "/metrics", timeout=5.0)).text

    async def inference_url(self, name: str | None = None) -> str:
        url = (await self._inference_api()).url
        return f"{url}/v2/models/{name}" if name else url

    async def _infer(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        inference = await self._inference_api()
        return await inference.json("POST", f"/v2/models/{quote(name)}/infer", body=body, timeout=65.0)

    async def _signature(self, name: str) -> tuple[Tensor, ...]:
        from mizzen.sdk import payload

        signature = payload.declared(await self.metadata(name))
        self._signatures[name] = signature
        return signature

    async def _inference_api(self) -> Transport:
        if self._inference is None:
            url = self.place.inference_url or str((await self.request("GET", "/"))["inference"])
            self._inference = Transport(url, self.place.token, hint=self.place.hint, patience=self._patience)
        return self._inference


def _object(plural: str, name: str) -> str:
    return f"{RESOURCES}/{quote(plural)}/{quote(name, safe='')}"
