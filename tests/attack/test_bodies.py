"""Bodies of any form cost about as much as honest ones of their size: in CPU, in memory, and in processes.

Every key and every value of every protocol is repeated up to the size of the body, at every place where it may be. The
fragments come from the types that the decoders use. What a fragment costs is compared with an honest body of the same
size, decoded in the same run; a machine under load slows both.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pytest

from mizzen.errors import BadRequest, TooLarge
from mizzen.gateway.feedback import routes as feedback
from mizzen.gateway.grpc.wire import typed_contents
from mizzen.gateway.grpc.wire.infer_request import InferRequestParser
from mizzen.gateway.services import seldon
from mizzen.gateway.services import v1 as services_v1
from mizzen.gateway.services import v2 as services_v2
from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import TensorRequest
from mizzen.graph import merging, messages
from mizzen.manifests import strict_parse
from mizzen.patches import json_patch
from mizzen.protobuf_wire import encode_field, encode_varint
from mizzen.protocol import binary, json_tensor_split, tensors, v1, v2
from mizzen.protocol.frames import framing
from mizzen.runtime import inputs as runtime_inputs
from tests.support.attack import rounds
from tests.support.gateway.harness import Client, Runtime, listening, publish, request, short_folder, table_of

MIB: Final = 1 << 20
SIZE: Final = min(64 * MIB, rounds(5 * MIB // 4))
"""Bytes of a body: the largest allowed one in a long attack."""
LARGEST: Final = 64 * MIB
IN_GATEWAY: Final = 3.0
"""A body that the gateway reads costs at most this many times an honest list of numbers, parsed by msgspec."""
IN_RUNTIME: Final = 30.0
"""The same, for one whose values become objects: texts, and rows as objects."""
SLACK: Final = 0.05
"""Seconds of CPU that do not depend on the size: limits that are counts, and garbage collection."""


class Place(NamedTuple):
    """Where a fragment is repeated."""

    name: str
    before: bytes
    after: bytes


class Spec(NamedTuple):
    name: str
    datatype: str
    shape: list[int]


VALUES = (b"0", b'""', b"[]", b"{}", b"[[]]", b"[{}]", b'{"":0}', b"null", b"true", b'"\\u0061"', b"1e9", b"-0.5")
TENSOR = b'{"name":"x","shape":[1],"datatype":"FP32","data":[1]}'


def names_of(*types: type[msgspec.Struct]) -> list[bytes]:
    return sorted({field.encode() for each in types for field in each.__struct_fields__} | {b"", b"\\u0061"})


def fragments(keys: list[bytes]) -> list[bytes]:
    return [*VALUES, *(b'"%b":%b' % (key, value) for key in keys for value in VALUES)]


V2_PLACES = [
    Place("request", b"{", b',"inputs":[' + TENSOR + b"]}"),
    Place("parameters", b'{"parameters":{', b'},"inputs":[' + TENSOR + b"]}"),
    Place("inputs", b'{"inputs":[', b"]}"),
    Place("tensor", b'{"inputs":[{', b"," + TENSOR[1:] + b"]}"),
    Place("shape", b'{"inputs":[{"shape":[', b"]," + TENSOR[1:] + b"]}"),
    Place("data", b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[', b"]}]}"),
    Place("data objects", b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[{', b"}]}]}"),
    Place("outputs", b'{"inputs":[' + TENSOR + b'],"outputs":[', b"]}"),
    Place("output", b'{"inputs":[' + TENSOR + b'],"outputs":[{', b"}]}"),
]


def repeat(place: Place, fragment: bytes, size: int) -> bytes:
    return b"%b%b%b%b" % (place.before, (fragment + b",") * (size // (len(fragment) + 1)), fragment, place.after)


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this thread, also if the body is refused; a fault of ours is not hidden."""
    began = time.thread_time()
    with suppress(ValueError, TooLarge, BadRequest):
        work()
    return time.thread_time() - began


@pytest.fixture(scope="module")
def honest() -> float:
    """CPU seconds per byte of an honest body."""
    text = b"[%b0.25]" % (b"0.25," * (SIZE // 5))
    decode = msgspec.json.Decoder(list[float]).decode
    return sorted(cpu(lambda: decode(text)) for _ in range(5))[2] / len(text)


def costly(bodies: Iterator[tuple[str, bytes]], read: Callable[[bytes], object], most: float) -> list[str]:
    """The bodies that cost more than `most` seconds per byte, even at their best of three."""
    found = []
    for name, body in bodies:
        limit = most * len(body) + SLACK
        if (spent := min_cpu(partial(read, body), limit)) > limit:
            found.append(f"{name}: {spent:.3f} s for {len(body)} bytes, limit {limit:.3f} s")
    return found


def min_cpu(work: Callable[[], object], limit: float) -> float:
    """The least of three, or the first that is within the limit."""
    least = cpu(work)
    for _ in range(2):
        if least <= limit:
            break
        least = min(least, cpu(work))
    return least


def repeated(places: list[Place], keys: list[bytes], size: int = SIZE) -> Iterator[tuple[str, bytes]]:
    for place in places:
        for fragment in fragments(keys):
            yield f"{place.name} {fragment!r}", repeat(place, fragment, size)


V2_KEYS = names_of(v2.InferRequest, v2.InputTensor, v2.RequestedOutput)


def test_a_gateway_reads_v2_at_the_speed_of_honest_bodies(honest: float) -> None:
    assert not costly(repeated(V2_PLACES, V2_KEYS), json_tensor_split.decode, IN_GATEWAY * honest)


def test_a_gateway_reads_json_before_bytes_at_the_speed_of_honest_bodies(honest: float) -> None:
    def read(body: bytes) -> object:
        return binary.decode(body, str(len(body)).encode())

    keys = names_of(binary.BinaryRequest, binary.OpenTensor)
    assert not costly(repeated(V2_PLACES, keys, SIZE // 2), read, IN_GATEWAY * honest)


def test_small_bodies_cost_little_each(honest: float) -> None:
    """Bodies that are read at once: a fraction of what a prediction costs per kilobyte, at most milliseconds."""
    size = json_tensor_split.LARGE - 100
    assert not costly(repeated(V2_PLACES, V2_KEYS, size), v2.decode, 40 * honest)
    assert not costly(
        repeated([Place("feedback", b'{"id":"a",', b',"reward":1}'), Place("truth", b'{"id":"a","truth":[', b"]}")],
                 [name.encode() for name in feedback.FIELDS], 60 << 10),
        feedback.parse_feedback, 40 * honest,
    )  # fmt: skip


V1_PLACES = [
    Place("body", b"{", b',"instances":[1]}'),
    Place("instances", b'{"instances":[', b"]}"),
    Place("rows", b'{"instances":[[', b"]]}"),
    Place("inputs", b'{"inputs":[', b"]}"),
    Place("named inputs", b'{"inputs":{"x":[', b"]}}"),
    Place("columns", b'{"inputs":{', b"}}"),
    Place("objects", b'{"instances":[{', b"}]}"),
]
SIGNATURES: list[list[Spec]] = [
    [], [Spec("x", "FP32", [-1, 4])], [Spec("x", "BYTES", [-1])], [Spec("x", "FP64", [-1]), Spec("y", "INT64", [-1])]
]  # fmt: skip


@pytest.mark.parametrize("declared", SIGNATURES, ids=["none", "one", "text", "several"])
def test_a_runtime_reads_v1_at_the_speed_of_honest_bodies(honest: float, declared: list[Spec]) -> None:
    keys = [b"instances", b"inputs", b"signature_name", b"b64", b""]
    bodies = repeated(V1_PLACES, keys, SIZE // 8)
    assert not costly(bodies, lambda body: runtime_inputs.of_v1(body, declared), IN_RUNTIME * honest)


def test_a_long_list_that_cannot_fit_is_refused_unparsed(honest: float) -> None:
    body = b'{"instances":[%b1]}' % (b"1," * SIZE)
    for declared in SIGNATURES[2:]:
        limit = 0.7 * honest * len(body) + SLACK
        assert min_cpu(partial(runtime_inputs.of_v1, body, declared), limit) < limit
        with pytest.raises(ValueError, match=r"."):
            runtime_inputs.of_v1(body, declared)


@pytest.mark.parametrize("datatype", tensors.DATATYPES)
def test_a_runtime_reads_tensors_at_the_speed_of_honest_bodies(honest: float, datatype: str) -> None:
    def texts() -> Iterator[tuple[str, bytes]]:
        for value in VALUES:
            count = SIZE // (len(value) + 1)
            yield f"{value!r}", b"[%b%b]" % ((value + b",") * (count - 1), value)
            yield f"rows of {value!r}", b"[%b[%b]]" % ((b"[%b]," % value) * (count // 2), value)

    for shape in ([1], [SIZE // 2], [SIZE // 8, 4], [1, SIZE // 2], [0, 2**31], [2**31, 2**31]):
        found = costly(texts(), partial(tensors.decode_json, datatype, shape), IN_RUNTIME * honest)
        assert not found, shape
        raw = iter([("zeros", bytes(SIZE)), ("ones", b"\1" * SIZE)])
        assert not costly(raw, partial(tensors.decode_raw, datatype, shape), IN_RUNTIME * honest), shape


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with suppress(ValueError, TooLarge, BadRequest):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_a_small_multiple_of_the_body() -> None:
    """The work that follows is bounded by counts of lists and texts, which is less for larger bodies."""
    for name, body in repeated(V2_PLACES, V2_KEYS, MIB // 8):
        assert peak_of(partial(json_tensor_split.decode, body)) < 2 * len(body) + 6 * MIB, name
    for datatype, value in (("FP64", b"0.5"), ("FP32", b"1"), ("INT8", b"1"), ("BOOL", b"true")):
        count = 4 * MIB
        text = b"[%b%b]" % ((value + b",") * (count - 1), value)
        wide = count * tensors.DATATYPES[datatype].dtype.itemsize
        peak = peak_of(partial(tensors.decode_json, datatype, [count], text))
        assert peak < wide + len(text) // 4 + 24 * MIB, (datatype, peak)
        rows = b"[%b[%b,%b]]" % ((b"[%b,%b]," % (value, value)) * (MIB // 2 - 1), value, value)
        peak = peak_of(partial(tensors.decode_json, datatype, [MIB // 2, 2], rows))
        assert peak < 8 * len(rows) + 24 * MIB, (datatype, peak)
    body = b'{"instances":[%b1]}' % (b"1," * (4 * MIB))
    for declared in SIGNATURES:
        assert peak_of(partial(runtime_inputs.of_v1, body, declared)) < 6 * len(body) + 24 * MIB


# gRPC

KINDS = [b"\0", bytes(8), b"\0", bytes(4)]
"""The shortest value of each wire type: a number, eight bytes, no bytes, four bytes."""


def grpc_fields() -> Iterator[tuple[str, bytes]]:
    for number in range(1, 17):
        for kind, value in zip((0, 1, 2, 5), KINDS, strict=True):
            yield f"{number}/{kind}", encode_varint(number << 3 | kind) + value


def grpc_messages() -> Iterator[tuple[str, bytes]]:
    """Every field of every message, repeated at every place."""
    described = encode_field(1, b"x") + encode_field(3, encode_varint(1))
    for name, field in grpc_fields():
        many = field * (SIZE // len(field))
        yield f"request {name}", many
        yield f"input {name}", encode_field(5, many)
        yield f"output {name}", encode_field(6, many)
        yield f"parameter {name}", encode_field(4, many)
        yield f"choice {name}", encode_field(4, encode_field(2, many))
        for datatype in ("BYTES", "INT64", "FP32", "BOOL", "UINT8"):
            tensor = described + encode_field(2, datatype.encode())
            yield f"{datatype} {name}", encode_field(5, tensor + encode_field(5, many))


def read_grpc(message: bytes) -> None:
    parsed = InferRequestParser().parse(message)
    described = parsed.described
    if described.request is not None and described.contents is not None:
        for place, (pieces, tensor) in enumerate(zip(described.contents, described.request.inputs, strict=True)):
            for _ in typed_contents.convert_in_steps(pieces, tensor.datatype, place, LARGEST):
                pass


def test_a_gateway_reads_grpc_at_the_speed_of_honest_bodies(honest: float) -> None:
    assert not costly(grpc_messages(), read_grpc, 30 * honest)


# Graphs: services, merges


def test_answers_of_services_are_read_at_the_speed_of_honest_bodies(honest: float) -> None:
    asked = TensorRequest([], None, None, b"", {})
    places = [
        Place(place.name, *(part.replace(b"inputs", b"outputs") for part in place[1:])) for place in V2_PLACES[:6]
    ]

    def reader(protocol: Any) -> Callable[[bytes], object]:
        return lambda body: protocol.read(asked, HttpResponse(200, {}, body))

    assert not costly(repeated(places, V2_KEYS, SIZE // 4), reader(services_v2), IN_GATEWAY * honest)
    others = [Place("body", b"{", b',"data":{},"predictions":[]}'), Place("rows", b'{"predictions":[', b"]}"),
              Place("data", b'{"data":{', b"}}"), Place("array", b'{"data":{"ndarray":[', b"]}}")]  # fmt: skip
    for protocol in (services_v1, seldon):
        keys = [b"predictions", b"outputs", b"data", b"tensor", b"ndarray", b"names", b""]
        assert not costly(repeated(others, keys, SIZE // 4), reader(protocol), IN_RUNTIME * honest)


def test_a_service_answers_with_a_million_values_at_most() -> None:
    asked = TensorRequest([], None, None, b"", {})
    numbers = b"1," * messages.MAX_VALUES
    for protocol, body in (
        (services_v1, b'{"predictions":[%b1]}' % numbers),
        (seldon, b'{"data":{"ndarray":[%b1]}}' % numbers),
        (services_v2, b'{"outputs":[{"name":"y","shape":[%d],"datatype":"FP32","data":[%b1]}]}'
         % (messages.MAX_VALUES + 1, numbers)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"more than 1048576 values|1048577 values are too many"):
            protocol.read(asked, HttpResponse(200, {}, body))


def members_of(count: int, datatype: str, shape: list[int], data: bytes) -> list[merging.EnsembleMember]:
    entry: v2.Entry = ("y", datatype, shape, framing.RAW, memoryview(data))
    return [merging.EnsembleMember(f"m{place}", 1.0, [entry]) for place in range(count)]


def test_merges_of_many_values_are_refused_before_they_are_built() -> None:
    count = 2 * messages.MAX_VALUES
    data = bytes(4 * count)
    for work in (
        lambda: merging.mean(members_of(2, "FP32", [count], data)),
        lambda: merging.vote(members_of(2, "INT32", [count], data)),
        lambda: merging.vote(members_of(8, "BYTES", [messages.MAX_VALUES // 8], bytes(messages.MAX_VALUES // 2))),
        lambda: messages.to_payload(members_of(1, "FP32", [count], data)[0].entries),
        lambda: messages.to_payload(members_of(1, "FP32", [count], data)[0].entries, ["z"]),
        lambda: messages.render_v1([("y", members_of(1, "FP32", [count], data)[0].entries)], v1.ROWS),
        lambda: messages.bytes_to_text(list(members_of(1, "BYTES", [count], data)[0].entries)),
        lambda: messages.parse_v1(b'{"instances":[%b1]}' % (b"1," * count), []),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match="values"):
            work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 * MIB, "the data given, and nothing built of it"
    whole = messages.to_payload(members_of(1, "FP32", [count], data)[0].entries, True)
    assert messages.parse_reply(whole)[0][4].nbytes == len(data), "bytes pass as they are"


def test_what_a_hostile_model_says_of_its_outputs_is_bounded() -> None:
    described = b'{"name":"y","datatype":"FP32","shape":[%b],"parameters":{"binary_data_size":0}}'
    for text in (
        b"[%b]" % (described % (b"4611686018427387904," * 10_000 + b"0")),
        b"[%b]" % b",".join([described % b"0"] * 10_000),
    ):
        with pytest.raises(ValueError, match=r"."):
            messages.parse_reply(struct.pack("<I", len(text)) + text)


@pytest.mark.parametrize("shape", [[0, 2**31], [2**31, 0, 2**31], [2**31] * 32, [0] * 32, [1] * 32])
def test_extreme_shapes_are_refused_or_empty(shape: list[int]) -> None:
    for datatype in tensors.DATATYPES:
        for data in (b"", b"\0"):
            with suppress(ValueError):
                assert tensors.decode_raw(datatype, shape, data).nbytes <= 16
        for text in (b"[]", b"[1]", b'[""]'):
            with suppress(ValueError):
                assert tensors.decode_json(datatype, shape, text).nbytes <= 16


# The control API


def test_the_control_api_reads_json_and_yaml_in_proportion(honest: float) -> None:
    keys = [b"metadata", b"spec", b"labels", b""]
    places = [Place("object", b"{", b',"kind":"a"}'), Place("list", b'{"spec":[', b"]}"),
              Place("deep", b'{"spec":[[[[', b"]]]]}")]  # fmt: skip
    assert not costly(repeated(places, keys, MIB // 8), strict_parse.read_json, 40 * honest)
    assert not costly(repeated(places, keys, 4 << 10), strict_parse.read_yaml, 1500 * honest)
    for text in (b"[" * MIB, b'{"a":' * (MIB // 5), b"- " * (MIB // 8), b"a: &a [*a,*a]\n" * 1000, b"? " * 50_000):
        with pytest.raises(strict_parse.Unreadable):
            strict_parse.read_documents(text)


@pytest.mark.parametrize("body", [
    b'{"a":1,"a":1}', b'{"metadata":{"name":"a","name":"a"}}', b'[{"op":"test","op":"test"}]', b'{"a":[{"b":1,"b":1}]}'
])  # fmt: skip
def test_the_control_api_refuses_repeated_keys(body: bytes) -> None:
    for read in (strict_parse.read_json, strict_parse.read_yaml):
        with pytest.raises(strict_parse.Unreadable, match="repeated"):
            read(body)


def test_patches_do_not_double_a_document_without_end() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 10_000
    nesting = [{"op": "copy", "from": "", "path": "/a/0"}] * 10_000
    for operations in (doubling, nesting):
        began = time.thread_time()
        with pytest.raises((TooLarge, BadRequest)):
            json_patch.apply_patch({"a": [["text" * 10]]}, operations)
        assert time.thread_time() - began < 5
    with pytest.raises(BadRequest):
        json_patch.apply_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)


# A real gateway

GATEWAY: Final = f"""
import socket, sys
from pathlib import Path
import uvloop
from mizzen.gateway.process import AccessOptions, FeedbackOptions, GatewayLimits, ReportOptions, serve

folder = Path(sys.argv[1])
guard = AccessOptions(access=folder / "access.json", refusals=folder / "refusals", name="g", loopback=True,
              anonymous=True, rates=folder / "rates", quotas=folder / "quotas.db")
limits = GatewayLimits(max_body_bytes={LARGEST}, queue_limit=1000, queue_bytes={4 * LARGEST}, hold_seconds=10.0,
                       stop_timeout=5.0, connections=500)
listener = socket.socket(fileno=int(sys.argv[2]))
uvloop.run(serve(socket=listener, table=folder / "table.json", guard=guard, limits=limits,
                 records=ReportOptions(folder / "counts", folder / "tables", folder / "demand", folder / "access.log"),
                 learning=FeedbackOptions(folder / "state.db", folder / "selection", folder / "records"),
                 log_level="warning"))
"""


class GatewayProcess(NamedTuple):
    pid: int
    port: int

    def ask(self, body: bytes, **headers: str) -> tuple[int, str]:
        with Client(self.port) as client:
            client.send(request("POST", "/v2/models/m/infer", body, **headers))
            answer = client.answer()
            return answer.status, answer.body.decode()

    def cpu_of(self, work: Callable[[], object]) -> float:
        before = self._cpu()
        work()
        return self._cpu() - before

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with short_folder() as folder, listening() as listener:
        runtime = Runtime(str(folder / "m.sock"))
        publish(folder / "table.json", table_of(runtime.address, timeout_ms=60_000))
        command = [sys.executable, "-c", GATEWAY, str(folder), str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])
        try:
            yield GatewayProcess(process.pid, listener.getsockname()[1])
        finally:
            process.kill()
            process.wait()
            runtime.close()


HONEST = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [1.5]}]}).encode()


@pytest.mark.parametrize("key", ["inputs", "unknown"])
def test_a_few_packed_kilobytes_do_not_occupy_a_gateway(gateway: GatewayProcess, key: str) -> None:
    """33 kB of one key, packed, unpack to as much as is allowed."""

    def pack(filling: bytes) -> bytes:
        return gzip.compress(b"{%b%b" % (filling[: LARGEST - len(HONEST)], HONEST[1:]), 9)

    honest = pack(b" " * LARGEST)
    fragment = b'"%b":[],' % key.encode()
    hostile = pack(fragment * ((LARGEST - len(HONEST)) // len(fragment)))
    assert len(hostile) < 256 << 10
    headers = {"Content-Encoding": "gzip"}
    assert gateway.ask(honest, **headers)[0] == 200
    usual = gateway.cpu_of(lambda: gateway.ask(honest, **headers))
    answers: list[tuple[int, str]] = []
    spent = gateway.cpu_of(lambda: answers.append(gateway.ask(hostile, **headers)))
    [(code, text)] = answers
    assert (code, f"the key '{key}' is repeated" in text) == (400, True), text
    assert spent < 2 * usual + 0.3, (spent, usual)


def test_repeated_keys_get_400_over_http(gateway: GatewayProcess) -> None:
    for more in (b'"id":"a","id":"b",', b'"parameters":{"a":1,"a":2},', b'"inputs":[%b],' % TENSOR):
        code, text = gateway.ask(b"{%b%b" % (more, HONEST[1:]))
        assert (code, "is repeated" in text) == (400, True), text
    code, _ = gateway.ask(b'{"id":"\\"inputs\\":[], \\"inputs\\"",' + HONEST[1:])
    assert code == 200, "a text is a text"


def test_numpy_agrees_about_every_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are decoded in pieces are those that were sent."""
    monkeypatch.setattr(tensors, "_MAX_WHOLE", 64 << 10)
    rng = np.random.default_rng(7)
    for datatype in ("FP64", "FP32", "INT64"):
        for shape in ((200_001,), (3, 70_001), (70_001, 3), (30_001, 2, 3)):
            sent = rng.integers(0, 100, shape).astype(tensors.DATATYPES[datatype].dtype)
            for separators in ((",", ":"), (", ", ": ")):
                text = json.dumps(sent.tolist(), separators=separators).encode()
                assert np.array_equal(tensors.decode_json(datatype, shape, text), sent)
                flat = text.replace(b"[", b"").replace(b"]", b"")
                assert np.array_equal(tensors.decode_json(datatype, shape, b"[%b]" % flat), sent)
                for broken in (text[:-1], text + b"]", text.replace(b",", b",,", 1), text.replace(b",", b"", 1),
                               text[: len(text) // 2] + b"x" + text[len(text) // 2 :]):  # fmt: skip
                    with pytest.raises(ValueError, match=r"."):
                        tensors.decode_json(datatype, shape, broken)
