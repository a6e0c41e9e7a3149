"""Metadata, readiness, loading and unloading over gRPC: converts the REST answers to gRPC messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from google.protobuf import json_format

from mizzen.gateway.context import AuthRequest
from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.unary import GrpcCall
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.queueing.call import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.request import url_paths
from mizzen.gateway.request.responses import Answer
from mizzen.gateway.request.url_paths import Path, RequestPath

PATHS: Mapping[str, Path] = {path.what: path for path in reversed(url_paths.PATHS)}


class MetadataApi(Protocol):
    """The API that answers the equivalent REST requests."""

    async def read(self, asked: AuthRequest, found: RequestPath) -> Answer: ...

    async def list_models(self, asked: AuthRequest, found: RequestPath, *, ready: bool) -> Answer: ...

    async def change_model(self, asked: AuthRequest, found: RequestPath, parameters: dict[str, Any]) -> Answer: ...


@dataclass(frozen=True, slots=True)
class MetadataMethod:
    """One gRPC method."""

    name: str
    what: str
    """The equivalent REST path, by the names in `url_paths`."""

    async def answer(self, api: MetadataApi, rpc: GrpcCall, message: bytes) -> None:
        try:
            request = message_types.class_of(f"inference.{self.name}Request").FromString(message)
        except message_types.DecodeError as error:
            raise RpcError(BAD_REQUEST, f"this is not a valid {self.name}Request") from error
        asked = AuthRequest("POST", rpc.call_head.method, rpc.call_head.credentials)
        answer = await self._call(api, asked, rpc, request)
        document = msgspec.json.decode(answer.body)
        if self.what == "model_ready" and answer.code in (404, UNAVAILABLE):
            document = {"ready": False}  # Triton answers this for unknown models, and its clients expect it
        elif answer.code != OK:
            rpc.refuse(RpcError(answer.code, document["error"], int(answer.code == UNAVAILABLE)), counted=True)
            return
        response = message_types.class_of(f"inference.{self.name}Response")()
        made = json_format.ParseDict(_as_message(self.what, document, rpc), response, ignore_unknown_fields=True)
        rpc.answer(made.SerializeToString())

    async def _call(self, api: MetadataApi, asked: AuthRequest, rpc: GrpcCall, request: Any) -> Answer:
        what, namespace = self.what, rpc.call_head.namespace
        if what == "repository":
            return await api.list_models(asked, RequestPath(PATHS[what], namespace), ready=request.ready)
        if what in ("load", "unload"):
            # KServe's messages have the name of the model in the field where Triton's have the repository name.
            name = request.model_name or request.repository_name
            rpc.target = namespace, _require(name, "model_name"), ""
            given = {name: _value_of(value) for name, value in request.parameters.items()}
            return await api.change_model(asked, RequestPath(PATHS[what], namespace, name), given)
        name, version = getattr(request, "name", ""), getattr(request, "version", "")
        rpc.target = namespace, name, version
        if what == "model_stats" and not name:
            what = "stats"
        elif "{model}" in PATHS[what].pattern:
            _require(name, "name")
        return await api.read(asked, RequestPath(PATHS[what], namespace, name, version or None))


METADATA_METHODS = (
    MetadataMethod("ServerLive", "live"),
    MetadataMethod("ServerReady", "ready"),
    MetadataMethod("ServerMetadata", "server"),
    MetadataMethod("ModelReady", "model_ready"),
    MetadataMethod("ModelMetadata", "metadata"),
    MetadataMethod("ModelConfig", "config"),
    MetadataMethod("ModelStatistics", "model_stats"),
    MetadataMethod("RepositoryIndex", "repository"),
    MetadataMethod("RepositoryModelLoad", "load"),
    MetadataMethod("RepositoryModelUnload", "unload"),
)


def _as_message(what: str, document: Any, rpc: GrpcCall) -> Any:
    """Adapt the JSON where the message has another form."""
    if what == "repository":
        return {"models": document}
    if what in ("load", "unload"):
        return {"model_name": rpc.target[1], "isLoaded" if what == "load" else "isUnloaded": True}
    if what != "config":
        return document
    versions = document["version_policy"]["specific"]["versions"]
    numbers = [version for version in versions if version.isdecimal()]  # the message holds only numeric versions
    return {"config": {**document, "version_policy": {"specific": {"versions": numbers}}}}


def _require(name: str, field: str) -> str:
    if not name:
        raise RpcError(BAD_REQUEST, f"{field}: expected a model name")
    return name


def _value_of(parameter: Any) -> Any:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)
