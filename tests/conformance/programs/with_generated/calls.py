"""What somebody does with the generated Python clients: a model from its file to an answer, and away again.

Runs where only the clients are, so it prints what it saw for the test to look at. Words: control URL, inference URL,
token, a model's file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TypeVar

from mizzen_control_client import AuthenticatedClient
from mizzen_control_client.api.models import (
    add_version,
    create_model,
    current_version,
    delete_model,
    describe_model,
    describe_server,
    list_models,
    patch_model_object,
    promote,
    read_model_object,
    serve,
)
from mizzen_control_client.models import CurrentVersion as Current
from mizzen_control_client.models import (
    Deleted,
    JsonPatchItem,
    Model,
    ModelDescription,
    ModelView,
    ModelViewList,
    NewModel,
    Patch,
    ServerView,
    Status,
    VersionForm,
    VersionView,
    WhichVersion,
)
from mizzen_control_client.types import File
from mizzen_inference_client import AuthenticatedClient as InferenceClient
from mizzen_inference_client.api.models import infer, infer_of_version_in_namespace, model_metadata, model_ready
from mizzen_inference_client.api.server import server_metadata
from mizzen_inference_client.models import (
    Error,
    InferRequest,
    InferResponse,
    InputTensor,
    InputTensorDatatype,
    ModelMetadata,
    ModelReady,
    ServerMetadata,
)

T = TypeVar("T")
NAME = "generated"


def registered(control: AuthenticatedClient, file: Path) -> dict[str, object]:
    made = of(ModelView, create_model.sync(client=control, body=NewModel(name=NAME, framework="sklearn")))
    with file.open("rb") as payload:
        form = VersionForm(code=File(payload, file_name=file.name), framework="sklearn")
        version = of(VersionView, add_version.sync(NAME, "auto", client=control, body=form))
    server = of(ServerView, serve.sync(NAME, str(version.version), client=control))
    while not server.ready:
        time.sleep(0.1)
        server = of(ServerView, describe_server.sync(NAME, "1", str(server.id), client=control))
    of(ModelView, promote.sync(NAME, client=control, body=WhichVersion(version=1)))
    listed = of(ModelViewList, list_models.sync(client=control))
    whole = of(ModelDescription, describe_model.sync(NAME, client=control))
    return {
        "created": made.name,
        "version": version.version,
        "current": of(Current, current_version.sync(NAME, client=control)).version,
        "listed": [model.name for model in listed.items or []],
        "servers": [each.ready for each in whole.servers or []],
    }


def patched(control: AuthenticatedClient) -> list[dict[str, object]]:
    """Each of the three ways to change an object adds a label."""
    merge, step = Patch(), JsonPatchItem()
    merge["metadata"] = {"labels": {"merge": "1"}}
    step.additional_properties = {"op": "add", "path": "/metadata/labels/steps", "value": "2"}
    whole = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": NAME, "labels": {"apply": "3"}}}
    seen = []
    for body in (merge, [step], Model.from_dict(whole)):
        done = patch_model_object.sync("default", NAME, client=control, body=body, field_manager="generated")
        seen.append(of(Model, done).to_dict()["metadata"]["labels"])
    read = of(Model, read_model_object.sync("default", NAME, client=control))
    return [*seen, read.to_dict()["metadata"]["labels"]]


def predicted(inference: InferenceClient) -> dict[str, object]:
    rows: list[object] = [1, 2, 3, 4, 5, 6, 7, 8]
    tensor = InputTensor(name="input", shape=[2, 4], datatype=InputTensorDatatype.FP64, data=rows)
    asked = InferRequest(inputs=[tensor], id="mine")
    by_name = of(InferResponse, infer.sync(NAME, client=inference, body=asked))
    by_version = infer_of_version_in_namespace.sync("default", NAME, "1", client=inference, body=asked)
    # Milliseconds, as a text: it is a header.
    late = infer.sync_detailed(NAME, client=inference, body=asked, mizzen_timeout_ms="never")
    return {
        "id": by_name.id,
        "version": by_name.model_version,
        "outputs": [by_name.outputs[0].data, of(InferResponse, by_version).outputs[0].data],
        "platform": of(ModelMetadata, model_metadata.sync(NAME, client=inference)).platform,
        "ready": of(ModelReady, model_ready.sync(NAME, client=inference)).ready,
        "server": of(ServerMetadata, server_metadata.sync(client=inference)).name,
        "refused": [late.status_code, of(Error, late.parsed).error],
        "missing": of(Error, model_ready.sync("nobody", client=inference)).error,
    }


def refused(control: AuthenticatedClient, stranger: AuthenticatedClient) -> dict[str, object]:
    missing = describe_model.sync_detailed("nobody", client=control)
    status = of(Status, missing.parsed)
    taken = of(Status, create_model.sync(client=control, body=NewModel(name=NAME)))
    return {
        "missing": [missing.status_code, status.reason, status.code],
        "taken": taken.reason,
        "bad token": of(Status, describe_model.sync(NAME, client=stranger)).reason,
    }


def deleted(control: AuthenticatedClient) -> dict[str, object]:
    in_the_way = of(Status, delete_model.sync(NAME, client=control))
    gone = of(Deleted, delete_model.sync(NAME, client=control, cascade=True, wait=True))
    left = of(ModelViewList, list_models.sync(client=control))
    return {"in the way": in_the_way.reason, "deleted": gone.name, "left": [model.name for model in left.items or []]}


def of(wanted: type[T], answer: object) -> T:
    if not isinstance(answer, wanted):
        raise TypeError(f"{wanted.__name__} was expected, not {answer}")
    return answer


def main(control_url: str, inference_url: str, token: str, file: str) -> None:
    control = AuthenticatedClient(control_url, token, raise_on_unexpected_status=True)
    inference = InferenceClient(inference_url, token, raise_on_unexpected_status=True)
    seen = {
        "registered": registered(control, Path(file)),
        "patched": patched(control),
        "predicted": predicted(inference),
        "refused": refused(control, AuthenticatedClient(control_url, "nonsense")),
        "deleted": deleted(control),
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
