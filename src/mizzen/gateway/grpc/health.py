"""The standard gRPC health service, for load balancers and probes: health of the server, its services and models.

A model is checked by its name, as if it were a service. Callers without permission do not learn whether it exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from mizzen.gateway.context import AuthRequest
from mizzen.gateway.grpc import reflection
from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.metadata_methods import PATHS, MetadataApi
from mizzen.gateway.grpc.unary import GrpcCall
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.queueing.call import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.request.url_paths import RequestPath
from mizzen.protocol.v2 import shorten

POLL_SECONDS = 0.5
"""Between two status checks of a watch."""
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3

_ALWAYS_SERVING = frozenset(("", *reflection.SERVICES))
"""Services that are healthy as long as this process runs."""

_Request = message_types.class_of("grpc.health.v1.HealthCheckRequest")
_Response = message_types.class_of("grpc.health.v1.HealthCheckResponse")


class HealthService:
    def __init__(self, api: MetadataApi) -> None:
        self._api = api

    async def check(self, rpc: GrpcCall, message: bytes) -> None:
        name = _parse_name(message)
        status = await self._status(rpc, name)
        if status == SERVICE_UNKNOWN:
            raise RpcError(404, f"there is no service or model '{shorten(name)}'")
        rpc.answer(_Response(status=status).SerializeToString())

    async def watch(self, rpc: GrpcCall, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the status now and after every change, until the client cancels."""
        name = _parse_name(await anext(requests, b""))
        if name in _ALWAYS_SERVING:
            yield _Response(status=SERVING).SerializeToString()
            await asyncio.Event().wait()
        last = 0
        while True:
            status = await self._status(rpc, name)
            if status != last:
                yield _Response(status=status).SerializeToString()
                last = status
            await asyncio.sleep(POLL_SECONDS)

    async def _status(self, rpc: GrpcCall, name: str) -> int:
        """Raises RpcError if the caller may not see it."""
        if name in _ALWAYS_SERVING:
            return SERVING
        call_head = rpc.call_head
        asked = AuthRequest("POST", call_head.method, call_head.credentials)
        answer = await self._api.read(asked, RequestPath(PATHS["model_ready"], call_head.namespace, name))
        if answer.code in (OK, UNAVAILABLE):
            return SERVING if answer.code == OK else NOT_SERVING
        if answer.code != 404:
            raise RpcError(answer.code, f"you are not allowed to see model '{shorten(name)}'")
        return SERVICE_UNKNOWN


def _parse_name(message: bytes) -> str:
    try:
        name: str = _Request.FromString(message).service
    except message_types.DecodeError as error:
        raise RpcError(BAD_REQUEST, "this is not a valid HealthCheckRequest") from error
    return name
