"""A backup of a plane that is written to and asked for predictions meanwhile, restored elsewhere while it runs on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds import catalog
from tests.support import load, models, planes

RESOURCES = "/apis/mizzen.dev/v1alpha1"
ROW = {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": [1.0, 2.0, 3.0, 4.0]}]}
LIVING = {"Node", "Event"}
"""Kinds whose objects tell how the machine is now."""


class Writer:
    """Makes and changes models, one after the other, and remembers what was acknowledged."""

    def __init__(self, control: httpx2.Client) -> None:
        self._control = control
        self._stop = threading.Event()
        self.acknowledged: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self._thread = threading.Thread(target=self._write)

    def more(self, changes: int) -> None:
        """Returns when so many more were acknowledged."""
        wanted = len(self.acknowledged) + changes
        planes.wait_until(lambda: self.faults or len(self.acknowledged) >= wanted, "changes are made")

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            path, name = f"{RESOURCES}/namespaces/default/models", f"m{number % 40}"
            meta = {"name": name, "labels": {"n": str(number)}}
            spec = {"track": "latest" if number // 40 % 2 else "manual"}  # another one each time: history keeps them
            body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": meta, "spec": spec}
            answer = self._control.post(path, json=body)
            if answer.status_code == 409:
                kind = {"content-type": "application/merge-patch+json"}
                answer = self._control.patch(f"{path}/{name}", json=body, headers=kind)
            if answer.status_code not in (200, 201):
                self.faults.append(answer.text)
                return
            self.acknowledged.append(answer.json())


@contextmanager
def writing(control: httpx2.Client) -> Iterator[Writer]:
    writer = Writer(control)
    writer._thread.start()
    try:
        yield writer
    finally:
        writer._stop.set()
        writer._thread.join()


@contextmanager
def admin_of(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as control:
        yield control


def all_of(control: httpx2.Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        page = control.get(path, params={"limit": "500", "continue": token} if token else {"limit": "500"}).json()
        items += page["items"]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return items


def state_of(control: httpx2.Client) -> dict[str, Any]:
    """What a plane keeps, as its readers see it."""
    objects = {
        item["metadata"]["uid"]: (
            kind.name,
            item["metadata"]["name"],
            item["metadata"]["creationTimestamp"],
            item["metadata"]["generation"],
            item["spec"],
        )
        for kind in catalog.KINDS
        if kind.name not in {"Revision", *LIVING}
        for item in all_of(control, f"{RESOURCES}/{kind.plural}")
    }
    history = [
        (item["metadata"]["name"], item["spec"])
        for item in all_of(control, f"{RESOURCES}/revisions")
        if item["spec"].get("kind") not in LIVING
    ]
    return {"objects": objects, "history": history}


@pytest.fixture
def weigher(plane: planes.TestPlane, tmp_path: Path) -> planes.TestPlane:
    models.save_weigher(tmp_path / "model.joblib")
    plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=tmp_path)
    return plane


def test_backup_under_load(weigher: planes.TestPlane, tmp_path: Path) -> None:
    plane = weigher
    plane.cli("user", "add", "ann")
    token = plane.cli("token", "create", "ann").stdout.strip()
    plane.cli("permit", "ann", "read", "weigher")
    plane.cli("secret", "set", "keys", "API=opensesame")
    url = f"{plane.inference_url}/v2/models/weigher/infer"
    answer = httpx2.post(url, json=ROW).json()
    with admin_of(plane) as control, load.steady_load(url, 200) as running, writing(control) as writer:
        writer.more(60)
        for name in ("first.tar", "second.tar.gz", "last.tar"):
            promised = list(writer.acknowledged)
            plane.cli("backup", name, cwd=tmp_path)
            writer.more(20)
    assert writer.faults == []
    assert (running.report.wrong, running.report.failures) == ([], [])

    said = json.loads(plane.cli("restore", "last.tar", "--check", "-o", "json", cwd=tmp_path).stdout)
    with planes.running_plane(restored(tmp_path, "second.tar.gz")) as again:
        assert again.control_url != plane.control_url, "the old one still has its ports"
    with planes.running_plane(restored(tmp_path, "last.tar")) as again, admin_of(again) as control:
        assert again.token() == plane.token()
        found = state_of(control)
        with admin_of(plane) as old:
            before = state_of(old)
            entries = all_of(old, "/audit")
        check_promised(control, promised, said["resource_version"])
        check_same(found, before)
        oldest = all_of(control, "/audit")[-50:]
        assert oldest == entries[-50:]
        # Who had rights has them, with the token they had; what was sealed opens.
        mine = {"authorization": f"Bearer {token}"}
        assert httpx2.get(f"{again.control_url}/model/weigher", headers=mine).json()["name"] == "weigher"
        secrets = control.get("/secret").json()["items"]
        assert [secret["name"] for secret in secrets] == ["keys"]
        check_answers(again, answer)
        check_secret_opens(again, tmp_path)


def restored(folder: Path, name: str) -> Path:
    target = folder / f"restored-{name}"
    planes.run_cli(target, "restore", name, "--data-dir", str(target), cwd=folder)
    return target


def check_promised(control: httpx2.Client, promised: list[dict[str, Any]], upto: int) -> None:
    """All that was acknowledged before the backup began is in it; and what came after it is not."""
    models = {item["metadata"]["name"]: item for item in all_of(control, f"{RESOURCES}/models")}
    for last in {item["metadata"]["name"]: item for item in promised}.values():
        now = models[last["metadata"]["name"]]
        assert now["metadata"]["uid"] == last["metadata"]["uid"]
        assert int(now["metadata"]["labels"]["n"]) >= int(last["metadata"]["labels"]["n"])
    versions = [int(item["metadata"]["resourceVersion"]) for item in models.values()]
    assert any(version <= upto for version in versions)


def check_same(found: dict[str, Any], before: dict[str, Any]) -> None:
    """The same objects by uid; and its history is a beginning of that of the plane that went on."""
    assert found["objects"].keys() <= before["objects"].keys()
    for uid, known in found["objects"].items():
        *identity, generation, spec = before["objects"][uid]
        assert list(known[:3]) == identity
        assert known[3] < generation or known[3:] == (generation, spec), "as it was, unless it was changed since"
    went_on = dict(before["history"])
    assert len(found["history"]) > 60
    for name, spec in found["history"]:
        if spec["actor"] != "mizzen":  # what controllers did since the restore is its own
            assert went_on[name] == spec


def check_answers(again: planes.TestPlane, answer: dict[str, Any]) -> None:
    def served() -> bool:
        said = httpx2.post(f"{again.inference_url}/v2/models/weigher/infer", json=ROW, timeout=60)
        return said.status_code == 200 and said.json()["outputs"] == answer["outputs"]

    planes.wait_until(served, "the restored plane answers the same")


def check_secret_opens(again: planes.TestPlane, folder: Path) -> None:
    """A process that is started here gets the value that was sealed there."""
    (folder / "told.py").write_text(
        "import os\nimport numpy\n\ndef predict(inputs):\n    return numpy.array([os.environ['KEY']], dtype=object)\n"
    )
    again.cli("model", "create", "told", check=False)
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "API"}}}]
    again.cli("deploy", "told:predict", "--name", "told", cwd=folder)
    with admin_of(again) as control:
        path = f"{RESOURCES}/namespaces/default/inferencemodels/told-1"
        kind = {"content-type": "application/merge-patch+json"}
        changed = control.patch(path, json={"spec": {"env": env}}, headers=kind)
        assert changed.status_code == 200, changed.text

    def opened() -> bool:
        said = httpx2.post(f"{again.inference_url}/v2/models/told/infer", json=ROW, timeout=60)
        return said.status_code == 200 and said.json()["outputs"][0]["data"] == ["opensesame"]

    planes.wait_until(opened, "the secret opens")
