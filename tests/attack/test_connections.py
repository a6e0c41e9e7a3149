"""One connection, whatever it sends: bounded memory and CPU, a clear end, and others are answered meanwhile."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from bench import attack_streams
from bench.attack_streams import Attack, Flood, Target, request
from tests.support import graphs, planes

MB = 1 << 20
MAX_GROWTH = 64 * MB
PIPELINED_BYTES = 39 * MB
TINY_BYTES = 8 * MB
"""Sent in tiny pieces, unless the server closes the connection before."""
CPU_PER_MB = 1.0
"""Seconds of a process for each MB of an attack, at most; a calm machine needs a tenth."""
CPU_SLACK = 1.5
"""Seconds of a process for what it does anyway."""

INFER = "/v2/models/evil/infer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
UNARY = "/inference.GRPCInferenceService/ModelInfer"


@dataclass
class Ports:
    plane: planes.TestPlane
    token: str
    targets: dict[str, Target] = field(default_factory=dict)

    def watched(self) -> dict[str, psutil.Process]:
        return {key: psutil.Process(self.plane.pid(key)) for key in ("plane", "gateway-0")}

    def check_others(self) -> None:
        """Other clients are answered."""
        assert httpx2.get(f"{self.plane.control_url}/healthz", timeout=60).status_code == 200
        assert httpx2.get(f"{self.plane.inference_url}/v2/health/live", timeout=60, verify=False).status_code == 200
        with socket.create_connection(("127.0.0.1", self.targets["grpc"].port), 60) as client:
            client.sendall(attack_streams.PREFACE + attack_streams.frame(attack_streams.SETTINGS, 0, 0))
            assert client.recv(9)

    def attacks(self, port: str) -> list[Attack]:
        if port.startswith("control"):
            return attack_streams.http1("/healthz", "/apis/mizzen.dev/v1alpha1/namespaces/default/mlgraphs", self.token)
        if port == "grpc":
            return attack_streams.http2(STREAM)
        return attack_streams.http1("/v2/health/live", INFER)


@pytest.fixture(scope="module")
def ports(plane: planes.TestPlane) -> Iterator[Ports]:
    with graphs.service(lambda _: graphs.Reply(graphs.outputs(1.0, 2.0))) as service, graphs.graphs_of(plane) as made:
        made.serve("evil", service.node("a"))
        found = Ports(plane, f"Authorization: Bearer {plane.token()}")
        found.targets = {
            "control": target(plane.control_url),
            "control-tls": target(plane.tls_url),
            "inference": target(plane.inference_url),
            "grpc": Target(int(plane.grpc_address.rpartition(":")[2])),
        }
        yield found


def target(url: str) -> Target:
    parts = urlsplit(url)
    assert parts.port is not None
    return Target(parts.port, parts.scheme == "https")


class Costs:
    """What processes need meanwhile. Their memory is read again and again, because it may be free again soon."""

    def __init__(self, processes: dict[str, psutil.Process]) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self.growth = dict.fromkeys(processes, 0)
        self.cpu = dict.fromkeys(processes, 0.0)

    def __enter__(self) -> Self:
        self._rss = {name: each.memory_info().rss for name, each in self._processes.items()}
        self._cpu = {name: cpu_of(each) for name, each in self._processes.items()}
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()
        self.cpu = {name: cpu_of(each) - self._cpu[name] for name, each in self._processes.items()}

    def is_excessive(self) -> bool:
        return max(self.growth.values()) > 2 * MAX_GROWTH

    def check(self, sent: int, *, most: int = MAX_GROWTH) -> None:
        for name, growth in self.growth.items():
            assert growth <= most, f"{name} grew by {growth / MB:.0f} MB"
        for name, cpu in self.cpu.items():
            assert cpu <= CPU_SLACK + CPU_PER_MB * sent / MB, f"{name} took {cpu:.1f} s for {sent / MB:.1f} MB"

    def _sample(self) -> None:
        while not self._ended.wait(0.02):
            for name, each in self._processes.items():
                self.growth[name] = max(self.growth[name], each.memory_info().rss - self._rss[name])


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def attack(ports: Ports, port: str, name: str, most: int) -> Flood:
    """Returns how it ended, once its costs are found to be bounded."""
    chosen = next(each for each in ports.attacks(port) if each.name == name)
    with (
        Costs(ports.watched()) as costs,
        attack_streams.attacking(ports.targets[port], chosen, most, costs.is_excessive) as flood,
    ):
        ports.check_others()
    costs.check(flood.sent)
    return flood


HTTP1 = ("control", "control-tls", "inference")


@pytest.mark.parametrize("name", ["pipelined GETs, unread", "pipelined Expect, unread"])
@pytest.mark.parametrize("port", HTTP1)
def test_a_pipeline_whose_responses_nobody_reads(ports: Ports, port: str, name: str) -> None:
    assert attack(ports, port, name, PIPELINED_BYTES).ended in ("held", "closed")


@pytest.mark.parametrize("name", ["one-byte chunks", "chunk extensions", "short extensions", "trailers"])
@pytest.mark.parametrize("port", HTTP1)
def test_bodies_in_tiny_pieces_are_refused(ports: Ports, port: str, name: str) -> None:
    flood = attack(ports, port, name, TINY_BYTES if "chunk" in name or name == "short extensions" else MB)
    assert flood.ended == "closed"


@pytest.mark.parametrize("name", ["headers", "one header", "empty lines"])
@pytest.mark.parametrize("port", HTTP1)
def test_heads_have_an_end(ports: Ports, port: str, name: str) -> None:
    flood = attack(ports, port, name, TINY_BYTES)
    assert flood.ended == "closed"
    if name != "empty lines":
        assert b" 431 " in flood.response or not flood.response


def test_a_pipeline_that_is_read_leaves_room_for_others(ports: Ports) -> None:
    for port in ("control", "inference"):
        flood = attack(ports, port, "pipelined GETs", MB // 4)
        assert flood.ended == "sent"
        assert b"HTTP/1.1 200" in flood.response


@pytest.mark.parametrize(
    "name",
    ["one-byte DATA", "empty DATA", "PING", "SETTINGS", "PRIORITY", "WINDOW_UPDATE", "CONTINUATION", "rapid reset"],
)
def test_control_frames_and_tiny_data_end_a_connection(ports: Ports, name: str) -> None:
    flood = attack(ports, "grpc", name, 2 * MB)
    assert flood.ended == "closed"


def test_grpc_responses_that_nobody_reads(ports: Ports) -> None:
    assert attack(ports, "grpc", "refused calls, unread", PIPELINED_BYTES).ended in ("held", "closed")
    attack(ports, "grpc", "PING, unread", PIPELINED_BYTES)


@pytest.mark.parametrize("name", [each.name for each in attack_streams.responses()])
def test_services_cannot_answer_without_end(ports: Ports, name: str) -> None:
    """A body may have 64 MB, which is a documented bound."""
    chosen = next(each for each in attack_streams.responses() if each.name == name)
    most = (100 if name.endswith("without end") else 24) * MB
    sent: list[int] = []

    def answer(asked: graphs.Asked) -> None:
        sent.append(0)
        asked.connection.settimeout(60)
        with contextlib.suppress(ConnectionError):
            for block in chosen.blocks():
                asked.connection.sendall(block)
                sent[-1] += len(block)
                if sent[-1] > most:
                    break

    with graphs.service(answer) as service, graphs.graphs_of(ports.plane) as made:
        made.serve("hostile", service.node("a"))
        with Costs(ports.watched()) as costs:
            assert made.ask("hostile").code >= 500
            ports.check_others()
        made.delete("hostile")
    assert sent
    assert max(sent) < most
    costs.check(sum(sent), most=3 * MAX_GROWTH if name.endswith("without end") else MAX_GROWTH)


CODINGS = [
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked;q=1",
    'Transfer-Encoding: "chunked"',
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding:\x0bchunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "Content-Length: 0x5",
    "Content-Length: 5\nX: y",
    "Content-Length: 5\r\nX: a\0b",
    " Content-Length: 5",
    "Transfer-Encoding: chunked\r\nConnection: upgrade\r\nUpgrade: h2c",
]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_length_that_others_may_read_otherwise_is_refused(ports: Ports, coding: str) -> None:
    for port, path in (("control", "/whoami"), ("control-tls", "/whoami"), ("inference", INFER), ("inference", "/x")):
        sent = request("POST", path, coding) + b"0\r\n\r\n" + request("GET", "/smuggled")
        answers = exchange(ports.targets[port], sent)
        assert statuses_of(answers) in ([b"400"], [b"501"]), (port, path, answers)


def test_chunked_in_http_1_0_is_refused(ports: Ports) -> None:
    for port, path in (("control", "/whoami"), ("inference", INFER), ("inference", "/x")):
        sent = request("POST", path, "Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n"
        answers = exchange(ports.targets[port], sent)
        assert statuses_of(answers) in ([b"400"], [b"501"]), (port, path, answers)


def test_an_upgrade_is_no_way_to_hide_a_request_in_a_body(ports: Ports) -> None:
    hidden = request("GET", "/smuggled", "Connection: close")
    upgrade = ("Connection: upgrade", "Upgrade: h2c", f"Content-Length: {len(hidden)}")
    for method in ("POST", "CONNECT"):
        for port in ("control", "inference"):
            answers = exchange(ports.targets[port], request(method, "/x", *upgrade), hidden, request("BAD", "\n"))
            assert statuses_of(answers) in ([b"501"], [b"404", b"400"]), (method, port, answers)


def test_trailers_are_no_headers(ports: Ports) -> None:
    end = f"0\r\n{ports.token}\r\nHost: evil.example\r\nContent-Type: text/x\r\nAccept: text/x\r\n\r\n".encode()
    head = request("GET", "/whoami", "Transfer-Encoding: chunked", "Connection: close")
    for port in ("control", "control-tls"):
        assert b"admin" in exchange(ports.targets[port], head[:-2] + ports.token.encode() + b"\r\n\r\n0\r\n\r\n")
        without = exchange(ports.targets[port], head + b"0\r\n\r\n")
        trailer = exchange(ports.targets[port], head + end)
        assert b'"anonymous"' in without
        assert body_of(trailer) == body_of(without)


def test_a_request_behind_a_refused_one_is_not_read(ports: Ports) -> None:
    """Earlier ones are answered first, in order."""
    sent = request("GET", "/healthz") * 3 + request("POST", "/x", "Transfer-Encoding: gzip, chunked")
    answers = exchange(ports.targets["control"], sent + request("GET", "/healthz"))
    assert statuses_of(answers) == [b"200"] * 3 + [b"501"]


def exchange(where: Target, *parts: bytes) -> bytes:
    """All that comes until the server closes."""
    answers = b""
    with attack_streams.connect(where) as client, contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        client.settimeout(30)
        for part in parts:
            client.sendall(part)
        while data := client.recv(1 << 16):
            answers += data
    return answers


def statuses_of(answers: bytes) -> list[bytes]:
    return [each[:3] for each in answers.split(b"HTTP/1.1 ")[1:]]


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]
