"""What is told to those who read: the server, what is served, figures; and to those who may not, why.

Health is told to everybody, whatever credentials they send: it says nothing of what is served. All else is decided by
the permits before it is looked for, so nobody learns which names there are by asking. To see what a name is, and
whether it is ready, one must be allowed to read it or to call it; lists and metrics show what one is allowed to see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import mizzen
from mizzen.access.policy import Verb
from mizzen.errors import NotFound, Unavailable
from mizzen.gateway.access.authorizer import ALLOWED, PLANE, READ, SEE, UNAUTHENTICATED, Ruling
from mizzen.gateway.http import model_metadata
from mizzen.gateway.inference.calls import UNAVAILABLE
from mizzen.gateway.inference.inference import Asked, Service
from mizzen.gateway.request.responses import CHALLENGE, JSON, PROMETHEUS, RETRY, Answer, Header, error, told
from mizzen.gateway.request.url_paths import Found
from mizzen.gateway.route_table import Endpoint, Name
from mizzen.gateway.telemetry import metrics, triton_metrics
from mizzen.protocol.gateway_files.counts import Counts

DOCUMENT = Path(__file__).with_name("openapi.json")
"""This API as an OpenAPI document, made by `make gen`; here it is only handed out."""

SIGNED = ("metadata", "config", "v1_metadata")
"""What only a replica can tell: a request waits for one, as infer requests do."""

_LINKS = ("/v2", "/v2/models", "/v1/models", "/metrics", "/metrics/triton", "/healthz", "/openapi.json")
_OPEN = {
    # `alive` is what KServe's client looks for here, when it speaks V1.
    "index": {"name": "mizzen inference", "status": "alive", "links": _LINKS},
    "health": {"status": "ok"},
    "live": {"live": True},
    "ready": {"ready": True, "live": True},
}
_SERVER = {"name": "mizzen", "version": mizzen.__version__, "extensions": model_metadata.EXTENSIONS}


class Teller:
    def __init__(self, service: Service, counted: Callable[[], Sequence[Counts]]) -> None:
        """`counted`: what all gateways have."""
        self._service = service
        self._counted = counted
        self._document = DOCUMENT.read_bytes()
        self._tag = b'"%b"' % hashlib.sha256(self._document).hexdigest()[:32].encode()

    def tell(self, asked: Asked, found: Found, headers: Iterable[Header]) -> Answer:
        what = found.what
        if what in _OPEN:
            return told(_OPEN[what])
        if found.model:
            return self._about(asked, found)
        if what in ("models", "stats", "v1_models"):
            return self.listed(asked, found)
        if refusal := self.refusal(asked, self._service.permits.rule(asked.credentials, READ, PLANE)):
            return refusal
        if what == "server":
            return told(_SERVER)
        return self._described(headers) if what == "document" else self._metrics(asked, found)

    def listed(self, asked: Asked, found: Found, *, ready: bool = False) -> Answer:
        """Of all names in a namespace that one may see. `ready`: only what is."""
        some = self._service.permits.rule_some(asked.credentials, SEE, found.namespace)
        if refusal := self.refusal(asked, some):
            return refusal
        names = list(self._seen(asked, found.namespace))
        if found.what == "v1_models":
            return told({"models": [name for name, _ in names]})
        if found.what == "models":
            return told({
                "models": [
                    {"name": name, "version": each.current.version, "ready": each.current.callable}
                    for name, each in names
                ]
            })  # fmt: skip
        served = [endpoint for _, each in names for endpoint in each.versions.values()]
        if found.what == "stats":
            return self._statistics(served)
        return told([model_metadata.indexed(each) for each in served if each.callable or not ready])

    def may(self, asked: Asked, found: Found, verbs: tuple[Verb, ...]) -> Ruling:
        target = self._service.routes.target(found.namespace, found.model, found.version, label=found.label)
        return self._service.permits.rule(asked.credentials, verbs, target)

    def refusal(self, asked: Asked, ruling: Ruling) -> Answer | None:
        """None when it is allowed. A refusal is written down for the audit."""
        if ruling.code == ALLOWED:
            return None
        self._service.note(asked, ruling)
        more = {UNAUTHENTICATED: (CHALLENGE,), UNAVAILABLE: (RETRY,)}.get(ruling.code, ())
        return self.refused(ruling.code, ruling.reason, *more)

    def refused(self, code: int, text: str, *headers: Header) -> Answer:
        """Counted, as a request that reaches no model."""
        self._service.metrics.refused[code] += 1
        return error(code, text, *headers)

    def endpoint(self, found: Found) -> Endpoint:
        """NotFound; Unavailable before the first Table."""
        return self._service.routes.find(found.namespace, found.model, found.version, label=found.label)

    def _about(self, asked: Asked, found: Found) -> Answer:
        if refusal := self.refusal(asked, self.may(asked, found, SEE)):
            return refusal
        try:
            name = self._service.routes.name(found.namespace, found.model)
            endpoint = self.endpoint(found)
        except NotFound as missing:
            return error(404, missing.message)
        except Unavailable as early:
            return error(UNAVAILABLE, early.message, RETRY)
        chosen = [endpoint] if found.version is not None else list(name.versions.values())
        match found.what:
            case "model_stats":
                answer = self._statistics(chosen)
            case "v1_status":
                answer = told(model_metadata.v1_status(found.model, endpoint.callable, chosen))
            case "model_ready":
                answer = (
                    told(model_metadata.readiness(found.model, endpoint)) if endpoint.callable else _not_ready(endpoint)
                )
            case _:
                answer = self._signed(found, name, endpoint)
        return answer

    def _signed(self, found: Found, name: Name, endpoint: Endpoint) -> Answer:
        hello = endpoint.hello
        if hello is None:
            return _not_ready(endpoint)
        if found.what == "config":
            return told(model_metadata.config(endpoint, hello))
        if found.what == "v1_metadata":
            return told(model_metadata.v1_metadata(endpoint, hello))
        return told(model_metadata.metadata(found.model, name.versions, hello))

    def _statistics(self, endpoints: Iterable[Endpoint]) -> Answer:
        now, wall = self._service.clock(), self._service.wall()
        return told({"model_stats": [model_metadata.statistics(each, now, wall) for each in endpoints]})

    def _metrics(self, asked: Asked, found: Found) -> Answer:
        def sees(namespace: str, name: str) -> bool:
            return self._sees(asked, namespace, name)

        counted = self._counted()
        text = triton_metrics.render(counted, sees) if found.what == "triton" else metrics.render(counted, sees)
        return Answer(200, text, (PROMETHEUS,))

    def _described(self, headers: Iterable[Header]) -> Answer:
        """openapi.json, unless they have it."""
        given = b",".join(value for name, value in headers if name == b"if-none-match")
        known = [tag.strip().removeprefix(b"W/") for tag in given.split(b",")]
        kept = (b"etag", self._tag), (b"cache-control", b"no-cache")
        if self._tag in known or b"*" in known:
            return Answer(304, b"", kept)
        return Answer(200, self._document, (JSON, *kept))

    def _seen(self, asked: Asked, namespace: str) -> Iterator[tuple[str, Name]]:
        for (space, name), found in sorted(self._service.routes.names.items(), key=lambda item: item[0]):
            if space == namespace and self._sees(asked, space, name):
                yield name, found

    def _sees(self, asked: Asked, namespace: str, name: str) -> bool:
        target = self._service.routes.target(namespace, name)
        return self._service.permits.rule(asked.credentials, SEE, target).code == ALLOWED


def _not_ready(endpoint: Endpoint) -> Answer:
    if endpoint.unserved:
        return error(UNAVAILABLE, endpoint.unserved)
    return error(UNAVAILABLE, f"no replica of '{endpoint.name}' version {endpoint.version} is ready", RETRY)
