"""The inference API with TLS: the same answers, by a connection that is closed with more care."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from mizzen.sdk.connection import tls_trust
from mizzen.server.admin.tls_certificates import Certificates
from mizzen.web.tls import CertificateFiles
from tests.support.gateway.harness import LIMITS, Gateway, Runtime, body_of, publish, request, table_of, until
from tests.unit.web.test_tls import made

INFER = "/v2/models/m/infer"


@pytest.fixture
def secured(folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]) -> Gateway:
    """With files that the plane makes after the gateway has begun."""
    publish(folder / "table.json", table_of(runtime.address))
    tls = folder / "tls"
    gateway = start_gateway(tls=CertificateFiles(tls / "server.pem", tls / "server-key.pem"))
    Certificates(tls, (), lambda: datetime.now(UTC)).context()
    with asking(gateway, folder) as client:
        until(lambda: client.get("/v2/models/m/ready").status_code == 200)
    return gateway


def test_a_model_answers_over_one_connection(secured: Gateway, folder: Path) -> None:
    with asking(secured, folder) as client:
        for row in ([1.0, 2.0], [3.0, 4.0]):
            answer = client.post(INFER, content=body_of(row)).json()
            assert answer["outputs"][0]["data"] == [sum(row)]
        assert client.get("/v2/models/none").status_code == 404, "what is not hot, too"


def test_the_refusal_of_a_body_that_is_not_read_to_its_end_arrives(secured: Gateway, folder: Path) -> None:
    context = tls_trust.for_url("https://", folder)
    assert isinstance(context, ssl.SSLContext)
    address = "127.0.0.1", secured.port
    with context.wrap_socket(socket.create_connection(address, timeout=60), server_hostname=address[0]) as connection:
        size = str(LIMITS.max_body_bytes + 1)
        connection.sendall(request("POST", INFER, Content_Length=size) + bytes(64 << 10))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert "larger than" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


def test_a_certificate_of_somebody_else_is_trusted_on_this_machine_and_renewed(
    folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]
) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    certificate, key = made(folder / "certs")
    own = Certificates(folder / "tls", (), lambda: datetime.now(UTC))
    own.refresh()
    own.link_inference_certificate(certificate)
    gateway = start_gateway(tls=CertificateFiles(certificate, key))
    with asking(gateway, folder) as client:
        until(lambda: client.get("/v2/models/m/ready").status_code == 200)
        before = certificate.read_bytes()
        made(folder / "certs")
        assert certificate.read_bytes() != before
        assert client.get("/v2").status_code == 200, "who is connected stays so"

    def renewed() -> bool:
        with asking(gateway, folder) as fresh:
            try:
                return fresh.get("/v2").status_code == 200
            except httpx2.ConnectError:
                return False

    until(renewed, "the new one is shown")


def asking(gateway: Gateway, folder: Path) -> httpx2.Client:
    """As programs on this machine do, which find the plane by its folder."""
    url = f"https://127.0.0.1:{gateway.port}"
    return httpx2.Client(base_url=url, verify=tls_trust.for_url(url, folder), trust_env=False, timeout=60)
