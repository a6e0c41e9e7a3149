"""Random inputs of every format to every port of a plane with real processes.

Each is nearly right. Whatever it is: no 5xx but those that are documented, no Traceback in any log, no process that
ends or grows without bounds, and the next caller has an answer.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx2
import pytest

from mizzen.gateway.grpc.wire import message_types
from mizzen.web.http2 import frames
from mizzen.web.http2.headers import encode_headers
from tests.support import attack, fuzzing, malformed, planes
from tests.support.fuzzing import Fuzzing, Mutator, exchange, repeat

MODEL = """
import numpy as np


class Strict:
    inputs = (
        {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "k", "datatype": "INT8", "shape": [-1]},
        {"name": "t", "datatype": "BYTES", "shape": [-1]},
    )
    outputs = ({"name": "sum", "datatype": "FP64", "shape": [-1]}, {"name": "t", "datatype": "BYTES", "shape": [-1]})

    def predict(self, inputs):
        sums = inputs["x"].astype("f8").sum(axis=1) + inputs["k"]
        # Not the texts themselves: what is not UTF-8 has no JSON (docs/critiques.md).
        return {"sum": sums, "t": np.array([ascii(each).encode() for each in inputs["t"]], object)}
"""
OBJECTS = "/apis/mizzen.dev/v1alpha1/namespaces/default"
API = {"apiVersion": "mizzen.dev/v1alpha1"}
INTERNAL_GRPC = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)

SPECS: dict[str, Any] = {
    "models": {"description": "of nothing", "framework": "sklearn", "signature": {"inputs": [{"name": "x"}]}},
    "inferencemodels": {"modelName": "strict", "version": "1", "replicas": 1, "resources": {"memory": "1Gi"}},
    "mlgraphs": {"dag": [{"name": "a", "call": {"model": "strict"}}, {"name": "b", "dependencies": ["a"], "merge": 1}]},
    "trainingjobs": {"modelName": "strict", "replicas": {"worker": {"count": 1, "command": ["true"]}}},
    "rolebindings": {"subjects": ["ada"], "verbs": ["read"], "target": {"namespace": "default"}},
}  # fmt: skip
KINDS = {
    "models": "Model", "inferencemodels": "InferenceModel", "mlgraphs": "MLGraph", "trainingjobs": "TrainingJob",
    "rolebindings": "RoleBinding",
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    folder = tmp_path_factory.mktemp("fuzzed")
    (folder / "data").mkdir()
    (folder / "data" / "settings.toml").write_text(f"max_body_bytes = {4 << 20}\n")
    (folder / "strict.py").write_text(MODEL)
    with planes.running_plane(folder / "data") as running:
        running.cli("deploy", "strict:Strict", "--name", "strict", cwd=folder)
        ready = f"{running.inference_url}/v2/models/strict/ready"
        planes.wait_until(lambda: httpx2.get(ready, trust_env=False).status_code == 200, "the model is ready")
        good = malformed.text(malformed.v2(malformed.rows(2, 1)))
        assert httpx2.post(running.inference_url + malformed.V2, content=good, trust_env=False).status_code == 200
        yield running


@pytest.fixture(scope="module")
def admin(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, trust_env=False) as client:
        client.post("/model", json={"name": "fuzz"})
        yield client


@pytest.fixture(scope="module")
def gateway(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=plane.inference_url, timeout=60, trust_env=False) as client:
        yield client


# HTTP


@pytest.mark.parametrize("port", ["control_url", "tls_url", "inference_url", "grpc_address"])
def test_http1(plane: planes.TestPlane, port: str) -> None:
    url: str = getattr(plane, port)
    host = urlsplit(url if "//" in url else f"http://{url}").netloc
    with fuzzing.fuzzing(plane, f"http1 {port}") as (run, mutator):
        repeat(run, 60, lambda: http1_request(mutator, host, plane.token()), lambda data: exchange(url, data))


def http1_request(mutator: Mutator, host: str, token: str) -> bytes:
    rng = mutator.rng
    method = rng.choice(
        ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "", "get", "A" * 99]
    )
    path = rng.choice(
        ["/", "/model", "/model/strict", malformed.V2, malformed.V1, "/v2", f"{OBJECTS}/models", "/metrics", "//", "*",
         "/model/%2e%2e/x", "/%", "/a?b=c&b", "http://x/y", "/" + "a" * 9000, "/v2/models/\xe9/infer", "/.\0."]
    )  # fmt: skip
    version = rng.choice(["HTTP/1.1"] * 6 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "http/1.1", ""])
    body = mutator.json(malformed.v2(malformed.rows(2, 3)))
    fields = [
        ("Host", host), ("Content-Length", str(len(body))), ("Content-Length", str(len(body) + 1)),
        ("Content-Length", "-1"), ("Content-Length", "9" * 30), ("Transfer-Encoding", "chunked"),
        ("Transfer-Encoding", "gzip, chunked"), ("Expect", "100-continue"), ("Upgrade", "websocket"),
        ("Connection", "close"), ("Connection", "upgrade"), ("Upgrade", "h2c"), ("Content-Encoding", "gzip"),
        ("Authorization", f"Bearer {token}"), ("Authorization", "Bearer \xff"), ("Cookie", "a=" * 50),
        ("Origin", "null"), ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"), ("Range", "bytes=0-0,1-"),
        ("traceparent", "00-" + "0" * 60), (malformed.LENGTH, "3"), ("A" * 300, "b" * 3000), ("X", "\t"),
        ("Content-Type", rng.choice(["application/json", "text/yaml", "multipart/form-data; boundary=", "x/\0"])),
    ]  # fmt: skip
    chosen = [fields[0], *rng.sample(fields, rng.randint(0, 6))]
    if rng.random() < 0.7:
        chosen = [one for one in chosen if one[0] not in ("Content-Length", "Transfer-Encoding")]
        chunked = rng.random() < 0.5
        chosen.append(("Transfer-Encoding", "chunked") if chunked else fields[1])
        body = chunks(mutator, body) if chunked else body
    ends = rng.choice(["\r\n"] * 8 + ["\n", "\r", "\r\n "])
    head = ends.join([f"{method} {path} {version}", *(f"{name}: {value}" for name, value in chosen), "", ""])
    data = head.encode("latin-1", "replace") + body
    return mutator.bytes_(data) if rng.random() < 0.4 else data


def chunks(mutator: Mutator, body: bytes) -> bytes:
    rng, data, at = mutator.rng, b"", 0
    while at < len(body):
        size = rng.choice((1, 7, 100))
        piece = body[at : at + size]
        at += size
        said = rng.choice([f"{len(piece):x}"] * 20 + ["0", "-1", "ffffffffffffffff", "1;a=b", " 5", ""])
        data += said.encode() + b"\r\n" + piece + b"\r\n"
    return data + rng.choice([b"0\r\n\r\n", b"0\r\nAuthorization: Bearer x\r\n\r\n", b"", b"0\r\n", b"0;\r\n\r\n"])


def test_http2_frames(plane: planes.TestPlane) -> None:
    with fuzzing.fuzzing(plane, "http2") as (run, mutator):
        repeat(run, 120, lambda: http2_frames(mutator), lambda data: exchange(plane.grpc_address, data))


def http2_frames(mutator: Mutator) -> bytes:
    rng = mutator.rng
    head = [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/inference.GRPCInferenceService/ModelInfer"),
        (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
    ]  # fmt: skip
    data = frames.PREFACE + frames.encode_settings({})
    for _ in range(rng.randint(1, 12)):
        kind, flags = rng.choice((*range(10), 1, 1, 0, 0, 200)), rng.choice((0, 1, 4, 5, 5, 8, 0x20, 0xFF))
        stream = rng.choice((0, 1, 1, 1, 3, 5, 2, 2**31 - 1))
        payload = rng.choice(
            [encode_headers(head), encode_headers(rng.sample(head, 4)), rng.randbytes(rng.randrange(80)), b"",
             struct.pack(">BL", 0, 5) + b"abcde", struct.pack(">BL", 1, 2**31) + b"x", bytes(8), b"\0" * 16384,
             struct.pack(">HL", rng.randrange(9), rng.choice((0, 1, 2**31, 2**32 - 1))), struct.pack(">L", 0)]
        )  # fmt: skip
        frame = frames.encode_frame(kind, flags, stream, payload)
        data += mutator.bytes_(frame) if rng.random() < 0.2 else frame
    return data if rng.random() < 0.9 else mutator.bytes_(data)


# Predictions


def test_grpc_messages(plane: planes.TestPlane) -> None:
    with (
        fuzzing.fuzzing(plane, "grpc") as (run, mutator),
        grpc.insecure_channel(plane.grpc_address, [("grpc.use_local_subchannel_pool", 1)]) as channel,
    ):
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", request_serializer=bytes, response_deserializer=bytes
        )
        for _ in range(attack.rounds(300)):
            data = run.note(mutator.bytes_(grpc_request()))
            try:
                infer(data, timeout=60)
            except grpc.RpcError as error:
                run.check_not(error.code(), INTERNAL_GRPC)


def grpc_request() -> bytes:
    said, data = malformed.v2_raw(malformed.rows(2, 4))
    made = message_types.class_of("inference.ModelInferRequest")(model_name="strict")
    for tensor in said["inputs"]:
        made.inputs.add(name=tensor["name"], datatype=tensor["datatype"], shape=tensor["shape"])
    made.raw_input_contents.extend(data)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("protocol", ["v2", "v1"])
@pytest.mark.parametrize("query", ["", "?by=asgi"])
def test_json_predictions(plane: planes.TestPlane, gateway: httpx2.Client, protocol: str, query: str) -> None:
    path, right = {"v2": (malformed.V2, malformed.v2), "v1": (malformed.V1, malformed.v1)}[protocol]
    with fuzzing.fuzzing(plane, f"json {protocol} {query}") as (run, mutator):
        repeat(
            run, 200, lambda: mutator.json(right(malformed.rows(2, 5))),
            lambda data: [gateway.post(path + query, content=data).status_code],
        )  # fmt: skip


def test_binary_tensors(plane: planes.TestPlane, gateway: httpx2.Client) -> None:
    with fuzzing.fuzzing(plane, "binary") as (run, mutator):
        length = ""

        def make() -> bytes:
            nonlocal length
            said, data = malformed.v2_raw(malformed.rows(2, 6))
            head = malformed.text(mutator.value(said) if mutator.rng.random() < 0.5 else said)
            length = mutator.rng.choice([str(len(head))] * 5 + ["0", "-1", str(2**63), "1", str(len(head) + 5), "x"])
            body = head + b"".join(data)
            return mutator.bytes_(body) if mutator.rng.random() < 0.5 else body

        def send(data: bytes) -> list[int]:
            return [gateway.post(malformed.V2, content=data, headers={malformed.LENGTH: length}).status_code]

        repeat(run, 300, make, send)


# Objects


@pytest.mark.parametrize("plural", list(SPECS))
def test_json_objects(plane: planes.TestPlane, admin: httpx2.Client, plural: str) -> None:
    with fuzzing.fuzzing(plane, f"objects {plural}") as (run, mutator):
        repeat(run, 60, lambda: mutator.json(object_of(plural)), lambda data: send_object(admin, plural, data, "json"))


def test_yaml(plane: planes.TestPlane, admin: httpx2.Client) -> None:
    with fuzzing.fuzzing(plane, "yaml") as (run, mutator):
        plurals = list(SPECS)

        def make() -> bytes:
            text = to_yaml(mutator.value(object_of(mutator.rng.choice(plurals))))
            return mutator.bytes_(text) if mutator.rng.random() < 0.7 else text

        repeat(run, 150, make, lambda data: send_object(admin, "models", data, "yaml"))


def test_patches(plane: planes.TestPlane, admin: httpx2.Client) -> None:
    admin.post(f"{OBJECTS}/models", json=object_of("models"))
    operations = [
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}, {"op": "test", "path": "", "value": {}},
        {"op": "copy", "from": "/spec", "path": "/metadata/annotations"}, {"op": "remove", "path": "/spec/description"},
        {"op": "move", "from": "/spec/description", "path": "/spec/framework"},
        {"op": "replace", "path": "/spec/signature/inputs/-", "value": [{}]},
    ]  # fmt: skip
    right: dict[str, Any] = {
        "application/merge-patch+json": {
            "spec": {"description": None, "framework": "onnx"},
            "metadata": {"labels": {}},
        },
        "application/json-patch+json": operations,
        "application/apply-patch+yaml": object_of("models"),
    }
    with fuzzing.fuzzing(plane, "patches") as (run, mutator):
        for type_, document in right.items():

            def make(document: Any = document) -> bytes:
                return mutator.json(document)

            def send(data: bytes, type_: str = type_) -> list[int]:
                path = f"{OBJECTS}/models/fuzzed?dryRun=All&fieldManager=fuzz"
                return [admin.patch(path, content=data, headers={"content-type": type_}).status_code]

            repeat(run, 80, make, send)


def object_of(plural: str) -> dict[str, Any]:
    labels = {"team": "a", "mizzen.dev/x": "b"}
    return {**API, "kind": KINDS[plural], "metadata": {"name": "fuzzed", "labels": labels}, "spec": SPECS[plural]}


def send_object(admin: httpx2.Client, plural: str, data: bytes, form: str) -> list[int]:
    """A dry run does everything but the write. What starts no process is also written."""
    headers = {"content-type": f"application/{form}"}
    codes = [admin.post(f"{OBJECTS}/{plural}?dryRun=All", content=data, headers=headers).status_code]
    if plural in ("models", "rolebindings"):
        codes.append(admin.put(f"{OBJECTS}/{plural}/fuzzed", content=data, headers=headers).status_code)
    return codes


def to_yaml(document: Any, depth: int = 0) -> bytes:
    """Block style for dicts, else JSON, which is YAML."""
    if not isinstance(document, dict) or not document or depth > 5:
        return json.dumps(document).encode()
    lines = []
    for key, value in document.items():
        inner = to_yaml(value, depth + 1)
        block = isinstance(value, dict) and bool(value) and depth < 5
        gap = b"\n" if block else b" "
        lines.append(b"  " * depth + json.dumps(key).encode() + b":" + gap + inner)
    return b"\n".join(lines)


# Files


@pytest.mark.parametrize("form", ["tar", "tgz", "zip"])
def test_archives(plane: planes.TestPlane, admin: httpx2.Client, form: str) -> None:
    with fuzzing.fuzzing(plane, f"archives {form}") as (run, mutator):

        def make() -> bytes:
            data = archive(mutator, form)
            return mutator.bytes_(data, 3) if mutator.rng.random() < 0.8 else data

        def send(data: bytes) -> list[int]:
            files = {"file": (f"code.{form}", data)}
            return [admin.post("/model/fuzz/version?framework=python", files=files).status_code]

        repeat(run, 60, make, send)


def archive(mutator: Mutator, form: str) -> bytes:
    rng, made = mutator.rng, io.BytesIO()
    names = ["model.py", "a/b/c.txt", "../up", "/root", "a\0b", "é", "x" * 300, ".", "a//b", "model.py", "CON", "a\\b"]
    chosen = rng.sample(names, rng.randint(1, 4))
    if form == "zip":
        with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
            for name in dict.fromkeys(chosen):
                packed.writestr(zipfile.ZipInfo(name), rng.randbytes(rng.choice((0, 10, 5000))))
        return made.getvalue()
    with tarfile.open(fileobj=made, mode="w:gz" if form == "tgz" else "w") as tar:
        for name in chosen:
            info = tarfile.TarInfo(name.replace("\0", "_"))
            info.type = rng.choice(
                [tarfile.REGTYPE] * 4 + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE]
            )
            info.linkname = rng.choice(["", "/etc/passwd", "../x", "model.py"])
            content = rng.randbytes(rng.choice((0, 10, 5000)))
            info.size = len(content) if info.type == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def test_a_failure_says_how_to_repeat_it(plane: planes.TestPlane) -> None:
    run = Fuzzing(plane, 5)
    run.note(b"\xff input")
    with pytest.raises(AssertionError, match=r"ATTACK_SEED=5, input 1(.|\n)*xff input"):
        run.check_codes([200, 500])
    assert Mutator(5).bytes_(b"abc") == Mutator(5).bytes_(b"abc")
