"""Calls of the inference API: predictions, feedback, metadata and readiness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from mizzen import errors
from mizzen.sdk.api.session import DEFAULT_NAMESPACE, Calls, escape, without_none
from mizzen.sdk.keywords import PredictKeywords, takes
from mizzen.sdk.packaging import references

if TYPE_CHECKING:
    from mizzen.sdk.packaging.tensors import ModelTensor, Prediction


class PredictionCalls(Calls):
    @takes(PredictKeywords)
    async def predict(self, name: str, inputs: Any, **options: Unpack[PredictKeywords]) -> Prediction:
        """Call a model (`iris`), a version of it (`iris:2`, `iris@prod`), or a server by its own name.

        `packaging.tensors` documents the accepted inputs.
        """
        from mizzen.sdk.packaging import tensors

        return tensors.decode(await self._ask("infer", name, inputs, **options))

    @takes(PredictKeywords)
    async def infer(self, name: str, inputs: Any, **options: Unpack[PredictKeywords]) -> dict[str, Any]:
        """Predict, and return the V2 response unchanged. `inputs` may be the body of a V2 request."""
        return await self._ask("infer", name, inputs, **options)

    async def explain_graph(self, name: str, inputs: Any, *, timeout_ms: int | None = None) -> dict[str, Any]:
        """Call a graph and return what each node did: {"answer", "nodes", "taken", "routing", "took_ms"}.

        A request that fails has {"error", "code"} in place of the answer. Raises Conflict if the name is not that of a
        graph.
        """
        return await self._ask("explain", name, inputs, timeout_ms=timeout_ms)

    async def _ask(
        self,
        verb: str,
        name: str,
        inputs: Any,
        *,
        outputs: Sequence[str] | None = None,
        id: str | None = None,  # noqa: A002 - the protocol's name
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        from mizzen.sdk.packaging import tensors

        extra: dict[str, Any] = {}
        if outputs is not None:
            extra["outputs"] = [{"name": output} for output in outputs]
        if id is not None:
            extra["id"] = id
        if timeout_ms is not None:
            extra["parameters"] = {"timeout": timeout_ms * 1000}  # V2 uses microseconds
        if tensors.is_v2(inputs):
            both = {"parameters": {**(inputs.get("parameters") or {}), **extra.pop("parameters", {})}}
            return await self._post(verb, name, {**inputs, **extra, **(both if both["parameters"] else {})})
        known = self._signature_cache().get(name)
        try:
            body = {"inputs": tensors.encode(inputs, known if known is not None else await self._signature(name))}
            return await self._post(verb, name, body | extra)
        except errors.BadRequest:
            # The cached signature may be that of a version that is no longer current.
            if known is None or known == (fresh := await self._signature(name)):
                raise
            return await self._post(verb, name, {"inputs": tensors.encode(inputs, fresh)} | extra)

    async def feedback(
        self,
        name: str,
        id: str,  # noqa: A002 - the protocol's name
        *,
        reward: float | None = None,
        truth: Any = None,
        user: str | None = None,
        routing: str | None = None,
    ) -> dict[str, Any]:
        """Report how good a prediction was, by its id (`prediction.id`): a reward from 0 to 1, or the truth.

        `routing`: the `routing` parameter of the response, for when the plane no longer has a record of the request.
        Raises NotFound if the request is unknown; Conflict if it already got different feedback.
        """
        body = without_none(id=id, reward=reward, truth=truth, user=user, routing=routing)
        return await (await self.inference_api()).json("POST", f"{self._path(name)}/feedback", body=body)

    async def metadata(self, name: str) -> dict[str, Any]:
        """Return a model's metadata: versions, inputs and outputs."""
        return await (await self.inference_api()).json("GET", self._path(name))

    async def answers(self, path: str) -> dict[str, Any] | None:
        """Return the inference API's response at `path` over a fresh connection; None for an error response."""
        inference = await self.inference_api()
        try:
            response = await inference.request("GET", path, fresh=True, timeout=5.0)
        except (errors.NotFound, errors.Unavailable, errors.DeadlineExceeded):
            return None
        return dict(response.json()) if response.content else {}

    async def delay(self, name: str) -> str:
        """Return why a call would have to wait, such as for a starting replica; empty if it would not."""
        return str((await self.answers(f"{self._path(name)}/ready") or {}).get("reason", ""))

    async def served(self) -> list[dict[str, Any]]:
        """List the names that the inference API serves in this namespace: {"name", "version", "ready"} each."""
        return list((await self.answers(f"{self._prefix}/v2/models") or {}).get("models", []))

    async def up(self) -> bool:
        """Return whether both APIs are ready."""
        try:
            await self._control.request("GET", "/readyz", fresh=True, timeout=5.0)
        except (errors.Unavailable, errors.DeadlineExceeded):
            return False
        return await self.answers("/v2/health/ready") is not None

    async def metrics(self) -> str:
        """Return the inference API's metrics in the Prometheus text format."""
        return (await (await self.inference_api()).request("GET", "/metrics", timeout=5.0)).text

    async def inference_url(self, name: str | None = None) -> str:
        url = (await self.inference_api()).url
        return f"{url}{self._prefix}/v2/models/{name}" if name else url

    async def _post(self, verb: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        api = await self.inference_api()
        return await api.json("POST", f"{self._path(name)}/{verb}", body=body, timeout=65.0)

    def _path(self, name: str) -> str:
        """An alias takes the place of a version."""
        reference = references.parse(name)
        version = reference.version or reference.alias
        return f"{self._prefix}/v2/models/{escape(reference.name)}" + (
            f"/versions/{escape(version)}" if version else ""
        )

    async def _signature(self, name: str) -> tuple[ModelTensor, ...]:
        from mizzen.sdk.packaging import tensors

        signature = tensors.inputs_of(await self.metadata(name))
        self._signature_cache()[name] = signature
        return signature

    def _signature_cache(self) -> dict[str, tuple[ModelTensor, ...]]:
        """The signatures fetched so far."""
        known: dict[str, tuple[ModelTensor, ...]] = self.__dict__.setdefault("_signatures", {})
        return known

    @property
    def _prefix(self) -> str:
        return "" if self.namespace == DEFAULT_NAMESPACE else f"/ns/{escape(self.namespace)}"
