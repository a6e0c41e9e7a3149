"""Whole planes whose data dir was damaged: they start whole or not at all, and say what to do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import models, planes
from tests.support.planes import TestPlane

DATA = "[[5.1,3.5,1.4,0.2]]"


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Data dirs of a plane with a model, a user and a secret: after a clean stop, and after kill -9 of everything."""
    folder = tmp_path_factory.mktemp("states")
    data = folder / "data"
    with planes.running_plane(data) as plane:
        plane.cli("deploy", str(models.save_iris(folder / "iris.joblib")), "--name", "iris")
        plane.cli("secret", "set", "first", "key=value")
        plane.cli("down")
        copy(data, folder / "clean")
        again = planes.started(data)
        again.cli("user", "add", "ann")
        again.cli("model", "create", "later")
        planes.wait_until(lambda: predicts(again), "it serves")
        planes.end_all(data)
        copy(data, folder / "killed")
    yield {name: folder / name for name in ("clean", "killed")}
    shutil.rmtree(folder, ignore_errors=True)


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=lambda _, names: {"run", "logs"} & set(names))


def predicts(plane: TestPlane) -> bool:
    return plane.cli("predict", "iris", "--data", DATA, check=False).returncode == 0


def blobs(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.glob("blobs/sha256/??/*")}


@contextmanager
def damaged(source: Path, tmp_path: Path) -> Iterator[Path]:
    data = tmp_path / "data"
    copy(source, data)
    try:
        yield data
    finally:
        planes.run_cli(data, "down", check=False)
        planes.end_all(data)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def scramble(path: Path) -> None:
    mode, size = path.stat().st_mode, path.stat().st_size
    path.chmod(0o600)
    path.write_bytes(os.urandom(size))
    path.chmod(mode)


def doctor(data_dir: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(planes.run_cli(data_dir, "doctor", "-o", "json", *words, check=False).stdout)
    return found


@pytest.mark.parametrize(
    ("state", "name", "harm"),
    [
        ("killed", "mizzen.db-wal", truncate),
        ("killed", "mizzen.db-wal", Path.unlink),
        ("clean", "mizzen.db", Path.unlink),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_damaged_store_is_refused(states: dict[str, Path], tmp_path: Path, state: str, name: str, harm: Any) -> None:
    with damaged(states[state], tmp_path) as data:
        before = blobs(data)
        harm(data / name)
        done = planes.run_cli(data, "up", *planes.FREE_PORTS, check=False)
        assert done.returncode != 0, "it must not start with less than it had"
        assert "the store is damaged" in done.stderr
        assert "mizzen doctor" in done.stderr
        assert "mizzen restore" in done.stderr
        assert blobs(data) == before
        assert not planes.members(data)
        assert any(defect["check"] == "store" for defect in doctor(data)["defects"])


def test_what_a_start_repairs(states: dict[str, Path], tmp_path: Path) -> None:
    with damaged(states["killed"], tmp_path) as data:
        for name in ("table.json", "access.json", "page-key", "ports.json", "tls/server.pem"):
            scramble(data / name)
        (data / "mizzen.checkpoint").unlink()
        scramble(data / "secret-key")
        [blob] = data.glob("blobs/sha256/??/*")
        copied = next(data.glob("work/*/files/*"))
        plane = planes.started(data)
        planes.wait_until(lambda: predicts(plane), "it predicts")
        assert {"iris", "later"} <= {item["metadata"]["name"] for item in items(plane, "models")}
        assert "ann" in plane.cli("user", "list").stdout
        defects = doctor(data)["defects"]
        assert {defect["check"] for defect in defects} == {"keys", "marks"}, defects
        assert any("secret-key" in defect["where"] for defect in defects)
        plane.cli("down")
        scramble(blob)
        assert copied.exists()
        [repaired] = [one for one in doctor(data, "--repair")["defects"] if one["check"] == "blobs"]
        assert "restored from" in repaired["repaired"]
        assert not [one for one in doctor(data)["defects"] if one["check"] == "blobs"]
        assert planes.run_cli(data, "doctor", "--collect").returncode == 0
        assert {one["check"] for one in doctor(data)["defects"]} == {"keys"}


def items(plane: TestPlane, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(plane.cli("get", kind, "-o", "json").stdout)["items"]
    return found


def test_an_admin_token_that_is_none_is_refused(states: dict[str, Path], tmp_path: Path) -> None:
    with damaged(states["clean"], tmp_path) as data:
        scramble(data / "admin-token")
        done = planes.run_cli(data, "up", *planes.FREE_PORTS, check=False)
        assert done.returncode != 0
        assert "admin-token" in done.stderr
        assert doctor(data)["defects"][0]["check"] == "keys"


@pytest.mark.parametrize("name", ["table.json", "access.json"])
@pytest.mark.parametrize("harm", [scramble, Path.unlink, empty], ids=["noise", "removed", "empty"])
def test_a_running_plane_writes_it_again_and_keeps_serving(served: TestPlane, name: str, harm: Any) -> None:
    path = served.data_dir / name
    harm(path)

    def is_whole() -> bool:
        assert predicts(served), "gateways keep the last good one"
        try:
            return bool(json.loads(path.read_bytes()))
        except (OSError, ValueError):
            return False

    planes.wait_until(is_whole, f"{name} is written again")
    assert doctor(served.data_dir)["healthy"]


@pytest.fixture(scope="module")
def served(states: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestPlane]:
    with damaged(states["clean"], tmp_path_factory.mktemp("served")) as data:
        plane = planes.started(data)
        planes.wait_until(lambda: predicts(plane), "it predicts")
        yield plane


def test_an_older_store_is_accepted_by_its_owner_only_when_asked(tmp_path: Path, states: dict[str, Path]) -> None:
    data = tmp_path / "data"
    copy(states["clean"], data)
    with planes.running_plane(data) as plane:
        planes.wait_until(lambda: predicts(plane), "it predicts")
        plane.cli("deploy", str(models.save_weigher(tmp_path / "weigher.joblib")), "--name", "weigher")
        kept = blobs(data)
        supervisor = plane.status()["supervisor_pid"]
        left = {*plane.pids("runtime")} - {supervisor}
        planes.kill_all_but_replicas(plane)
        os.truncate(data / "mizzen.db-wal", 0)
        refused = planes.run_cli(data, "doctor", check=False)
        assert refused.returncode == 1
        assert "--accept-older-store" in refused.stdout
        planes.run_cli(data, "doctor", "--accept-older-store")
        again = planes.started(data)
        assert [item["metadata"]["name"] for item in items(again, "models")] == ["iris"], "the last deploy is lost"
        audit = again.cli("audit", "-o", "json").stdout
        assert "accepted an older store" in audit
        living = "processes that no workload names end"
        planes.wait_until(lambda: len(left & set(again.pids("runtime"))) <= 1, living)
        assert blobs(data) == kept
        assert "files without a reference are kept" in json.dumps(doctor(data)["defects"])
        assert again.cli("doctor", "--accept-older-store", check=False).returncode != 0, "not of a running plane"
        planes.wait_until(lambda: predicts(again), "what is there serves")


def test_a_restored_backup_starts_without_complaint(states: dict[str, Path], tmp_path: Path) -> None:
    with damaged(states["killed"], tmp_path) as data:
        planes.run_cli(data, "backup", str(tmp_path / "plane.tar"))
        plane = planes.started(data)
        plane.cli("model", "create", "after-the-backup")
        plane.cli("down")
        data.rename(tmp_path / "away")
        planes.run_cli(data, "restore", str(tmp_path / "plane.tar"))
        assert doctor(data)["healthy"]
        plane = planes.started(data)
        planes.wait_until(lambda: predicts(plane), "it predicts")
        assert "after-the-backup" not in {item["metadata"]["name"] for item in items(plane, "models")}
        assert doctor(data)["healthy"]
