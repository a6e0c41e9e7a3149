"""Code that somebody brought who may not vouch for it: it does not run until somebody who may has done so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from tests.support import planes
from tests.support.runtime import untrusted

HERE = "/apis/mizzen.dev/v1alpha1/namespaces/default"


def test_code_runs_once_an_admin_vouches_for_it(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text("def one(inputs):\n    return [1]\n")
    plane.cli("model", "create", "answer")
    plane.cli("user", "add", "ann")
    ann = plane.cli("token", "create", "ann").stdout.strip()
    plane.cli("permit", "ann", "write", "answer")
    source = ("answer.py", "--entrypoint", "answer:one", "--version", "1")
    added = plane.cli("version", "add", "answer", *source, cwd=tmp_path, MIZZEN_TOKEN=ann)
    assert added.stdout == "version 1 of answer registered\n"

    told = plane.cli("serve", "answer", "1", check=False, MIZZEN_TOKEN=ann)
    assert told.returncode != 0
    assert "not marked as trusted" in told.stderr
    assert "mizzen version trust answer 1" in told.stderr

    with httpx2.Client(base_url=plane.control_url, headers={"authorization": f"Bearer {ann}"}, verify=False) as client:

        def ready() -> dict[str, Any]:
            conditions = client.get(f"{HERE}/inferencemodels/answer-1").json()["status"].get("conditions", [])
            return next((one for one in conditions if one["type"] == "Ready"), {"reason": ""})

        assert ready()["reason"] == "LoadFailed"
        assert client.post("/model/answer/version/1/trust").status_code == 403
        assert plane.cli("version", "trust", "answer", "1").stdout == "version 1 of answer is trusted\n"
        planes.wait_until(lambda: ready()["reason"] == "Serving", "it is served, without another word")
    outputs = json.loads(plane.cli("predict", "answer-1", "--data", "[0]", "-o", "json").stdout)["outputs"]
    assert outputs[0]["data"] == [1]

    again = plane.cli("version", "add", "answer", *source, cwd=tmp_path, MIZZEN_TOKEN=ann)
    assert again.stdout == "version 1 of answer was already registered\n"


def test_a_file_that_could_do_harm_says_why_and_runs_once_an_admin_vouches_for_it(
    plane: planes.TestPlane, tmp_path: Path
) -> None:
    """A plain model needs nobody; one with a function names it, to its writer, and is served after one command."""
    plane.cli("model", "create", "scaled")
    plane.cli("user", "add", "bob")
    bob = plane.cli("token", "create", "bob").stdout.strip()
    plane.cli("permit", "bob", "write", "scaled")
    (tmp_path / "plain.skops").write_bytes(untrusted.linear_file())
    (tmp_path / "function.skops").write_bytes(untrusted.function_file())
    for number, name in enumerate(("plain", "function"), 1):
        plane.cli("version", "add", "scaled", f"{name}.skops", "--version", str(number), cwd=tmp_path, MIZZEN_TOKEN=bob)
    assert plane.cli("serve", "scaled", "1", MIZZEN_TOKEN=bob).returncode == 0
    refused = plane.cli("serve", "scaled", "2", check=False, MIZZEN_TOKEN=bob)
    assert refused.returncode != 0
    assert "'function.skops' may do harm, because it contains the function 'numpy.log1p'" in refused.stderr
    assert "mizzen version trust scaled 2" in refused.stderr
    plane.cli("version", "trust", "scaled", "2")
    assert plane.cli("serve", "scaled", "2", MIZZEN_TOKEN=bob).returncode == 0
    # The user who started the plane needs none of this.
    plane.cli("deploy", "function.skops", "--name", "own", cwd=tmp_path)


def test_what_has_no_files_runs_nothing(plane: planes.TestPlane) -> None:
    plane.cli("model", "create", "mine")
    spec = {"modelName": "mine", "version": "x", "framework": "python", "entrypoint": "subprocess:check_output"}
    manifest = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "ModelVersion", "metadata": {"name": "mine.x"}}
    with httpx2.Client(
        base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}, timeout=60, verify=False
    ) as client:
        code = {"digest": "sha256:" + "0" * 64}
        refused = client.post(f"{HERE}/modelversions", json={**manifest, "spec": {**spec, "code": code}})
        assert refused.status_code == 422, refused.text
        # An image makes it possible, and still nothing of this process.
        made = client.post(f"{HERE}/modelversions", json={**manifest, "spec": {**spec, "image": "a/b:1"}})
        assert made.status_code == 201, made.text
        assert client.post("/model/mine/serve/x", json={}).status_code == 201

        def reason() -> str:
            conditions = client.get(f"{HERE}/inferencemodels/mine-x").json()["status"].get("conditions", [])
            return next((str(one["reason"]) for one in conditions if one["type"] == "Ready"), "")

        planes.wait_until(lambda: reason() == "ContainersUnsupported", "it says why it is not served")
        made = client.get(f"{HERE}/workloads").json()["items"]
        assert [each["metadata"]["name"] for each in made if each["metadata"]["name"].startswith("mine")] == []
