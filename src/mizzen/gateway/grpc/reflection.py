"""The standard gRPC reflection service, which describes the methods to tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.queueing.call import BAD_REQUEST
from mizzen.gateway.request.grpc_status import GrpcStatus

INFERENCE: Final = "inference.GRPCInferenceService"
HEALTH: Final = "grpc.health.v1.Health"
REFLECTIONS: Final = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""Both have the same wire format."""
SERVICES: Final = (INFERENCE, HEALTH, *REFLECTIONS)

_Request = message_types.class_of("grpc.reflection.v1.ServerReflectionRequest")
_Response = message_types.class_of("grpc.reflection.v1.ServerReflectionResponse")


async def reflect(requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for message in requests:
        try:
            request = _Request.FromString(message)
        except message_types.DecodeError as error:
            raise RpcError(BAD_REQUEST, "this is not a valid ServerReflectionRequest") from error
        response = _Response(valid_host=request.host, original_request=request)
        _fill_response(response, request)
        yield response.SerializeToString()


def _fill_response(response: Any, request: Any) -> None:
    match request.WhichOneof("message_request"):
        case "list_services":
            for name in SERVICES:
                response.list_services_response.service.add(name=name)
        case "file_by_filename":
            _add_file(response, lambda: message_types.pool.FindFileByName(request.file_by_filename))
        case "file_containing_symbol":
            _add_file(response, lambda: message_types.pool.FindFileContainingSymbol(request.file_containing_symbol))
        case "all_extension_numbers_of_type":
            response.all_extension_numbers_response.base_type_name = request.all_extension_numbers_of_type
        case _:
            _set_error(response, GrpcStatus.UNIMPLEMENTED, "this server has no extensions")


def _add_file(response: Any, find: Callable[[], Any]) -> None:
    try:
        found = find()
    except KeyError:
        _set_error(response, GrpcStatus.NOT_FOUND, "this name is unknown")
        return
    response.file_descriptor_response.file_descriptor_proto.append(found.serialized_pb)


def _set_error(response: Any, status: GrpcStatus, text: str) -> None:
    response.error_response.error_code = status
    response.error_response.error_message = text
