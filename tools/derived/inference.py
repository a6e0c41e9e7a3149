"""src/mizzen/gateway/http/openapi.json: the inference API as an OpenAPI 3.0 document, from the paths of the gateway.

Each path of `mizzen.gateway.request.url_paths` needs a row in `ANSWERS`. Paths with a namespace or a version are
separate operations, because OpenAPI has no optional parts of a path.
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
The Open Inference Protocol (V2) in JSON or with binary tensors, with the extensions that `/v2` lists; and V1, as in TF
Serving and KServe. Paths without a namespace mean `default`. A version in a path may be an alias; a label is an alias.
Bodies may be compressed with gzip or deflate, and are read as JSON whatever their content type. Every error is
`{"error": text}`. On any path, a request that is malformed, too slow or too large is rejected with 400, 408, 413 or
431, and one with a Transfer-Encoding other than chunked with 501."""
TAGS = {
    "server": "The gateway itself.",
    "models": "Served models and predictions.",
    "repository": "Model repository, for Triton clients.",
    "v1": "The V1 protocol.",
}
NAMED = {
    "namespace": "The namespace.",
    "model": "A model, an InferenceModel or an MLGraph, by its name.",
    "version": "A served version, or an alias.",
    "label": "An alias.",
}
HEADERS = {
    "If-None-Match": "The ETag of the client's copy: 304 if the document is unchanged.",
    "Inference-Header-Content-Length": "Length of the JSON part, if binary input data follows it.",
    "Mizzen-Request-Id": "Id of the request, unless its body has an `id`: 1 to 128 visible characters. If absent, "
    "the gateway generates one. `X-Request-Id` means the same. Every response has it.",
    "traceparent": "W3C trace context, passed on to the model with `tracestate`; ignored if it is not valid.",
    "Mizzen-Timeout-Ms": "Timeout in milliseconds, above 0; the server's own limit is an upper bound.",
}
PATTERNS = {
    "Inference-Header-Content-Length": "^[0-9]{1,12}$",
    "Mizzen-Timeout-Ms": r"^(?![0.]+$)[0-9]{1,12}(\.[0-9]{1,12})?$",
}
"""Patterns of numeric headers, which are strings in OpenAPI."""
MEANT = {
    400: "The request is malformed, or does not match the model's inputs.",
    401: "The token is missing or not valid.",
    403: "The caller lacks the right, or the request comes from a foreign web page.",
    404: "The model or version does not exist.",
    408: "The request arrived too slowly.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    415: "The body has an unsupported content encoding.",
    422: "The values are not valid, or contradict the record of the request.",
    429: "The caller's rate limit is exceeded; `Retry-After` says when to retry.",
    500: "The model raised an error.",
    502: "The process that handled the request was lost.",
    503: "No replica is ready, or the queue is full; `Retry-After` says when to retry.",
    504: "The deadline passed.",
}
"""Descriptions of errors by status code."""

BYTES = "application/octet-stream"
SIGNATURE = "serving_default"

_TENSOR: dict[str, Schema] = {
    "name": {**text(), "minLength": 1},
    "shape": many({**NUMBER, "minimum": 0, "maximum": v2.MAX_ELEMENTS}),
    "datatype": {"type": "string", "enum": list(v2.Datatype.__args__)},  # type: ignore[attr-defined]
    "data": {"type": "array", "items": {}, "description": "The values, nested or flat."},
}
_NAMED: Schema = {**_TENSOR["name"], "maxLength": v2.MAX_NAME}
_GIVEN: dict[str, Schema] = {**_TENSOR, "name": _NAMED, "shape": {**_TENSOR["shape"], "maxItems": v2.MAX_DIMS}}
_SHAPED = many({**NUMBER, "description": "-1: any size."})

SHAPES: dict[str, Schema] = {
    "Error": needs(shape("The body of every error.", error=text("Readable message.")), "error"),
    "Index": needs(shape("", name=text(), status=text("`alive`"), links=many(text())), "name", "status", "links"),
    "Health": needs(shape("", status=text("`ok`")), "status"),
    "Live": needs(shape("", live=FLAG), "live"),
    "Ready": needs(shape("", ready=FLAG, live=FLAG), "ready", "live"),
    "ServerMetadata": needs(shape("", name=text(), version=text(), extensions=many(text())), "name", "version",
                            "extensions"),
    "ModelList": needs(shape("", models=many(ref("ListedModel"))), "models"),
    "ListedModel": needs(
        shape("", name=text(), version=text("The version that answers to the name."), ready=FLAG), "name", "version",
        "ready",
    ),
    "ModelReady": needs(
        shape("", name=text(), ready=FLAG,
        reason=text("Why a call would wait for a replica. Absent: it would not wait.")),
        "name", "ready",
    ),
    "TensorMetadata": needs(shape("", name=text(), datatype=text(), shape=_SHAPED), "name", "datatype", "shape"),
    "ModelMetadata": needs(
        shape(
            "",
            name=text(), versions=many(text()), platform=text("The framework that loads it."),
            inputs={**many(ref("TensorMetadata")), "description": "Empty: it accepts any inputs."},
            outputs=many(ref("TensorMetadata")),
            parameters={**OPEN, "description": "`table`: a tensor of rows that may replace all inputs."},
        ),
        "name", "versions", "platform", "inputs", "outputs",
    ),
    "InputTensor": needs(shape("", **_GIVEN, parameters=maybe(OPEN)), "name", "shape", "datatype", "data"),
    "RequestedOutput": needs(shape("", name=_NAMED, parameters=maybe(OPEN)), "name"),
    "InferRequest": needs(
        shape(
            "",
            inputs={**many(ref("InputTensor")), "minItems": 1, "maxItems": v2.MAX_TENSORS},
            id=maybe({**text("Returned with the response."), "maxLength": v2.MAX_ID}),
            parameters=maybe({**OPEN, "description": "`timeout` in microseconds. "
                                                     "`binary_data_output`: all outputs as bytes after the JSON."}),
            outputs={**maybe({**many(ref("RequestedOutput")), "maxItems": v2.MAX_TENSORS}),
                     "description": "Return only these outputs. Absent: all."},
        ),
        "inputs",
    ),
    "OutputTensor": needs(shape("", **_TENSOR), "name", "shape", "datatype", "data"),
    "InferResponse": needs(
        shape(
            "",
            model_name=text(),
            model_version=text("The version that answered, even if the request used a name or an alias."),
            id=text("The id of the request, or a new one."), outputs=many(ref("OutputTensor")),
            parameters={**OPEN, "description": "For a graph: the `nodes` that ran, and the `routing` choices. "
                                               "For a default response: the reason."},
        ),
        "model_name", "model_version", "id", "outputs",
    ),
    "Explained": needs(
        shape(
            "Either `answer` and `parameters`, or `error` and `code`.",
            answer=ref("InferResponse"), parameters={**OPEN, "description": "Parameters of the response."},
            error=text("The error message."), code={**NUMBER,
            "description": "The status code that infer would return."},
            took_ms={"type": "number"},
            nodes={**many(ref("ExplainedCall")), "description": "All calls in chronological order."},
            taken={**many(text()), "description": "Nodes that received a message."},
            routing=many(needs(shape(
                "A routing choice.", node=text(), chosen=many(text()),
                probability={"type": "number", "description": "Probability of the choice, if known."},
            ), "node", "chosen")),
        ),
        "took_ms", "nodes", "taken", "routing",
    ),
    "ExplainedCall": needs(
        shape(
            "Either `outputs` or `error`.",
            node=text(), phase={"type": "string", "enum": ["merge", "implementation", "route"]},
            began_ms={"type": "number", "description": "Milliseconds since the request."}, took_ms={"type": "number"},
            code=NUMBER,
            outputs={**many(OPEN), "description": "Tensors; large ones without `data`."}, error=text(),
        ),
        "node", "phase", "began_ms", "took_ms", "code",
    ),
    "FeedbackRequest": {**needs(
        closed(shape(
            "`reward` or `truth` is needed.",
            id={**text("Id of the request, as sent or as in its response."), "minLength": 1,
                "maxLength": routes.MAX_ID},
            reward={"type": "number", "minimum": 0, "maximum": 1},
            truth={"anyOf": [*({"type": each} for each in ("number", "string", "boolean", "object")), many({})],
                   "description": "The correct response: the values of its first output, or an object of values by "
                                  "output name. Without a reward, it is compared with the response."},
            user={**text("The user of the request."), "maxLength": v2.MAX_QUOTED},
            routing={**text("The `routing` parameter of the response; required if the plane has no record of the "
                            "request."), "maxLength": routes.MAX_ROUTING},
        )),
        "id",
    ), "anyOf": [{"required": ["reward"]}, {"required": ["truth"]}]},
    "FeedbackTaken": needs(
        shape("", id=text(), reward={"type": "number"},
              counted={**FLAG, "description": "False: the same feedback was given before."}),
        "id", "reward", "counted",
    ),
    "ConfiguredTensor": needs(shape("", name=text(), data_type=text("`TYPE_FP64` and the like."), dims=_SHAPED), "name",
                              "data_type", "dims"),
    "ModelConfig": needs(
        shape(
            "Triton's model configuration, as far as it applies.",
            name=text(), platform=text(), backend=text(), version_policy=OPEN, dynamic_batching=OPEN,
            max_batch_size={**NUMBER, "description": "0: no batching, and dims include the rows."},
            input=many(ref("ConfiguredTensor")), output=many(ref("ConfiguredTensor")),
        ),
        "name", "platform", "backend", "version_policy", "max_batch_size", "input", "output",
    ),
    "Duration": needs(shape("", count=NUMBER, ns=NUMBER), "count", "ns"),
    "ModelStatistics": needs(
        shape(
            "Statistics of one version since this gateway started.",
            name=text(), version=text(),
            last_inference={**NUMBER, "description": "Milliseconds since 1970; 0: never."},
            inference_count=NUMBER, execution_count={**NUMBER, "description": "Batches."},
            inference_stats={
                "type": "object", "additionalProperties": ref("Duration"),
                "description": "Successful and failed requests; queue time and compute time of the servers.",
            },
            batch_stats=many(OPEN), memory_usage=many(OPEN),
        ),
        "name", "version", "last_inference", "inference_count", "execution_count", "inference_stats",
    ),
    "Statistics": needs(shape("", model_stats=many(ref("ModelStatistics"))), "model_stats"),
    "IndexRequest": shape("", ready={**FLAG, "description": "Only ready models."}),
    "IndexedModel": needs(
        shape("", name=text(), version=text(), state={"type": "string", "enum": ["READY", "UNAVAILABLE"]},
              reason=text()),
        "name", "version", "state", "reason",
    ),
    "ChangeRequest": shape("", parameters=closed(shape(
        "", unload_dependents={**FLAG, "description": "Accepted and ignored: models have no dependents here."},
    ))),
    "Changed": shape("It is done."),
    "NameList": needs(shape("", models=many(text())), "models"),
    "PredictRequest": {**closed(shape(
        "Either `instances`, one per row, or `inputs`, by column.",
        instances={"type": "array", "items": {}, "minItems": 1,
                   "description": "Rows: values, or objects of values by input name."},
        inputs={"description": "The rows of the only input, or an object of rows by input name."},
        signature_name={"type": "string", "enum": [SIGNATURE], "description": "The only signature."},
    )), "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}]},
    "PredictResponse": shape(
        "",
        predictions={"type": "array", "items": {}, "description": "One for each instance."},
        outputs={"description": "By column, if the request had `inputs`: the only output, or an object by name."},
    ),
    "VersionStatus": needs(
        shape("", version=text(), state={"type": "string", "enum": ["AVAILABLE", "LOADING"]}, status=OPEN),
        "version", "state", "status",
    ),
    "ModelStatus": needs(
        shape("", name=text(), ready=FLAG, model_version_status=many(ref("VersionStatus"))),
        "name", "ready", "model_version_status",
    ),
    "ModelSignature": needs(shape("As in TF Serving.", model_spec=OPEN, metadata=OPEN), "model_spec", "metadata"),
}  # fmt: skip

ANSWERS: dict[str, Operation] = {
    "index": Operation("GET", "", "index", "Links to the parts of the API.", {200: "Index"}, tag="server"),
    "health": Operation("GET", "", "health", "Whether the gateway is alive.", {200: "Health"}, tag="server"),
    "metrics": Operation("GET", "", "metrics", "Metrics for Prometheus, of models that the caller may see.",
    {200: text()},
                         media="text/plain", tag="server"),
    "triton": Operation("GET", "", "tritonMetrics", "The same, under Triton's names.", {200: text()},
                        media="text/plain", tag="server"),
    "document": Operation("GET", "", "openapi", "This document.", {200: {"type": "object"}, 304: None},
                          header=("If-None-Match",), tag="server"),
    "server": Operation("GET", "", "serverMetadata", "Name, version and extensions of the server.",
    {200: "ServerMetadata"}, tag="server"),
    "live": Operation("GET", "", "serverLive", "Whether the gateway is alive.", {200: "Live"}, tag="server"),
    "ready": Operation("GET", "", "serverReady", "Whether the gateway accepts requests.", {200: "Ready"}, tag="server"),
    "models": Operation("GET", "", "listModels", "List the served models of a namespace that the caller may see.",
                        {200: "ModelList"}),
    "metadata": Operation("GET", "", "modelMetadata", "Versions, inputs and outputs of a model.",
    {200: "ModelMetadata"}),
    "model_ready": Operation("GET", "", "modelReady", "Whether a model is ready: 503 if not.", {200: "ModelReady"}),
    "config": Operation("GET", "", "modelConfig", "Triton's configuration of a model.", {200: "ModelConfig"}),
    "model_stats": Operation("GET", "", "modelStatistics", "Statistics of a model.", {200: "Statistics"}),
    "stats": Operation("GET", "", "statistics", "Statistics of all models in a namespace that the caller may see.",
                       {200: "Statistics"}),
    "infer": Operation("POST", "", "infer", "Predict.", {200: "InferResponse"},
                       body={JSON: "InferRequest", BYTES: {"type": "string", "format": "binary"}},
                       header=("Mizzen-Timeout-Ms", "Inference-Header-Content-Length", "Mizzen-Request-Id",
                               "traceparent")),
    "explain": Operation("POST", "", "explain", "Predict with a graph, and report what each node did.",
                         {200: "Explained"}, body={JSON: "InferRequest"},
                         header=("Mizzen-Timeout-Ms", "Mizzen-Request-Id", "traceparent")),
    "feedback": Operation("POST", "", "feedback", "Give feedback on a response.", {200: "FeedbackTaken"},
                          body={JSON: "FeedbackRequest"}),
    "repository": Operation("POST", "", "repositoryIndex", "List served versions and their readiness.",
                            {200: many(ref("IndexedModel"))}, body={JSON: "IndexRequest"}, body_required=False,
                            tag="repository"),
    "load": Operation("POST", "", "loadModel", "Start serving a model; responds once it is ready.", {200: "Changed"},
                      body={JSON: "ChangeRequest"}, body_required=False, tag="repository"),
    "unload": Operation("POST", "", "unloadModel", "Stop serving a model; responds once its processes have ended.",
                        {200: "Changed"}, body={JSON: "ChangeRequest"}, body_required=False, tag="repository"),
    "v1_models": Operation("GET", "", "listNames", "List the served models of a namespace that the caller may see.",
                           {200: "NameList"}, tag="v1"),
    "v1_status": Operation("GET", "", "modelStatus", "Versions of a model and their readiness.",
                           {200: "ModelStatus"}, tag="v1"),
    "v1_metadata": Operation("GET", "", "modelSignature", "Inputs and outputs of a model.", {200: "ModelSignature"},
    tag="v1"),
    "predict": Operation("POST", "", "predict", "Predict.", {200: "PredictResponse"}, body={JSON: "PredictRequest"},
                         header=("Mizzen-Timeout-Ms", "Mizzen-Request-Id", "traceparent"), tag="v1"),
}  # fmt: skip
"""By the purpose of a path."""
OPEN_TO_ALL = ("index", "health", "live", "ready")
CHANGES = ("load", "unload")
"""Answered by the plane."""


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
    """The operations of each path, also with a namespace prefix, with their purposes."""
    for path in PATHS:
        yield _placed(path, path.pattern), path.what
    for path in PATHS:
        if path.anywhere:
            yield _placed(path, NAMESPACE + path.pattern), path.what


def failures(operation: Operation, what: str) -> tuple[int, ...]:
    """Status codes of errors that it may return."""
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
        # Binary outputs follow the JSON, whose length this header gives.
        content[BYTES] = {"schema": _schema(operation.body[BYTES])}
        answer["headers"] = {
            "Inference-Header-Content-Length": {
                "description": "Length of the JSON part, if binary outputs follow it.", "schema": {"type": "string"},
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
