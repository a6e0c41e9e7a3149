"""Served models asked over REST: V2 in JSON, V2 in bytes, V1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from tests.support import planes


def metadata(plane: planes.TestPlane, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = _ok(httpx2.get(f"{plane.inference_url}/v2/models/{name}", verify=False)).json()
    return answer


def v2(plane: planes.TestPlane, name: str, given: dict[str, Array]) -> dict[str, Any]:
    inputs = []
    for title, array in given.items():
        datatype, shape, text = tensors.encode_json(array)
        inputs.append({"name": title, "datatype": datatype, "shape": shape, "data": json.loads(text)})
    url = f"{plane.inference_url}/v2/models/{name}/infer"
    answer = _ok(httpx2.post(url, json={"inputs": inputs}, verify=False)).json()
    return {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in answer["outputs"]}


def v2_bytes(plane: planes.TestPlane, name: str, given: dict[str, Array]) -> dict[str, Any]:
    answer = prepared(plane, name, given)(_unverified())
    size = int(answer.headers["inference-header-content-length"])
    at, found = size, {}
    for one in json.loads(answer.content[:size])["outputs"]:
        end = at + one["parameters"]["binary_data_size"]
        found[one["name"]] = tensors.decode_raw(one["datatype"], one["shape"], answer.content[at:end])
        at = end
    return found


def prepared(plane: planes.TestPlane, name: str, given: dict[str, Array]) -> Callable[[Any], httpx2.Response]:
    """A request in bytes, to be sent through a client as often as one likes."""
    inputs, raw = [], b""
    for title, array in given.items():
        kind, plain = tensors.as_datatype(array, text=False)
        data = tensors.encode_raw(kind, plain)
        inputs.append(
            {
                "name": title, "datatype": kind.name, "shape": list(array.shape),
                "parameters": {"binary_data_size": len(data)},
            }
        )  # fmt: skip
        raw += data
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    url = f"{plane.inference_url}/v2/models/{name}/infer"
    return lambda client: _ok(client.post(url, content=head + raw, headers=headers))


def v1(plane: planes.TestPlane, name: str, instances: Any) -> Any:
    url = f"{plane.inference_url}/v1/models/{name}:predict"
    return _ok(httpx2.post(url, json={"instances": instances}, verify=False)).json()["predictions"]


def _unverified() -> httpx2.Client:
    return httpx2.Client(verify=False)


def _ok(answer: httpx2.Response) -> httpx2.Response:
    assert answer.status_code == 200, answer.text
    return answer
