"""The data plane as others' programs see it: curl, OpenSSL's own client, Python's, and many of them at once."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support import planes

QUESTION = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [0]}]})
ORIGIN = "https://app.example"

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here"),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """With TLS and two gateways, at an address that is taken for one that others can reach."""
    folder = tmp_path_factory.mktemp("secured")
    data_dir = folder / "data"
    data_dir.mkdir()
    (data_dir / "settings.toml").write_text(f'gateways = 2\ncors_origins = ["{ORIGIN}"]\nmax_body_bytes = 100000\n')
    (folder / "answer.py").write_text("def one(inputs):\n    return [1]\n")
    with planes.running_plane(data_dir, "--host", "127.0.0.2", "--inference-tls") as running:
        running.cli("deploy", "answer:one", "--name", "answer", cwd=folder)
        yield running


def curl(plane: planes.TestPlane, *words: str, url: str = "") -> tuple[str, dict[str, str], str]:
    """Status, headers and body."""
    command = ["curl", "-sS", "-i", "--cacert", str(plane.data_dir / "tls" / "ca.pem"), *words]
    said = subprocess.run([*command, url or infer(plane)], capture_output=True, text=True, check=True, timeout=60)
    heads, _, body = said.stdout.replace("\r\n", "\n").rpartition("\n\n")
    lines = heads.split("\n\n")[-1].splitlines()
    return (
        lines[0].split()[1],
        {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)},
        body,
    )


def infer(plane: planes.TestPlane) -> str:
    return f"{plane.inference_url}/v2/models/answer/infer"


def openssl(plane: planes.TestPlane, *words: str, sent: str = "") -> str:
    place = urlsplit(plane.inference_url).netloc
    command = ["openssl", "s_client", "-connect", place, "-CAfile", str(plane.data_dir / "tls" / "ca.pem"), *words]
    done = subprocess.run(command, input=sent, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def bearer(token: str) -> tuple[str, str]:
    return "-H", f"Authorization: Bearer {token}"


def test_curl_with_the_ca_and_a_token(plane: planes.TestPlane) -> None:
    code, headers, body = curl(plane, *bearer(plane.token()), "-d", QUESTION)
    assert (code, json.loads(body)["outputs"][0]["data"]) == ("200", [1])
    assert headers["mizzen-request-id"] == json.loads(body)["id"]
    assert curl(plane, "-d", QUESTION)[0] == "401"
    without = subprocess.run(["curl", "-sS", infer(plane)], capture_output=True, text=True, check=False, timeout=60)
    assert without.returncode == 60, "nobody vouches for it"
    plain = curl(plane, url=infer(plane).replace("https:", "http:"))
    assert (plain[0], "https" in plain[2]) == ("400", True)


@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_old_versions_are_refused(plane: planes.TestPlane, version: str) -> None:
    said = openssl(plane, f"-{version}", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in said


@pytest.mark.parametrize(("version", "name"), [("tls1_2", "TLSv1.2"), ("tls1_3", "TLSv1.3")])
def test_new_ones_are_taken_and_the_certificate_names_the_address(
    plane: planes.TestPlane, version: str, name: str
) -> None:
    said = openssl(plane, f"-{version}", "-verify_ip", "127.0.0.2", "-alpn", "h2,http/1.1")
    assert f"New, {name}, Cipher is " in said
    assert "Verify return code: 0 (ok)" in said
    assert "ALPN protocol: http/1.1" in said


@pytest.mark.parametrize("cipher", ["AES128-SHA", "AES256-GCM-SHA384", "NULL", "ECDHE-ECDSA-AES128-SHA"])
def test_weak_ciphers_are_refused(plane: planes.TestPlane, cipher: str) -> None:
    said = openssl(plane, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
    assert f"Cipher is {cipher}" not in said


def test_renegotiation_is_refused(plane: planes.TestPlane) -> None:
    said = openssl(plane, "-tls1_2", sent="R\n")
    assert "no renegotiation" in said


def test_sessions_are_resumed(plane: planes.TestPlane) -> None:
    """A ticket is valid only at the gateway that issued it, and five reconnections may all reach the other one."""

    def resumed() -> bool:
        return "Reused, TLSv1.2" in openssl(plane, "-tls1_2", "-reconnect")

    planes.wait_until(resumed, "the gateway that issued a ticket accepts it")


def test_a_browser_asks_first_as_curl_shows(plane: planes.TestPlane) -> None:
    wish = "-X", "OPTIONS", "-H", f"Origin: {ORIGIN}", "-H", "Access-Control-Request-Method: POST"
    code, headers, _ = curl(plane, *wish, "-H", "Access-Control-Request-Headers: authorization,content-type")
    assert (code, headers["access-control-allow-origin"]) == ("204", ORIGIN)
    assert {"authorization", "content-type"} <= set(headers["access-control-allow-headers"].split(", "))
    code, headers, _ = curl(plane, *bearer(plane.token()), "-H", f"Origin: {ORIGIN}", "-d", QUESTION)
    assert (code, headers["access-control-allow-origin"]) == ("200", ORIGIN)
    assert "mizzen-request-id" in headers["access-control-expose-headers"]
    code, headers, _ = curl(plane, *bearer(plane.token()), "-H", "Origin: https://evil.example", "-d", QUESTION)
    assert (code, "access-control-allow-origin" in headers) == ("403", False)


def test_bodies_and_heads_are_limited(plane: planes.TestPlane, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(200_000))
    for more in ((), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect:")):
        assert curl(plane, *bearer(plane.token()), "--data-binary", f"@{file}", *more)[0] == "413", more
    long = [word for number in range(8) for word in ("-H", f"X-Long-{number}: {'x' * 90_000}")]
    assert curl(plane, *long, "-d", QUESTION)[0] == "431"


def test_many_at_once_are_held_to_rate_and_quota(plane: planes.TestPlane) -> None:
    plane.cli("user", "add", "ann")
    plane.cli("permit", "ann", "predict", "answer")
    token = plane.cli("token", "create", "ann").stdout.strip()
    plane.cli("limit", "ann", "--per-second", "0.001", "--burst", "30", "--per-day", "1000")
    context = ssl.create_default_context(cafile=str(plane.data_dir / "tls" / "ca.pem"))
    codes: Counter[int] = Counter()

    def ask(_: int) -> list[int]:
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(verify=context, headers=headers, trust_env=False, timeout=60) as client:
            return [client.post(infer(plane), content=QUESTION).status_code for _ in range(10)]

    def in_force() -> bool:
        answers = [curl(plane, *bearer(token), "-d", QUESTION) for _ in range(6)]
        return all("ratelimit-limit" in headers for _, headers, _ in answers)

    planes.wait_until(in_force, "both gateways know")
    plane.cli("limit", "ann", "--per-second", "0.001", "--burst", "60", "--per-day", "1000")
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(ask, range(16)):
            codes.update(found)
    assert set(codes) == {200, 429}
    assert codes[200] <= 60 + 3, "all that were let in, and a few that came in the same microsecond"
    refused = curl(plane, *bearer(token), "-d", QUESTION)
    assert (refused[0], int(refused[1]["retry-after"]) > 0) == ("429", True)
    plane.cli("limit", "ann", "--remove")
