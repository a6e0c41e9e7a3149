"""src/mizzen/gateway/http/openapi.json: the inference API as an OpenAPI 3.0 document, from the paths of the gateway.

Each path of `mizzen.gateway.request.url_paths` needs a row in `ANSWERS`, under what it asks for. Paths that name a
namespace, or a version, are operations of their own, since OpenAPI knows no optional parts of a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from mizzen.gateway.feedback import routes
from mizzen.gateway.request import url_paths
from mizzen.gateway.request.url_paths import NAMESPACE, PATHS
from mizzen.protocol import v2
from tools.derived.openapi import text_of
from tools.derived.operations import JSON, Operation
from tools.derived.shapes import FLAG, NUMBER, OPEN, Schema, closed, many, maybe, needs, ref, shape, text

PATH = "src/mizzen/gateway/http/openapi.json"
ABOUT = """\
The Open Inference Protocol (V2) in JSON or with binary tensors, with the extensions that `/v2` lists; and V1, as TF
Serving and KServe have it. Paths without a namespace mean `default`. A version in a path may be an alias; a label is
one. Bodies may be packed with gzip or deflate, and are read as JSON whatever type they are said to be. Every error is
`{"error": text}`. Wherever it goes, a request that is no HTTP, comes too slowly or is too large is refused with 400,
408, 413 or 431; one whose Transfer-Encoding is more than chunked, with 501."""
TAGS = {
    "server": "The gateway itself.",
    "models": "What is served, and what it answers.",
    "repository": "What could be served, as Triton's clients ask for it.",
    "v1": "The same in V1.",
}
NAMED = {
    "namespace": "The namespace.",
    "model": "A model, an InferenceModel or an MLGraph, by its name.",
    "version": "A version that is served, or an alias.",
    "label": "An alias.",
}
HEADERS = {
    "If-None-Match": "The ETag of a document that is there already: 304 when it is still the same.",
    "Inference-Header-Content-Length": "How long the JSON is, where the data of inputs follows it as bytes.",
    "Mizzen-Request-Id": "What the request is called, unless its body has an `id`: 1 to 128 visible characters, else "
    "one is made up. `X-Request-Id` means the same. Every answer has it.",
    "traceparent": "W3C trace context, handed on to the model with `tracestate`; ignored when it is not valid.",
    "Mizzen-Timeout-Ms": "Milliseconds to wait for an answer, more than 0, if less than the server's own limit.",
}
PATTERNS = {
    "Inference-Header-Content-Length": "^[0-9]{1,12}$",
    "Mizzen-Timeout-Ms": r"^(?![0.]+$)[0-9]{1,12}(\.[0-9]{1,12})?$",
}
"""Of headers that are numbers, as texts."""
MEANT = {
    400: "The request cannot be read, or does not fit what the model takes.",
    401: "A token is needed, or this one is not good.",
    403: "These rights do not reach that far, or the request comes from a page of somebody else.",
    404: "There is no such model or version.",
    408: "The request took too long to come in.",
    409: "What is there is in the way.",
    413: "The body is too large.",
    415: "The body is packed in a way that cannot be read.",
    422: "What it says cannot be, or does not fit what is known of the request.",
    429: "The caller's limit is used up for now; `Retry-After` says when to come again.",
    500: "The model raised an error.",
    502: "The process that worked on it was lost.",
    503: "Nothing there is ready now, or too much waits; `Retry-After` says when to come again.",
    504: "It took longer than it may.",
}
"""Errors by code, in words."""

BYTES = "application/octet-stream"
SIGNATURE = "serving_default"

_TENSOR: dict[str, Schema] = {
    "name": {**text(), "minLength": 1},
    "shape": many({**NUMBER, "minimum": 0, "maximum": v2.MAX_ELEMENTS}),
    "datatype": {"type": "string", "enum": list(v2.Datatype.__args__)},  # type: ignore[attr-defined]
    "data": {"type": "array", "items": {}, "description": "The values, in rows or flat."},
}
_NAMED: Schema = {**_TENSOR["name"], "maxLength": v2.MAX_NAME}
_GIVEN: dict[str, Schema] = {**_TENSOR, "name": _NAMED, "shape": {**_TENSOR["shape"], "maxItems": v2.MAX_DIMS}}
_SHAPED = many({**NUMBER, "description": "-1: any size."})

SHAPES: dict[str, Schema] = {
    "Error": needs(shape("Of every error.", error=text("What is wrong, for people.")), "error"),
    "Index": needs(shape("", name=text(), status=text("`alive`"), links=many(text())), "name", "status", "links"),
    "Health": needs(shape("", status=text("`ok`")), "status"),
    "Live": needs(shape("", live=FLAG), "live"),
    "Ready": needs(shape("", ready=FLAG, live=FLAG), "ready", "live"),
    "ServerMetadata": needs(shape("", name=text(), version=text(), extensions=many(text())), "name", "version",
                            "extensions"),
    "ModelList": needs(shape("", models=many(ref("ListedModel"))), "models"),
    "ListedModel": needs(
        shape("", name=text(), version=text("The one that answers to the name."), ready=FLAG), "name", "version",
        "ready",
    ),
    "ModelReady": needs(
        shape("", name=text(), ready=FLAG, reason=text("Why a call would wait for a replica; absent: it would not.")),
        "name", "ready",
    ),
    "TensorMetadata": needs(shape("", name=text(), datatype=text(), shape=_SHAPED), "name", "datatype", "shape"),
    "ModelMetadata": needs(
        shape(
            "",
            name=text(), versions=many(text()), platform=text("What loads it."),
            inputs={**many(ref("TensorMetadata")), "description": "Empty: it takes what it is given."},
            outputs=many(ref("TensorMetadata")),
            parameters={**OPEN, "description": "`table`: a tensor of rows that may be sent in place of all inputs."},
        ),
        "name", "versions", "platform", "inputs", "outputs",
    ),
    "InputTensor": needs(shape("", **_GIVEN, parameters=maybe(OPEN)), "name", "shape", "datatype", "data"),
    "RequestedOutput": needs(shape("", name=_NAMED, parameters=maybe(OPEN)), "name"),
    "InferRequest": needs(
        shape(
            "",
            inputs={**many(ref("InputTensor")), "minItems": 1, "maxItems": v2.MAX_TENSORS},
            id=maybe({**text("Comes back with the answer."), "maxLength": v2.MAX_ID}),
            parameters=maybe({**OPEN, "description": "`timeout`: how long it may take, in microseconds. "
                                                     "`binary_data_output`: all outputs as bytes behind the JSON."}),
            outputs={**maybe({**many(ref("RequestedOutput")), "maxItems": v2.MAX_TENSORS}),
                     "description": "Only these; all, if absent."},
        ),
        "inputs",
    ),
    "OutputTensor": needs(shape("", **_TENSOR), "name", "shape", "datatype", "data"),
    "InferResponse": needs(
        shape(
            "",
            model_name=text(), model_version=text("The version that answered, also to a name or an alias."),
            id=text("As it was sent, or a new one."), outputs=many(ref("OutputTensor")),
            parameters={**OPEN, "description": "Of a graph: which `nodes` were taken, and which children `routing` "
                                               "took. Of a default answer: why."},
        ),
        "model_name", "model_version", "id", "outputs",
    ),
    "Explained": needs(
        shape(
            "Either `answer` and `parameters`, or `error` and `code`.",
            answer=ref("InferResponse"), parameters={**OPEN, "description": "Of the answer."},
            error=text("What went wrong."), code={**NUMBER, "description": "What infer would have answered."},
            took_ms={"type": "number"},
            nodes={**many(ref("ExplainedCall")), "description": "Each call, in the order of time."},
            taken={**many(text()), "description": "Nodes that got a message."},
            routing=many(needs(shape(
                "A choice.", node=text(), chosen=many(text()),
                probability={"type": "number", "description": "How likely it was, where that is known."},
            ), "node", "chosen")),
        ),
        "took_ms", "nodes", "taken", "routing",
    ),
    "ExplainedCall": needs(
        shape(
            "Either `outputs` or `error`.",
            node=text(), phase={"type": "string", "enum": ["merge", "implementation", "route"]},
            began_ms={"type": "number", "description": "Since the request."}, took_ms={"type": "number"}, code=NUMBER,
            outputs={**many(OPEN), "description": "Tensors; of large ones, without `data`."}, error=text(),
        ),
        "node", "phase", "began_ms", "took_ms", "code",
    ),
    "FeedbackRequest": {**needs(
        closed(shape(
            "`reward` or `truth` is needed.",
            id={**text("Of the request: as it was sent, or as its answer has it."), "minLength": 1,
                "maxLength": routes.MAX_ID},
            reward={"type": "number", "minimum": 0, "maximum": 1},
            truth={"anyOf": [*({"type": each} for each in ("number", "string", "boolean", "object")), many({})],
                   "description": "What the answer should have been: the values of its first output, or an object of "
                                  "them by the names of outputs. Without a reward, it is compared with the answer."},
            user={**text("Whom the request was for."), "maxLength": v2.MAX_CITED},
            routing={**text("The parameter of that name of the answer: needed where no record of the request is "
                            "left."), "maxLength": routes.MAX_ROUTING},
        )),
        "id",
    ), "anyOf": [{"required": ["reward"]}, {"required": ["truth"]}]},
    "FeedbackTaken": needs(
        shape("", id=text(), reward={"type": "number"},
              counted={**FLAG, "description": "false: the same was given before."}),
        "id", "reward", "counted",
    ),
    "ConfiguredTensor": needs(shape("", name=text(), data_type=text("`TYPE_FP64` and the like."), dims=_SHAPED), "name",
                              "data_type", "dims"),
    "ModelConfig": needs(
        shape(
            "Triton's model configuration, as far as there is anything like it here.",
            name=text(), platform=text(), backend=text(), version_policy=OPEN, dynamic_batching=OPEN,
            max_batch_size={**NUMBER, "description": "0: requests are not batched, and dims begin with the rows."},
            input=many(ref("ConfiguredTensor")), output=many(ref("ConfiguredTensor")),
        ),
        "name", "platform", "backend", "version_policy", "max_batch_size", "input", "output",
    ),
    "Duration": needs(shape("", count=NUMBER, ns=NUMBER), "count", "ns"),
    "ModelStatistics": needs(
        shape(
            "Of one version, since this gateway began.",
            name=text(), version=text(),
            last_inference={**NUMBER, "description": "Milliseconds since 1970; 0: never."},
            inference_count=NUMBER, execution_count={**NUMBER, "description": "Batches."},
            inference_stats={
                "type": "object", "additionalProperties": ref("Duration"),
                "description": "Requests that succeeded and failed; waits and time in the model of the servers behind.",
            },
            batch_stats=many(OPEN), memory_usage=many(OPEN),
        ),
        "name", "version", "last_inference", "inference_count", "execution_count", "inference_stats",
    ),
    "Statistics": needs(shape("", model_stats=many(ref("ModelStatistics"))), "model_stats"),
    "IndexRequest": shape("", ready={**FLAG, "description": "Only what is ready."}),
    "IndexedModel": needs(
        shape("", name=text(), version=text(), state={"type": "string", "enum": ["READY", "UNAVAILABLE"]},
              reason=text()),
        "name", "version", "state", "reason",
    ),
    "ChangeRequest": shape("", parameters=closed(shape(
        "", unload_dependents={**FLAG, "description": "Taken, and not needed: nothing here depends on a model."},
    ))),
    "Changed": shape("It is so."),
    "NameList": needs(shape("", models=many(text())), "models"),
    "PredictRequest": {**closed(shape(
        "Either `instances`, one for each row, or `inputs`, by columns.",
        instances={"type": "array", "items": {}, "minItems": 1,
                   "description": "Rows: values, or objects of values by the names of inputs."},
        inputs={"description": "The rows of the one input, or an object of them by the names of inputs."},
        signature_name={"type": "string", "enum": [SIGNATURE], "description": "The only one there is."},
    )), "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}]},
    "PredictResponse": shape(
        "",
        predictions={"type": "array", "items": {}, "description": "One for each of `instances`."},
        outputs={"description": "By columns, where `inputs` were: of the one output, or by their names."},
    ),
    "VersionStatus": needs(
        shape("", version=text(), state={"type": "string", "enum": ["AVAILABLE", "LOADING"]}, status=OPEN),
        "version", "state", "status",
    ),
    "ModelStatus": needs(
        shape("", name=text(), ready=FLAG, model_version_status=many(ref("VersionStatus"))),
        "name", "ready", "model_version_status",
    ),
    "ModelSignature": needs(shape("As TF Serving tells it.", model_spec=OPEN, metadata=OPEN), "model_spec", "metadata"),
}  # fmt: skip

ANSWERS: dict[str, Operation] = {
    "index": Operation("GET", "", "index", "Where things are.", {200: "Index"}, tag="server"),
    "health": Operation("GET", "", "health", "Whether the gateway lives.", {200: "Health"}, tag="server"),
    "metrics": Operation("GET", "", "metrics", "Figures for Prometheus, of what one may see.", {200: text()},
                         media="text/plain", tag="server"),
    "triton": Operation("GET", "", "tritonMetrics", "The same, as Triton names it.", {200: text()},
                        media="text/plain", tag="server"),
    "document": Operation("GET", "", "openapi", "This document.", {200: {"type": "object"}, 304: None},
                          header=("If-None-Match",), tag="server"),
    "server": Operation("GET", "", "serverMetadata", "Which server this is.", {200: "ServerMetadata"}, tag="server"),
    "live": Operation("GET", "", "serverLive", "Whether the gateway lives.", {200: "Live"}, tag="server"),
    "ready": Operation("GET", "", "serverReady", "Whether the gateway takes requests.", {200: "Ready"}, tag="server"),
    "models": Operation("GET", "", "listModels", "What is served in a namespace, and one may see.",
                        {200: "ModelList"}),
    "metadata": Operation("GET", "", "modelMetadata", "Versions, inputs and outputs.", {200: "ModelMetadata"}),
    "model_ready": Operation("GET", "", "modelReady", "Whether it is ready: 503 if not.", {200: "ModelReady"}),
    "config": Operation("GET", "", "modelConfig", "How it is served, in Triton's words.", {200: "ModelConfig"}),
    "model_stats": Operation("GET", "", "modelStatistics", "What it has answered.", {200: "Statistics"}),
    "stats": Operation("GET", "", "statistics", "What all of a namespace have answered, that one may see.",
                       {200: "Statistics"}),
    "infer": Operation("POST", "", "infer", "Predict.", {200: "InferResponse"},
                       body={JSON: "InferRequest", BYTES: {"type": "string", "format": "binary"}},
                       header=("Mizzen-Timeout-Ms", "Inference-Header-Content-Length", "Mizzen-Request-Id",
                               "traceparent")),
    "explain": Operation("POST", "", "explain", "Predict with a graph, and tell what each of its nodes did.",
                         {200: "Explained"}, body={JSON: "InferRequest"},
                         header=("Mizzen-Timeout-Ms", "Mizzen-Request-Id", "traceparent")),
    "feedback": Operation("POST", "", "feedback", "Say how well a request was answered.", {200: "FeedbackTaken"},
                          body={JSON: "FeedbackRequest"}),
    "repository": Operation("POST", "", "repositoryIndex", "Which versions are served, and whether they are ready.",
                            {200: many(ref("IndexedModel"))}, body={JSON: "IndexRequest"}, body_required=False,
                            tag="repository"),
    "load": Operation("POST", "", "loadModel", "Start serving it; answers when it is ready.", {200: "Changed"},
                      body={JSON: "ChangeRequest"}, body_required=False, tag="repository"),
    "unload": Operation("POST", "", "unloadModel", "Stop serving it; answers when its processes have ended.",
                        {200: "Changed"}, body={JSON: "ChangeRequest"}, body_required=False, tag="repository"),
    "v1_models": Operation("GET", "", "listNames", "What is served in a namespace, and one may see.",
                           {200: "NameList"}, tag="v1"),
    "v1_status": Operation("GET", "", "modelStatus", "Its versions, and whether they are ready.",
                           {200: "ModelStatus"}, tag="v1"),
    "v1_metadata": Operation("GET", "", "modelSignature", "Inputs and outputs.", {200: "ModelSignature"}, tag="v1"),
    "predict": Operation("POST", "", "predict", "Predict.", {200: "PredictResponse"}, body={JSON: "PredictRequest"},
                         header=("Mizzen-Timeout-Ms", "Mizzen-Request-Id", "traceparent"), tag="v1"),
}  # fmt: skip
"""By what a path asks for."""
OPEN_TO_ALL = ("index", "health", "live", "ready")
CHANGES = ("load", "unload")
"""What the plane answers."""


def pages() -> dict[str, str]:
    return {PATH: text_of(document(), 3) + "\n"}


def document() -> dict[str, Any]:
    described: dict[str, Any] = {}
    for operation, what in operations():
        described.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, what)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Mizzen inference API", "version": "v2", "description": " ".join(ABOUT.split())},
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "security": [{}, {"bearer": []}],
        "paths": described,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "parameters": _all_parameters(),
            "responses": {
                HTTPStatus(code).name: {"description": about, "content": {JSON: {"schema": ref("Error")}}}
                for code, about in MEANT.items()
            },
            "schemas": SHAPES,
        },
    }


def operations() -> Iterator[tuple[Operation, str]]:
    """One for each path, and each with a namespace before it, with what it asks for."""
    for path in PATHS:
        yield _placed(path, path.pattern), path.what
    for path in PATHS:
        if path.anywhere:
            yield _placed(path, NAMESPACE + path.pattern), path.what


def failures(operation: Operation, what: str) -> tuple[int, ...]:
    """Codes of errors that it may answer."""
    codes = {403}
    if what not in OPEN_TO_ALL:
        codes |= {401, 503}
    if "{model}" in operation.path:
        codes.add(404)
    if operation.body:
        codes |= {400, 408, 413, 415}
    if what in CHANGES:
        codes |= {409, 504}
    elif what == "feedback":
        codes |= {409, 422}
    elif what == "explain":
        codes |= {409, 429}
    elif operation.body and "{model}" in operation.path:
        codes |= {429, 500, 502, 504}
    return tuple(sorted(codes))


def _placed(path: url_paths.Path, pattern: str) -> Operation:
    row = ANSWERS[path.what]
    assert row.method == path.method
    asked = "OfVersion" if "{version}" in pattern else "OfLabel" if "{label}" in pattern else ""
    id_ = row.id + asked + ("InNamespace" if pattern.startswith(NAMESPACE) else "")
    return replace(row, path=pattern, id=id_)


def _operation(operation: Operation, what: str) -> dict[str, Any]:
    named = (
        *(("path", name) for name in re.findall(r"{(\w+)}", operation.path)),
        *(("header", name) for name in operation.header),
    )
    result: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [{"$ref": f"#/components/parameters/{place}.{name}"} for place, name in named],
        "responses": {str(code): _answer(operation, code) for code in operation.answers}
        | {
            str(code): {"$ref": f"#/components/responses/{HTTPStatus(code).name}"} for code in failures(operation, what)
        },
    }
    if operation.body:
        content = {media: {"schema": _schema(body)} for media, body in operation.body.items()}
        result["requestBody"] = {"content": content, "required": operation.body_required}
    return result


def _answer(operation: Operation, code: int) -> dict[str, Any]:
    body = operation.answers[code]
    answer: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    if body is None:
        return answer
    content = {operation.media: {"schema": _schema(body)}}
    if BYTES in operation.body:
        # Who asks for outputs as bytes gets them behind the JSON, whose length this tells.
        content[BYTES] = {"schema": _schema(operation.body[BYTES])}
        answer["headers"] = {
            "Inference-Header-Content-Length": {
                "description": "Where outputs follow as bytes: how long the JSON is.", "schema": {"type": "string"},
            }
        }  # fmt: skip
    return {**answer, "content": content}


def _schema(body: str | Schema) -> Schema:
    return ref(body) if isinstance(body, str) else body


def _all_parameters() -> dict[str, Any]:
    rows = (
        *(("path", name, about) for name, about in NAMED.items()),
        *(("header", name, about) for name, about in HEADERS.items()),
    )
    return {
        f"{place}.{name}": {
            "name": name, "in": place, "description": about, "required": place == "path",
            "schema": {"type": "string", **({"pattern": PATTERNS[name]} if name in PATTERNS else {})},
        }
        for place, name, about in rows
    }  # fmt: skip
