"""The data dir of a plane with a bit of everything, as it was earlier, after a clean stop, and after kill -9 of all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import graphs, models, planes
from tests.support.graphs import node
from tests.support.planes import TestPlane
from tests.support.training import Trainer

DAMAGES = ("truncated", "zeroed", "noise", "removed", "older")
ROW = '{"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": [5.1, 3.5, 1.4, 0.2]}]}'
_CODE = """
def two(inputs):
    return {"x": next(iter(inputs.values())) + 2}


def three(inputs):
    return {"x": next(iter(inputs.values())) + 3}
"""
_TRAIN = """
    import os, pathlib
    from mizzen import training
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    (folder / ".one").write_text("weights")
    os.rename(folder / ".one", folder / "one")
    print("trained", flush=True)
"""


@dataclass(frozen=True, slots=True)
class DataDirs:
    older: Path
    """A copy of the files while the plane ran, before the other two. Not one moment; each file is."""
    clean: Path
    killed: Path


def build(folder: Path) -> DataDirs:
    """Who calls it removes the folder."""
    data = folder / "data"
    found = DataDirs(folder / "older", folder / "clean", folder / "killed")
    with planes.running_plane(data, "--gateways", "1") as plane:
        plane.cli("deploy", str(models.save_iris(folder / "iris.joblib")), "--name", "iris")
        plane.cli("user", "add", "ann")
        plane.cli("token", "create", "ann")
        plane.cli("secret", "set", "first", "key=value")
        copy(data, found.older)
        _fill(plane, folder)
    copy(data, found.clean)
    with planes.running_plane(data) as plane:
        plane.cli("model", "create", "later")
        plane.cli("user", "add", "bob")
        plane.cli("token", "create", "bob")
        plane.cli("secret", "set", "third", "key=value")
        planes.wait_until(lambda: can_predict(plane), "it serves again")
        planes.end_all(data)
        copy(data, found.killed)
    return found


def _fill(plane: TestPlane, folder: Path) -> None:
    graphs.deploy(plane, folder, _CODE, ("two", "three"))
    with graphs.graphs_of(plane) as served:
        served.serve(
            "chooser", node("a", route={"mab": {"egreedy": 0.5}}), node("b", "two", "a"), node("c", "three", "a")
        )
        answer = served.ask("chooser")
        assert served.reward("chooser", answer.said["id"], reward=1).said["counted"]
    job = Trainer(plane, "trained").script(_TRAIN)
    assert job.ended()["state"] == "Succeeded", job.why()
    plane.cli("secret", "set", "second", "key=value")
    plane.cli("limit", "user:ann", "--per-day", "1000", check=False)


def copy(source: Path, target: Path) -> Path:
    """Without sockets, and without the run folder: another path has another one."""
    target.mkdir(mode=0o700, parents=True)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if name.parts[0] in ("run", "logs", "demo") or path.is_symlink():
            continue
        try:
            if path.is_dir():
                (target / name).mkdir(exist_ok=True)
                shutil.copymode(path, target / name)
            elif path.is_file():
                shutil.copy2(path, target / name)
        except FileNotFoundError:  # a temporary file of the running plane
            continue
    return target


def harm(file: Path, how: str, older: Path) -> bool:
    """Damages a file; `older` is its earlier copy. False: this damage makes no difference to it."""
    before = file.read_bytes()
    mode = file.stat().st_mode
    match how:
        case "truncated":
            after: bytes | None = before[: len(before) // 2]
        case "zeroed":
            after = bytes(len(before))
        case "noise":
            after = os.urandom(len(before))
        case "older":
            after = older.read_bytes() if older.is_file() else before
        case _:
            after = None
    if after == before:
        return False
    file.unlink()
    if after is not None:
        file.write_bytes(after)
        file.chmod(mode)
    return True


def can_predict(plane: TestPlane) -> bool:
    return plane.cli("predict", "iris", "--data", "[[5.1,3.5,1.4,0.2]]", check=False).returncode == 0


def list_blobs(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.glob("blobs/sha256/??/*")}


@contextmanager
def copied(source: Path, folder: Path) -> Iterator[Path]:
    target = copy(source, folder / "copy")
    try:
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)
