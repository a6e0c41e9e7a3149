"""What can be read, and loading and unloading, over gRPC: what REST answers to the same question, as a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from google.protobuf import json_format

from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.unary import Visit
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.inference.inference import Asked
from mizzen.gateway.request import url_paths
from mizzen.gateway.request.responses import Answer
from mizzen.gateway.request.url_paths import Found, Path

PATHS: Mapping[str, Path] = {path.what: path for path in reversed(url_paths.PATHS)}


class Answering(Protocol):
    """Whoever answers REST's questions."""

    async def told(self, asked: Asked, found: Found) -> Answer: ...

    async def listed(self, asked: Asked, found: Found, *, ready: bool) -> Answer: ...

    async def changed(self, asked: Asked, found: Found, parameters: dict[str, Any]) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Question:
    """One method."""

    name: str
    what: str
    """What it asks, by the names in `paths`."""

    async def answer(self, answering: Answering, visit: Visit, message: bytes) -> None:
        try:
            request = message_types.of(f"inference.{self.name}Request").FromString(message)
        except message_types.DecodeError as error:
            raise Unfit(BAD_REQUEST, f"this is no {self.name}Request") from error
        asked = Asked("POST", visit.opening.method, visit.opening.credentials)
        answer = await self._asked(answering, asked, visit, request)
        said = msgspec.json.decode(answer.body)
        if self.what == "model_ready" and answer.code in (404, UNAVAILABLE):
            said = {"ready": False}  # as Triton says of what is not there, and its clients expect
        elif answer.code != OK:
            visit.refuse(Unfit(answer.code, said["error"], int(answer.code == UNAVAILABLE)), counted=True)
            return
        response = message_types.of(f"inference.{self.name}Response")()
        made = json_format.ParseDict(_as_message(self.what, said, visit), response, ignore_unknown_fields=True)
        visit.answer(made.SerializeToString())

    async def _asked(self, answering: Answering, asked: Asked, visit: Visit, request: Any) -> Answer:
        what, namespace = self.what, visit.opening.namespace
        if what == "repository":
            return await answering.listed(asked, Found(PATHS[what], namespace), ready=request.ready)
        if what in ("load", "unload"):
            # KServe's messages have the name of the model where Triton's have that of the repository.
            name = request.model_name or request.repository_name
            visit.named = namespace, _required(name, "model_name"), ""
            given = {name: _value(value) for name, value in request.parameters.items()}
            return await answering.changed(asked, Found(PATHS[what], namespace, name), given)
        name, version = getattr(request, "name", ""), getattr(request, "version", "")
        visit.named = namespace, name, version
        if what == "model_stats" and not name:
            what = "stats"
        elif "{model}" in PATHS[what].pattern:
            _required(name, "name")
        return await answering.told(asked, Found(PATHS[what], namespace, name, version or None))


QUESTIONS = (
    Question("ServerLive", "live"),
    Question("ServerReady", "ready"),
    Question("ServerMetadata", "server"),
    Question("ModelReady", "model_ready"),
    Question("ModelMetadata", "metadata"),
    Question("ModelConfig", "config"),
    Question("ModelStatistics", "model_stats"),
    Question("RepositoryIndex", "repository"),
    Question("RepositoryModelLoad", "load"),
    Question("RepositoryModelUnload", "unload"),
)


def _as_message(what: str, said: Any, visit: Visit) -> Any:
    """Where the message has another form than the JSON."""
    if what == "repository":
        return {"models": said}
    if what in ("load", "unload"):
        return {"model_name": visit.named[1], "isLoaded" if what == "load" else "isUnloaded": True}
    if what != "config":
        return said
    versions = said["version_policy"]["specific"]["versions"]
    numbers = [version for version in versions if version.isdecimal()]  # other names of versions have no place there
    return {"config": {**said, "version_policy": {"specific": {"versions": numbers}}}}


def _required(name: str, field: str) -> str:
    if not name:
        raise Unfit(BAD_REQUEST, f"{field}: expected the name of a model")
    return name


def _value(parameter: Any) -> Any:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)
