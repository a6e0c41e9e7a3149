"""Servers whose archives the plane fetches: through broken connections, never the wrong ones; switched under load."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

from tests.support import load, models, planes

SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"


class Site:
    """Files by path. Each is sent in pieces, and the connection broken after each of them."""

    def __init__(self, model: bytes) -> None:
        self.files = {f"/{number}.tar.gz": archive(model, number) for number in (1, 2)}
        self.ranges: list[str | None] = []
        self.url = ""

    def sha(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def entry(self, number: int, **more: str) -> dict[str, str]:
        path = f"/{number}.tar.gz"
        return {"version": str(number), "downloadURL": self.url + path, "sha256sum": self.sha(path)} | more

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        data = self.files[handler.path]
        asked = handler.headers["range"]
        self.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("content-range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("content-length", str(len(data) - start))
        handler.send_header("etag", '"1"')
        handler.end_headers()
        handler.wfile.write(data[start : start + len(data) // 2 + 1])
        handler.close_connection = True


def archive(model: bytes, number: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in (("model.joblib", model), ("NOTES", f"version {number}".encode())):
            info = tarfile.TarInfo(f"weigher/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(models.save_weigher(tmp_path_factory.mktemp("model") / "model.joblib").read_bytes())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def control(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, verify=False) as client:
        yield client


def serve(control: httpx2.Client, name: str, **spec: Any) -> None:
    whole = {"modelName": name, "deployToLayer": "cloud", "frameworkType": "sklearn"} | spec
    manifest = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": f"{name}-server"},
        "spec": whole,
    }  # fmt: skip
    answer = control.post(SERVERS, json=manifest)
    assert answer.status_code == 201, answer.text


def ready(control: httpx2.Client, name: str) -> dict[str, Any]:
    found = control.get(f"{SERVERS}/{name}-server").json()
    conditions = found.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Ready"), {})


def until(control: httpx2.Client, name: str, reason: str) -> str:
    planes.wait_until(lambda: ready(control, name).get("reason") == reason, f"{reason}, not {ready(control, name)}")
    return str(ready(control, name)["message"])


def test_an_archive_is_fetched_verified_registered_and_switched_to(
    plane: planes.TestPlane, control: httpx2.Client, site: Site
) -> None:
    serve(control, "weigher", manifest=[site.entry(1), site.entry(2)], targetVersion="1")
    until(control, "weigher", "Serving")
    assert any(site.ranges), "it went on where it broke off"
    version = control.get("/model/weigher/version/1").json()
    assert version["source"] == {"url": f"{site.url}/1.tar.gz", "sha256sum": site.sha("/1.tar.gz")}
    url = f"{plane.inference_url}/v2/models/weigher-server"
    planes.wait_until(lambda: httpx2.get(f"{url}/ready", verify=False).status_code == 200, "gateways know it")
    with load.steady_load(f"{url}/infer", 50) as running:
        kind = {"content-type": "application/merge-patch+json"}
        for target in ("2", "1", "2"):
            control.patch(f"{SERVERS}/weigher-server", json={"spec": {"targetVersion": target}}, headers=kind)

            def switched(target: str = target) -> bool:
                status = control.get(f"{SERVERS}/weigher-server").json()["status"]
                return bool(status.get("servingVersion") == target)

            planes.wait_until(switched, f"version {target} answers")
        served = running.report.right
        planes.wait_until(lambda: running.report.right > served + 20, "answers flow")
    assert (running.report.failures, running.report.wrong) == ([], [])


def test_what_is_not_what_it_should_be_is_never_served(control: httpx2.Client, site: Site) -> None:
    serve(control, "wrong", manifest=[site.entry(1, sha256sum="0" * 64)])
    assert "has the sha256" in until(control, "wrong", "FetchFailed")
    assert control.get("/model/wrong/version/1").status_code == 404


def test_a_version_is_never_another_archive(control: httpx2.Client, site: Site) -> None:
    serve(control, "twice", manifest=[site.entry(1)])
    until(control, "twice", "Serving")
    kind = {"content-type": "application/merge-patch+json"}
    other = [site.entry(2, version="1")]
    control.patch(f"{SERVERS}/twice-server", json={"spec": {"manifest": other}}, headers=kind)
    assert "versions never change" in until(control, "twice", "VersionConflict")
    assert control.get(f"{SERVERS}/twice-server").json()["status"]["servingVersion"] == "1", "what runs, runs on"


def test_this_machine_is_a_node_that_servers_may_ask_for(control: httpx2.Client, site: Site) -> None:
    nodes = "/apis/mizzen.dev/v1alpha1/namespaces/default/nodes"
    [node] = planes.wait_until(lambda: control.get(nodes).json()["items"], "it says that it is there")
    name = node["metadata"]["name"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
    assert node["spec"]["layer"] == "cloud"
    planes.wait_until(lambda: control.get(f"{nodes}/{name}").json()["status"].get("lastHeartbeat"), "it beats")
    manifest = [site.entry(1)]
    serve(control, "here", manifest=manifest, nodeName=name, nodeSelector={"kubernetes.io/hostname": name})
    until(control, "here", "Serving")
    serve(control, "torn", manifest=manifest, nodeName=name, nodeSelector={"room": "7"})
    assert "it has no label room" in until(control, "torn", "PlacementConflict")
    serve(control, "nowhere", manifest=manifest, nodeSelector={"room": "7"})
    until(control, "nowhere", "NodeNotFound")
