"""A real disk that gets full under a plane: what may be refused is refused in time, what was acknowledged stays, what
is served goes on, and when there is room again, all goes on by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import disks, models, planes

MB = 1 << 20
SIZE, LOW, CRITICAL = 160 * MB, 64 * MB, 24 * MB
MODELS = "/apis/mizzen.dev/v1alpha1/namespaces/default/models"
ROW = {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": [1.0, 2.0, 3.0, 4.0]}]}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path / "disk", SIZE) as place:
        yield place


@contextmanager
def serving(disk: Path, folder: Path, low: int, critical: int) -> Iterator[tuple[planes.TestPlane, httpx2.Client]]:
    (disk / "data").mkdir()
    (disk / "data" / "settings.toml").write_text(f"disk_low_bytes = {low}\ndisk_critical_bytes = {critical}\n")
    models.save_weigher(folder / "model.joblib")
    with planes.running_plane(disk / "data") as plane:
        plane.cli("deploy", "model.joblib", "--name", "weigher", cwd=folder)
        headers = {"authorization": f"Bearer {plane.token()}"}
        with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as control:
            yield plane, control


def create(control: httpx2.Client, name: str) -> httpx2.Response:
    body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": name}}
    return control.post(MODELS, json=body)


def answers(plane: planes.TestPlane) -> bool:
    said = httpx2.post(f"{plane.inference_url}/v2/models/weigher/infer", json=ROW, timeout=60)
    return said.status_code == 200


def room(control: httpx2.Client) -> str:
    [node] = control.get("/apis/mizzen.dev/v1alpha1/nodes").json()["items"]
    [said] = [each for each in node["status"]["conditions"] if each["type"] == "DiskRoom"]
    return str(said["reason"])


def warnings(control: httpx2.Client) -> set[str]:
    found = control.get("/api/v1/namespaces/default/events").json()["items"]
    return {event["reason"] for event in found if event["type"] == "Warning"}


def test_marks(disk: Path, tmp_path: Path) -> None:
    ballast = disks.Ballast(disk)
    with serving(disk, tmp_path, LOW, CRITICAL) as (plane, control):
        ballast.leave(LOW - 8 * MB)
        planes.wait_until(lambda: room(control) == "DiskLow", "it is seen")
        planes.wait_until(lambda: "DiskLow" in warnings(control), "it is told")
        refused = plane.cli("deploy", "model.joblib", "--name", "another", cwd=tmp_path, check=False)
        assert refused.returncode == 1
        assert "the disk has no room" in refused.stderr
        assert "hint: delete unused versions" in refused.stderr
        status = plane.cli("status")
        assert "no files are accepted" in status.stderr
        assert plane.status()["disk"]["level"] == "low"
        assert create(control, "small").status_code == 201, "what is small is still taken"
        assert answers(plane)

        ballast.leave(CRITICAL - 8 * MB)
        planes.wait_until(lambda: room(control) == "DiskCritical", "it is seen")
        said = create(control, "more")
        assert said.status_code == 507
        assert said.json()["reason"] == "InsufficientStorage"
        assert "delete" in said.json()["details"]["hint"]
        gone = control.delete(f"{MODELS}/small")
        assert gone.status_code == 200, gone.text
        assert control.get(f"{MODELS}/small").status_code == 404
        assert answers(plane)
        ballast.leave(LOW + 20 * MB)
        planes.wait_until(lambda: room(control) == "EnoughRoom", "it goes on by itself")
        plane.cli("deploy", "model.joblib", "--name", "another", cwd=tmp_path)
        assert create(control, "more").status_code == 201


def test_full_to_the_last_byte(disk: Path, tmp_path: Path) -> None:
    """Without marks: the store meets the end of the disk itself."""
    ballast = disks.Ballast(disk)
    with serving(disk, tmp_path, 0, 0) as (plane, control):
        kept = [name for name in map("kept{}".format, range(20)) if create(control, name).status_code == 201]
        assert len(kept) == 20
        ballast.leave(0)
        refused: dict[str, Any] = {}
        for number in range(2000):
            answer = create(control, f"late{number}")
            if answer.status_code == 201:
                kept.append(f"late{number}")
            else:
                refused = answer.json()
                assert answer.status_code in (500, 503), answer.text
                break
        assert "full disk" in refused["details"]["hint"]
        assert answers(plane)
        assert control.get(f"{MODELS}/kept1").status_code == 200

        # Killed while it is full: it comes back, and what was acknowledged is there.
        os.kill(plane.pid("plane"), 9)
        ballast.leave(60 * MB)

        def back() -> bool:
            try:
                return control.get(f"{MODELS}/kept1").status_code == 200
            except httpx2.HTTPError:
                return False

        planes.wait_until(back, "the plane is back")
        there = {item["metadata"]["name"] for item in control.get(MODELS).json()["items"]}
        assert set(kept) <= there
        planes.wait_until(lambda: create(control, f"again{os.urandom(4).hex()}").status_code == 201, "it writes again")
        assert answers(plane)
