"""Whatever is wrong with a request, it is refused with the 4xx that says so, and its model is not called.

The connection can be used on, or is closed in good order, and the next request has its answer: with real processes.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import malformed, planes, run_folder
from tests.support.examples import examples
from tests.support.gateway.harness import Client, Response
from tests.support.malformed import V1, V2, Sent

MODEL = '''
"""Adds up the values of each row, and notes each call as a byte in a file."""


class Strict:
    inputs = (
        {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "k", "datatype": "INT8", "shape": [-1]},
        {"name": "t", "datatype": "BYTES", "shape": [-1]},
    )
    outputs = ({"name": "sum", "datatype": "FP64", "shape": [-1]}, {"name": "t", "datatype": "BYTES", "shape": [-1]})

    def predict(self, inputs):
        with open(CALLS, "ab") as file:
            file.write(b".")
        return {"sum": inputs["x"].astype("f8").sum(axis=1) + inputs["k"], "t": inputs["t"]}
'''
MIB = 1 << 20
BODY = 4 * MIB
EXAMPLES = settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True, slots=True)
class Served:
    plane: planes.TestPlane
    file: Path

    @property
    def calls(self) -> int:
        return self.file.stat().st_size

    @property
    def port(self) -> int:
        return int(self.plane.inference_url.rpartition(":")[2])

    def good(self, client: Client, seed: int) -> None:
        """One that is right is answered rightly, once."""
        values, calls = malformed.rows(2, seed), self.calls
        client.send(wire(Sent(V2, malformed.text(malformed.v2(values)))))
        answer = client.answer()
        assert answer.status == 200, answer
        total, texts = answer.json["outputs"]
        sums = [x + y + k for (x, y), k in zip(values["x"], values["k"], strict=True)]
        assert (total["data"], texts["data"]) == (sums, values["t"])
        assert self.calls == calls + 1


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "data").mkdir()
    (folder / "data" / "settings.toml").write_text(f"max_body_bytes = {BODY}\n")
    calls = run_folder.shared("calls") / "calls"
    (folder / "strict.py").write_text(MODEL.replace("CALLS", repr(str(calls))))
    with planes.running_plane(folder / "data") as plane:
        plane.cli("deploy", "strict:Strict", "--name", "strict", cwd=folder)
        ready = f"{plane.inference_url}/v2/models/strict/ready"
        planes.wait_until(lambda: httpx2.get(ready, verify=False).status_code == 200, "the model is ready")
        yield Served(plane, calls)


def wire(sent: Sent, method: str = "POST") -> bytes:
    lines = [f"{method} {sent.path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in sent.headers)]
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in sent.headers):
        lines.append(f"Content-Length: {len(sent.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + sent.body


def refused(answer: Response, *codes: int) -> None:
    assert answer.status in codes, answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.error


def goes_on(served: Served, client: Client, answer: Response) -> None:
    """The connection answers another request, or is closed as it said it would be."""
    if answer.headers.get("connection") == "close":
        assert client.closed()
        with Client(served.port) as other:
            served.good(other, 5)
    else:
        served.good(client, 6)


@EXAMPLES
@given(malformed.wrong, st.sampled_from(["", "?by=asgi"]))
def test_no_call_for_what_is_wrong(served: Served, sent: Sent, query: str) -> None:
    calls = served.calls
    with Client(served.port) as client:
        client.send(wire(Sent(sent.path + query, sent.body, sent.headers)))
        answer = client.answer()
        refused(answer, 400)
        assert served.calls == calls, sent.why
        goes_on(served, client, answer)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(malformed.wrong, min_size=1, max_size=6))
def test_neighbours_on_the_line_have_their_rows(served: Served, wrong: list[Sent]) -> None:
    """Pipelined: each wrong one stands between right ones, which may share its batch."""
    calls = served.calls
    values = [malformed.rows(1 + at % 3, at) for at in range(len(wrong) + 1)]
    with Client(served.port) as client:
        parts = [wire(Sent(V1, malformed.text(malformed.v1(values[0]))))]
        for at, sent in enumerate(wrong, 1):
            parts += [wire(sent), wire(malformed.raw(*malformed.v2_raw(values[at])))]
        client.send(b"".join(parts))
        answers = [client.answer() for _ in parts]
    assert [answer.status for answer in answers] == [200, *[400, 200] * len(wrong)]
    assert [row["t"] for row in answers[0].json["predictions"]] == values[0]["t"]
    for answer, asked in zip(answers[2::2], values[1:], strict=True):
        assert answer.json["outputs"][1]["data"] == asked["t"]
    assert served.calls == calls + len(values)


GOOD = malformed.text(malformed.v2(malformed.rows(1, 1)))
BOMB = gzip.compress(b" " * (2 * BODY))
CHUNKED = ("Transfer-Encoding", "chunked")


@pytest.mark.parametrize(
    ("sent", "codes"),
    [
        (Sent("/v2/models/nobody/infer", GOOD), (404,)),
        (Sent("/v1/models/nobody:predict", GOOD), (404,)),
        (Sent("/v2/models/strict/versions/9/infer", GOOD), (404,)),
        (Sent("/v2/models/strict/versions/prod/infer", GOOD), (404,)),
        (Sent("/v1/models/strict/labels/prod:predict", GOOD), (404,)),
        (Sent("/v1/models/strict/labels/1:predict", GOOD), (404,)),
        (Sent("/ns/other/v2/models/strict/infer", GOOD), (404,)),
        (Sent("/v2/models/strict/infer/", GOOD), (404,)),
        (Sent("/v2/models/%00/infer", GOOD), (404,)),
        (Sent("/v2/models/%ff%fe/infer", GOOD), (404,)),
        (Sent(V2, GOOD, (("Content-Encoding", "br"),)), (415,)),
        (Sent(V2, GOOD, (("Content-Encoding", "gzip, gzip"),)), (415,)),
        (Sent(V2, GOOD, (("Content-Encoding", "gzip"),)), (400,)),
        (Sent(V2, gzip.compress(GOOD)[:-9], (("Content-Encoding", "gzip"),)), (400,)),
        (Sent(V2, gzip.compress(GOOD) + b"x", (("Content-Encoding", "gzip"),)), (400,)),
        (Sent(V2, BOMB, (("Content-Encoding", "gzip"),)), (413,)),
        (Sent(V2, b"", (("Content-Length", str(BODY + 1)),)), (413,)),
        (Sent(V2, b"", (("Content-Length", "9" * 30),)), (400, 413)),
        (Sent(V2, GOOD, (("Content-Length", "-1"),)), (400,)),
        (Sent(V2, GOOD, (("Content-Length", "1x"),)), (400,)),
        (Sent(V2, GOOD, (("Content-Length", "1"), ("Content-Length", "2"))), (400,)),
        (Sent(V2, GOOD, (("Content-Length", "5"), CHUNKED)), (400,)),
        (Sent(V2, b"zz\r\n{}\r\n0\r\n\r\n", (CHUNKED,)), (400,)),
        (Sent(V2, b"-2\r\n{}\r\n0\r\n\r\n", (CHUNKED,)), (400,)),
        (Sent(V2, b"2\r\n{}x0\r\n\r\n", (CHUNKED,)), (400,)),
        (Sent(V2, b"f" * 17 + b"\r\n{}", (CHUNKED,)), (400,)),
        (Sent(V2, GOOD, ((malformed.LENGTH, str(len(GOOD))), (malformed.LENGTH, str(len(GOOD))))), (400,)),
        (Sent(V2, GOOD, (("Mizzen-Timeout-Ms", "1000"), ("Mizzen-Timeout-Ms", "1000"))), (400,)),
        *((Sent(V2, GOOD, (("Mizzen-Timeout-Ms", it),)), (400,)) for it in ("0", "-1", "a", "1e3", "nan", "1" * 13)),
        (Sent(V2, GOOD, (("Bad Name", "y"),)), (400,)),
        (Sent(V2, GOOD, (("Origin", "http://elsewhere.example"),)), (403,)),
    ],
    ids=lambda given: f"{given.path} {given.headers!s:.60}" if isinstance(given, Sent) else "",
)  # fmt: skip
@pytest.mark.parametrize("query", ["", "?by=asgi"])
def test_requests_that_are_wrong_as_such(served: Served, sent: Sent, codes: tuple[int, ...], query: str) -> None:
    calls = served.calls
    with Client(served.port) as client:
        client.send(wire(Sent(sent.path + query, sent.body, sent.headers)))
        answer = client.answer()
        refused(answer, *codes)
        assert served.calls == calls
        goes_on(served, client, answer)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", [V2, V1])
def test_other_methods(served: Served, method: str, path: str) -> None:
    with Client(served.port) as client:
        client.send(wire(Sent(path, GOOD), method))
        answer = client.answer()
        refused(answer, 405)
        assert answer.headers["allow"] == "POST"
        goes_on(served, client, answer)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([V2, V1, V2 + "?a"]), st.floats(0, 1), st.booleans())
def test_who_leaves_in_the_middle_of_a_request(served: Served, path: str, share: float, reset: bool) -> None:
    calls = served.calls
    data = wire(Sent(path, GOOD))
    with Client(served.port) as client:
        client.send(data[: int(share * (len(data) - 1))])
        if reset:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with Client(served.port) as other:
        served.good(other, 3)
    assert served.calls == calls + 1


def test_a_key_that_is_there_twice_is_refused(served: Served) -> None:
    """Two readers could differ about which one counts."""
    first, last = (json.dumps(malformed.v2(malformed.rows(1, seed))["inputs"]) for seed in (1, 2))
    with Client(served.port) as client:
        client.send(wire(Sent(V2, f'{{"inputs": {first}, "inputs": {last}}}'.encode())))
        answer = client.answer()
    assert answer.status == 400
    assert "inputs" in answer.json["error"]


def test_memory_is_bounded(served: Served) -> None:
    """Bodies as large as they may be, each wrong in another way, many times over."""
    width = BODY // 8
    huge: list[tuple[str, bytes, dict[str, str]]] = [
        (V2, b'{"inputs": ' + b"[" * (BODY // 2), {}),
        (V2, GOOD[:-1] + b', "parameters": {"a": ' + b"[" * (BODY // 3) + b"]" * (BODY // 3) + b"}}", {}),
        (V2, GOOD.replace(b'"data": [[', b'"data": [[' + b"1," * width), {}),
        (V2, GOOD.replace(b'"data": [[', b'"data": [[' + b"1" * width), {}),
        (V2, GOOD[:-1] + b', "id": "' + b"i" * (BODY // 2) + b'"}', {}),
        (V1, b'{"instances": [' + b'{"x":[1,2],"k":1},' * (BODY // 20) + b"{}]}", {}),
        (V1, b'{"instances": [' + b"[" * (BODY // 3) + b"]" * (BODY // 3) + b"]}", {}),
        (V1, b'{"instances": [' + b"1," * (BODY // 3) + b"1]}", {}),
        (V1, b'{"a": "' + b"x" * (BODY // 2) + b'", "instances": []}', {}),
    ]
    processes = [psutil.Process(pid) for key in ("gateway-0", "runtime") for pid in served.plane.pids(key)]

    def flood() -> None:
        with httpx2.Client(base_url=served.plane.inference_url, timeout=60, verify=False) as client:
            for path, body, headers in huge:
                answer = client.post(path, content=body, headers=headers)
                assert answer.status_code == 400, (body[:60], answer.text[:200])
                assert len(answer.content) < 10_000
            assert client.post(V2, content=BOMB, headers={"content-encoding": "gzip"}).status_code == 413

    flood()
    calls = served.calls
    before = [process.memory_info().rss for process in processes]
    for _ in range(5):
        flood()
    assert served.calls == calls
    # What one of them takes while it is read may stay with the process; not what several do.
    grown = [process.memory_info().rss - was for process, was in zip(processes, before, strict=True)]
    assert max(grown) < 16 * BODY, grown
