"""gRPC's own health service, which load balancers and probes ask: of the server, of its services, and of models.

A model is asked for by its name, as if it were a service; who may not see it does not learn of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from mizzen.gateway.grpc import reflection
from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.metadata_methods import PATHS, Answering
from mizzen.gateway.grpc.unary import Visit
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.inference.inference import Asked
from mizzen.gateway.request.url_paths import Found
from mizzen.protocol.v2 import cited

LOOK_SECONDS = 0.5
"""Between two looks for those who watch."""
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3

_STEADY = frozenset(("", *reflection.SERVICES))
"""They are well as long as this process is."""

_Request = message_types.of("grpc.health.v1.HealthCheckRequest")
_Response = message_types.of("grpc.health.v1.HealthCheckResponse")


class Health:
    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def check(self, visit: Visit, message: bytes) -> None:
        name = _name(message)
        status = await self._status(visit, name)
        if status == SERVICE_UNKNOWN:
            raise Unfit(404, f"there is no service, and no model, '{cited(name)}'")
        visit.answer(_Response(status=status).SerializeToString())

    async def watch(self, visit: Visit, asked: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """How it is now, and whenever that has changed; for ever."""
        name = _name(await anext(asked, b""))
        if name in _STEADY:
            yield _Response(status=SERVING).SerializeToString()
            await asyncio.Event().wait()
        last = 0
        while True:
            status = await self._status(visit, name)
            if status != last:
                yield _Response(status=status).SerializeToString()
                last = status
            await asyncio.sleep(LOOK_SECONDS)

    async def _status(self, visit: Visit, name: str) -> int:
        """Unfit for who may not know."""
        if name in _STEADY:
            return SERVING
        opening = visit.opening
        asked = Asked("POST", opening.method, opening.credentials)
        answer = await self._answering.told(asked, Found(PATHS["model_ready"], opening.namespace, name))
        if answer.code in (OK, UNAVAILABLE):
            return SERVING if answer.code == OK else NOT_SERVING
        if answer.code != 404:
            raise Unfit(answer.code, f"you may not see whether there is a model '{cited(name)}'")
        return SERVICE_UNKNOWN


def _name(message: bytes) -> str:
    try:
        name: str = _Request.FromString(message).service
    except message_types.DecodeError as error:
        raise Unfit(BAD_REQUEST, "this is no HealthCheckRequest") from error
    return name
