"""The control API with TLS on a real plane, and the kubeconfig that leads there."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx2
import pytest
import yaml

from tests.support import grpcs, listening, planes


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """For tests that leave it as it is."""
    with planes.running_plane(tmp_path_factory.mktemp("tls") / "data") as running:
        yield running


def test_the_same_api_answers_with_tls_and_the_same_checks(shared: planes.TestPlane) -> None:
    with trusting(shared) as client:
        here = shared.tls_url
        assert client.get("/version").json() == httpx2.get(f"{shared.control_url}/version", verify=False).json()
        assert client.get("/whoami").json()["name"] == "admin"
        assert client.get("/whoami", headers={"authorization": "Bearer wrong"}).status_code == 401
        rebound = client.get("/version", headers={"host": "evil.example"})
        assert rebound.status_code == 403
        assert "https://127.0.0.1" in rebound.json()["details"]["hint"]
        for origin, code in ((here, 200), (here.replace("https", "http"), 403), ("https://evil.example", 403)):
            assert client.get("/version", headers={"origin": origin}).status_code == code, origin


def test_nobody_is_trusted_without_the_ca(shared: planes.TestPlane) -> None:
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(f"{shared.tls_url}/version", trust_env=False)
    plain = httpx2.get(f"{shared.tls_url.replace('https', 'http')}/version", trust_env=False)
    assert (plain.status_code, "https" in plain.text) == (400, True)
    with trusting(shared) as client:
        assert client.get("/version").status_code == 200, "and the listener goes on"


def test_the_cli_says_which_ca_it_needs(shared: planes.TestPlane, tmp_path: Path) -> None:
    def version(**environ: str) -> subprocess.CompletedProcess[str]:
        said = {"MIZZEN_URL": shared.tls_url, "MIZZEN_TOKEN": shared.token(), **environ}
        return shared.cli("whoami", cwd=tmp_path, check=False, **said)

    authority = shared.data_dir / "tls" / "ca.pem"
    strange = version()
    assert strange.returncode != 0
    assert f"the certificate of {shared.tls_url} is not trusted: " in strange.stderr
    assert "set SSL_CERT_FILE to tls/ca.pem in its data dir" in strange.stderr
    assert version(SSL_CERT_FILE=str(authority)).returncode == 0
    assert "SSL_CERT_FILE cannot be read" in version(SSL_CERT_FILE=str(tmp_path / "none.pem")).stderr
    elsewhere = version(SSL_CERT_FILE=str(authority), MIZZEN_URL=shared.tls_url.replace("127.0.0.1", "127.0.0.3"))
    assert elsewhere.returncode != 0


def test_a_kubeconfig_holds_all_that_is_needed(shared: planes.TestPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(shared.cli("kubeconfig", cwd=tmp_path).stdout)
    cluster, user, context = opened(config)
    assert cluster["server"] == shared.tls_url
    assert user["token"] == shared.token()
    assert context["namespace"] == "default"
    assert whoami(config) == "admin"
    other = json.loads(shared.cli("kubeconfig", "-n", "lab", "--host", "team.example", "-o", "json").stdout)
    cluster, _, context = opened(other)
    assert cluster["server"] == shared.tls_url.replace("127.0.0.1", "team.example")
    assert context["namespace"] == "lab"


def test_a_kubeconfig_is_for_whose_token_is_given(shared: planes.TestPlane) -> None:
    shared.cli("user", "add", "ann")
    token = shared.cli("token", "create", "ann").stdout.strip()
    config = yaml.safe_load(shared.cli("kubeconfig", MIZZEN_TOKEN=token).stdout)
    assert whoami(config) == "ann"
    assert opened(config)[1]["token"] == token
    assert shared.token() not in json.dumps(config)
    shared.cli("user", "delete", "ann")
    gone = shared.cli("kubeconfig", check=False, MIZZEN_TOKEN=token)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "was revoked" in gone.stderr


def test_a_kubeconfig_cannot_be_made_from_elsewhere(shared: planes.TestPlane, tmp_path: Path) -> None:
    far = planes.run_cli(tmp_path / "none", "kubeconfig", check=False, MIZZEN_URL=shared.control_url)
    assert (far.returncode, far.stdout) == (1, "")
    assert "on the plane's machine" in far.stderr
    none = planes.run_cli(tmp_path / "none", "kubeconfig", check=False)
    assert (none.returncode, none.stdout) == (1, "")
    assert "mizzen up" in none.stderr


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o600, False)])
def test_a_file_that_others_can_read_is_warned_of(
    shared: planes.TestPlane, tmp_path: Path, mode: int, warns: bool
) -> None:
    file = tmp_path / "kubeconfig"
    file.touch()
    file.chmod(mode)
    command = [sys.executable, "-m", "mizzen.cli.main", "kubeconfig", "--data-dir", str(shared.data_dir)]
    with file.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=True)
    assert ("chmod 600" in done.stderr) is warns
    assert whoami(yaml.safe_load(file.read_text())) == "admin"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; tests/conformance brings its own")
def test_kubectl_uses_it_from_any_folder(shared: planes.TestPlane, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(shared.cli("kubeconfig").stdout)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(file)}

    def kubectl(*words: str) -> str:
        return subprocess.run(
            ["kubectl", *words], env=environ, cwd="/", capture_output=True, text=True, check=True, timeout=60
        ).stdout

    assert "Server Version: v" in kubectl("version")
    assert json.loads(kubectl("get", "--raw", "/whoami"))["name"] == "admin"
    version = httpx2.get(f"{shared.control_url}/version", verify=False).json()
    assert json.loads(kubectl("get", "--raw", "/version")) == version


def test_what_was_handed_out_stays_good(plane: planes.TestPlane) -> None:
    config = yaml.safe_load(plane.cli("kubeconfig").stdout)
    killed = plane.pid("plane")
    os.kill(killed, signal.SIGKILL)
    assert whoami(config) == "admin", "the socket stays open meanwhile"
    with trusting(plane) as idle:  # keeps its connection and does not read: no reason for a stop to wait
        assert idle.get("/version").status_code == 200
        plane.cli("down")
        log = (plane.data_dir / "logs" / "plane.log").read_text()
        assert "timeout graceful shutdown exceeded" not in log
        assert log.count("Finished server process") == 2
    plane.cli("up", *planes.FREE_PORTS)
    assert plane.status()["tls_url"] == plane.tls_url
    assert whoami(config) == "admin"


def test_where_others_can_reach_it_everything_is_encrypted(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text("def one(inputs):\n    return [1]\n")
    flags = "--host", "127.0.0.2", "--inference-tls", "--gateways", "2"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text("audit_predictions = 1.0\n")
    # 127.0.0.2 is this machine alone, too; but none of the addresses that are taken for it.
    with planes.running_plane(tmp_path / "data", *flags) as plane:
        assert plane.tls_url.startswith("https://127.0.0.2:")
        assert plane.inference_url.startswith("https://127.0.0.2:")
        assert plane.control_url.startswith("http://127.0.0.1:"), "tokens are not sent in clear to another machine"
        assert whoami(yaml.safe_load(plane.cli("kubeconfig").stdout)) == "admin", "the certificate names the address"
        plane.cli("deploy", "answer:one", "--name", "answer", cwd=tmp_path)
        assert "1" in plane.cli("predict", "answer", "--data", "[[1]]").stdout
        for client in (trusting(plane), trusting(plane, plane.inference_url)):
            with client:
                assert client.get("/v2/models", headers={"authorization": ""}).status_code == 401
        over_grpc(plane)
        with trusting(plane) as client:
            assert client.get("/").json()["inference"] == plane.inference_url
        far = plane.cli(
            "predict", "answer", "--data", "[[1]]", cwd=tmp_path, MIZZEN_URL=plane.tls_url,
            MIZZEN_TOKEN=plane.token(), SSL_CERT_FILE=str(plane.data_dir / "tls" / "ca.pem"),
        )  # fmt: skip
        assert "1" in far.stdout
        nothing_else_is_open(plane)

        def sampled() -> list[dict[str, Any]]:
            entries = json.loads(plane.cli("audit", "--name", "answer", "-o", "json").stdout)["items"]
            return [entry for entry in entries if entry["verb"] == "predict" and entry["allowed"]]

        [entry, *_] = planes.wait_until(sampled, "predictions are in the audit")
        assert (entry["actor"], entry["code"], "sha256:" in entry["reason"]) == ("admin", 200, True)


def over_grpc(plane: planes.TestPlane) -> None:
    """It is there with TLS alone, too, and for nobody without a token."""
    secure = grpc.ssl_channel_credentials((plane.data_dir / "tls" / "ca.pem").read_bytes())
    request = grpcs.request_of("answer", [[1]], "x")
    with grpc.secure_channel(plane.grpc_address, secure) as channel:
        call = grpcs.Caller(channel)
        assert call.refusal(lambda: call.infer(request))[0] == "UNAUTHENTICATED"
        assert call.as_(authorization=f"Bearer {plane.token()}").infer(request).model_name == "answer"
    with grpcs.calling(plane.grpc_address) as plain:
        assert plain.refusal(lambda: plain.infer(request))[0] == "UNAVAILABLE"


def test_a_ca_that_does_not_fit_stops_the_start_with_a_hint(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "tls"
    folder.mkdir(parents=True)
    (folder / "ca-key.pem").write_text("not mine\n")
    (folder / "ca-key.pem").chmod(0o600)
    try:
        done = planes.run_cli(tmp_path / "data", "up", *planes.FREE_PORTS, check=False)
        assert done.returncode == 1
        assert f"{folder / 'ca-key.pem'} does not contain a valid key" in done.stderr
        assert f"remove {folder}" in done.stderr
        assert planes.members(tmp_path / "data") == []
        shutil.rmtree(folder)
        planes.run_cli(tmp_path / "data", "up", *planes.FREE_PORTS)
    finally:
        planes.run_cli(tmp_path / "data", "down", check=False)
        planes.end_all(tmp_path / "data")


def nothing_else_is_open(plane: planes.TestPlane) -> None:
    """All that is listened on is what `status` tells, and sockets in a folder that is its owner's alone."""
    status = plane.status()
    told = {
        (str(parts.hostname), parts.port)
        for url in (
            status["control_url"],
            status["tls_url"],
            status["inference_url"],
            f"grpc://{status['grpc_address']}",
        )
        for parts in [urlsplit(url)]
    }
    opened = listening.found(plane.data_dir)
    assert opened.tcp == told
    assert opened.udp == set()
    run = (plane.data_dir / "run").resolve()
    assert run.stat().st_mode & 0o777 == 0o700
    assert len(opened.unix) >= 2, "the supervisor's, and that of the model"
    assert [path for path in opened.unix if not Path(path).resolve().is_relative_to(run)] == []


def trusting(plane: planes.TestPlane, url: str = "") -> httpx2.Client:
    """Who has the CA and the admin's token."""
    return client(url or plane.tls_url, (plane.data_dir / "tls" / "ca.pem").read_text(), plane.token())


def client(url: str, authority: str, token: str) -> httpx2.Client:
    context = ssl.create_default_context(cadata=authority)
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=url, verify=context, headers=headers, timeout=60, trust_env=False)


def opened(config: dict[str, Any]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Cluster, user and context that are in use, found as kubectl finds them."""

    def named(list_: str, name: str) -> dict[str, str]:
        (found,) = (each for each in config[f"{list_}s"] if each["name"] == name)
        return dict(found[list_])

    context = named("context", config["current-context"])
    return named("cluster", context["cluster"]), named("user", context["user"]), context


def whoami(config: dict[str, Any]) -> str:
    """Who the plane takes the owner of this kubeconfig for."""
    cluster, user, _ = opened(config)
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    with client(cluster["server"], authority, user["token"]) as asking:
        return str(asking.get("/whoami").json()["name"])
