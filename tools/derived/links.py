"""What may be asked with what an operation answered, as OpenAPI's links: by the id of the operation that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MODEL = {"model": "$response.body#/name", "namespace": "$response.body#/namespace"}
_VERSION = {
    "model": "$response.body#/model", "version": "$response.body#/version", "namespace": "$response.body#/namespace",
}  # fmt: skip
_SERVER = {**_VERSION, "server": "$response.body#/id"}
_JOB = {**_VERSION, "job": "$response.body#/id"}
_USER = {"user": "$response.body#/name"}
_TOKEN = {"user": "$response.body#/user", "token": "$response.body#/id"}
_LIMIT = {"subject": "$response.body#/subject"}
_SECRET = {"secret": "$response.body#/name", "namespace": "$response.body#/namespace"}

_VERSIONED = ("describeVersion", "deleteVersion", "trustVersion", "serve", "listServers", "train", "listJobs")
_ROWS: tuple[tuple[tuple[str, ...], Mapping[str, str], tuple[str, ...]], ...] = (
    (
        ("createModel",),
        _MODEL,
        ("describeModel", "deleteModel", "history", "addNextVersion", "listVersions", "askUpload"),
    ),
    (("addNextVersion", "addVersion"), _VERSION, _VERSIONED),
    (("serve",), _SERVER, ("describeServer", "deleteServer")),
    (("train",), _JOB, ("describeJob", "terminateJob", "suspendJob", "resumeJob", "jobLogs", "listCheckpoints")),
    (("createUser",), _USER, ("describeUser", "deleteUser", "createToken", "listTokens")),
    (("createToken",), _TOKEN, ("revokeToken",)),
    (("setLimit",), _LIMIT, ("describeLimit", "deleteLimit")),
    (("setSecret", "changeSecret"), _SECRET, ("describeSecret", "changeSecret", "deleteSecret")),
)

LINKS: dict[str, dict[str, Any]] = {
    source: {target: {"operationId": target, "parameters": dict(parameters)} for target in targets}
    for sources, parameters, targets in _ROWS
    for source in sources
}
