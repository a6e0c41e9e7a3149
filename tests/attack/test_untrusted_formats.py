"""Models of a user who may write to a model, and not vouch for its files: what could do harm is never loaded.

All files are served at once, by one plane: starting a process for each in turn would take minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

import mizzen
from mizzen.sdk.connection.locate import PlaneAddress
from tests.support import planes
from tests.support.runtime import untrusted

HERE = "/apis/mizzen.dev/v1alpha1/namespaces/default"


@dataclass(frozen=True, slots=True)
class Writer:
    """Ann, who has `write` and `predict` on a model, and no more."""

    plane: planes.TestPlane
    token: str
    http: httpx2.Client

    def serve(self, model: str, files: Mapping[str, Path]) -> dict[str, str]:
        """Serves each file, whose key begins with its framework, as a version of the model. Returns their servers."""
        self.plane.cli("model", "create", model)
        self.plane.cli("permit", "ann", "write", model)
        self.plane.cli("permit", "ann", "predict", model)
        with mizzen.Plane(PlaneAddress(self.plane.control_url, self.plane.inference_url, self.token)) as session:
            for at, (key, file) in enumerate(files.items(), 1):
                framework = key.partition(" ")[0]
                session.run(session.calls.add_version(model, file, version=str(at), framework=framework))
        for at in range(1, len(files) + 1):
            served = self.http.post(f"/model/{model}/serve/{at}", json={})
            assert served.status_code == 201, served.text
        return {key: f"{model}-{at}" for at, key in enumerate(files, 1)}

    def outcome(self, server: str) -> dict[str, Any]:
        """Its Ready condition, once it is clear whether it is served."""

        def ready() -> dict[str, Any] | None:
            status = self.http.get(f"{HERE}/inferencemodels/{server}").json().get("status", {})
            found = [one for one in status.get("conditions", []) if one["type"] == "Ready"]
            return found[0] if found and found[0]["reason"] in ("Serving", "LoadFailed") else None

        return planes.wait_until(ready, f"{server} is served or refused", timeout=180) or {}

    def answer(self, server: str, tensor: dict[str, Any]) -> httpx2.Response:
        url = f"{self.plane.inference_url}/v2/models/{server}/infer"
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx2.post(url, json={"inputs": [tensor]}, headers=headers, timeout=60, verify=False)


@pytest.fixture(scope="module")
def ann(plane: planes.TestPlane) -> Iterator[Writer]:
    plane.cli("user", "add", "ann")
    token = plane.cli("token", "create", "ann").stdout.strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, verify=False) as http:
        yield Writer(plane, token, http)


def test_scikit_learn_classes_read_no_credentials(ann: Writer, tmp_path: Path) -> None:
    """The file opens what a caller names, and answers with what is in it: an admin's token, for one."""
    secret = ann.plane.token()
    (tmp_path / "reader.skops").write_bytes(untrusted.file_reader(len(secret)))
    ann.serve("reader", {"sklearn": tmp_path / "reader.skops"})
    names = (str(ann.plane.data_dir / "admin-token"), "../../admin-token", "../../../admin-token")

    def leaked() -> list[str]:
        tensors = [{"name": "input", "datatype": "BYTES", "shape": [1, 1], "data": [name]} for name in names]
        answers = [each for tensor in tensors if (each := ann.answer("reader-1", tensor)).is_success]
        read = [untrusted.read_letters(each.json()["outputs"][0]["data"]) for each in answers]
        return [each for each in read if set(each) != {"?"}]

    ready = ann.outcome("reader-1")
    assert leaked() == []
    assert ready["reason"] == "LoadFailed"
    assert "'input' of its CountVectorizer is 'filename'" in ready["message"]
    assert "is not marked as trusted" in ready["message"]
    # Not even once an admin has vouched for it, because the process cannot read the file.
    ann.plane.cli("version", "trust", "reader", "1")
    planes.wait_until(lambda: ann.outcome("reader-1")["reason"] == "Serving", "it is served", timeout=180)
    assert leaked() == []


def test_files_that_could_do_harm_are_refused_by_what_they_contain(ann: Writer, tmp_path: Path) -> None:
    files = untrusted.hostile(tmp_path)
    servers = ann.serve("hostile", {key: file for key, (file, _) in files.items()})
    outcomes = {key: ann.outcome(server) for key, server in servers.items()}
    assert {key: one["reason"] for key, one in outcomes.items()} == dict.fromkeys(files, "LoadFailed")
    assert {key: one["message"] for key, one in outcomes.items() if files[key][1] not in one["message"]} == {}


def test_harmless_files_are_served_without_trust(ann: Writer, tmp_path: Path) -> None:
    servers = ann.serve("harmless", untrusted.harmless(tmp_path))
    outcomes = {key: ann.outcome(server) for key, server in servers.items()}
    assert {key: one["message"] for key, one in outcomes.items() if one["reason"] != "Serving"} == {}
    for key, server in servers.items():
        name, datatype = ("x", "FP32") if "onnx" in key else ("input", "FP64")
        row = {"name": name, "datatype": datatype, "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}
        text = {"name": name, "datatype": "BYTES", "shape": [1], "data": ["good day"]}
        answer = ann.answer(server, text if "text" in key else row)
        assert answer.is_success, (key, answer.text)
