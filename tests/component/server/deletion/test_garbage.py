"""Garbage: what nobody names goes, what somebody names or is just about to name stays, whenever the collector comes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.store import Stored
from mizzen.errors import NotFound
from mizzen.server.deletion.garbage import CollectionResult, collect_garbage, keep_collecting
from tests.component.server.sending import contents, digest_of, listed
from tests.support.blobs.packing import FILES, tarred
from tests.support.server.harness import Harness

pytestmark = pytest.mark.own_plane

GRACE = timedelta(hours=1)
PY = {"framework": "python", "entrypoint": "model:predict"}


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    admin.post("/model", json={"name": "iris"})
    return admin


def age(plane: Harness, hours: float = 2) -> None:
    """As if everything had been left alone for that long."""
    for file in (plane.folder / "blobs").rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - hours * 3600
            os.utime(file, (then, then))


def collect(plane: Harness) -> CollectionResult:
    return plane.run(collect_garbage(plane.store, FileBlobs(plane.folder / "blobs"), datetime.now(UTC), GRACE))


def add(client: httpx2.Client, files: dict[str, bytes], version: str = "auto") -> dict[str, object]:
    answer = client.post(
        f"/model/iris/version/{version}", content=tarred(files), headers={"content-type": "application/gzip"}, params=PY
    )
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, object] = answer.json()
    return found


def test_what_a_version_names_stays_until_the_last_one_goes(plane: Harness, iris: httpx2.Client) -> None:
    one = add(iris, FILES)
    two = add(iris, {**FILES, "more": b"more"})
    age(plane)
    assert collect(plane) == CollectionResult()
    iris.delete("/model/iris/version/2")
    assert collect(plane) == CollectionResult(1, 4)
    assert contents(plane, one) == FILES
    assert len(two["artifacts"]) == 4  # type: ignore[arg-type]
    iris.delete("/model/iris/version/1")
    assert collect(plane).files == 3
    assert not [file for file in (plane.folder / "blobs" / "sha256").rglob("*") if file.is_file()]


def test_young_garbage_stays(plane: Harness, iris: httpx2.Client) -> None:
    add(iris, FILES)
    iris.delete("/model/iris/version/1")
    assert collect(plane) == CollectionResult()


def test_leftovers_of_refused_archives_and_uploads_go(plane: Harness, iris: httpx2.Client) -> None:
    bad = tarred({"model.py": b"stored before the fault is seen", "../x": b""})
    assert (
        iris.post("/model/iris/version", content=bad, headers={"content-type": "application/gzip"}).status_code == 422
    )
    data = b"x" * 100
    url = f"/model/iris/upload/{digest_of(data)}"
    assert iris.put(url, content=data[:50], headers={"content-range": "bytes 0-49/100"}).status_code == 202
    age(plane)
    assert collect(plane) == CollectionResult(1, 31, 1)
    assert iris.head(url).status_code == 404


def test_files_collected_before_their_version_are_asked_for_again(plane: Harness, iris: httpx2.Client) -> None:
    data = b"sent long ago"
    iris.put(f"/model/iris/upload/{digest_of(data)}", content=data)
    age(plane)
    assert collect(plane).files == 1
    body = {"files": listed({"m.pkl": data})}
    assert iris.post("/model/iris/upload", json=body).json()["missing"] == [digest_of(data)]
    assert iris.post("/model/iris/version", json=body).status_code == 422


def test_putting_and_holding_count_as_touching(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    digest = blobs.put_bytes(b"content").digest
    then = datetime.now(UTC) - GRACE
    for touch in (lambda: blobs.put_bytes(b"content"), lambda: blobs.hold([digest])):
        os.utime(blobs.path(digest), (0, 0))
        touch()
        assert not blobs.remove(digest, then)
    assert blobs.hold([digest, digest_of(b"none")]) == {digest_of(b"none")}
    os.utime(blobs.path(digest), (0, 0))
    assert blobs.remove(digest, then)
    assert not blobs.remove(digest, then)
    with pytest.raises(NotFound):
        blobs.path(digest)


class Watched(FileBlobs):
    """Blobs whose collector is interrupted, once, at one of its steps."""

    def __init__(self, root: Path, step: str, interrupt: Callable[[], None]) -> None:
        super().__init__(root)
        self.step = step
        self.interrupt = interrupt

    def stored(self) -> Iterator[Stored]:
        yield from super().stored()
        self._at("listed")

    def remove(self, digest: str, untouched_since: datetime) -> bool:
        self._at("removing")
        return super().remove(digest, untouched_since)

    def _at(self, step: str) -> None:
        if self.step == step:
            self.step = ""
            self.interrupt()


@pytest.mark.parametrize("step", ["listed", "removing"])
@pytest.mark.parametrize("how", ["archive", "digest"])
def test_what_is_named_while_the_collector_is_at_it_stays(
    plane: Harness, iris: httpx2.Client, step: str, how: str
) -> None:
    add(iris, FILES)
    iris.delete("/model/iris/version/1")
    age(plane)
    made = []

    def register() -> None:
        if how == "archive":
            made.append(add(iris, FILES))
        else:
            made.append(iris.post("/model/iris/version", json={"files": listed(FILES), **PY}).json())

    blobs = Watched(plane.folder / "blobs", step, register)
    assert plane.run(collect_garbage(plane.store, blobs, datetime.now(UTC), GRACE)) == CollectionResult()
    assert contents(plane, made[0]) == FILES


def test_putting_and_collecting_at_the_same_moment(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    digest = blobs.put_bytes(b"content").digest
    then = datetime.now(UTC) - GRACE
    with ThreadPoolExecutor(4) as threads:
        for _ in range(100):
            os.utime(blobs.path(digest), (0, 0))
            removing, putting = threads.submit(blobs.remove, digest, then), threads.submit(blobs.put_bytes, b"content")
            removing.result()
            putting.result()
            assert blobs.path(digest).read_bytes() == b"content"


def test_it_goes_on_collecting(plane: Harness, iris: httpx2.Client) -> None:
    add(iris, FILES)
    iris.delete("/model/iris/version/1")
    age(plane)

    async def until_gone() -> None:
        blobs = FileBlobs(plane.folder / "blobs")
        task = asyncio.create_task(
            keep_collecting(plane.store, blobs, lambda: datetime.now(UTC), grace=GRACE, every=0.001)
        )
        while list(blobs.stored()):  # noqa: ASYNC110 - the end of a file is no event
            await asyncio.sleep(0.001)
        task.cancel()

    plane.run(until_gone())


def test_nothing_is_collected_while_references_may_be_lost(plane: Harness, iris: httpx2.Client) -> None:
    add(iris, FILES)
    iris.delete("/model/iris/version/1")
    age(plane)
    asked = 0

    def held() -> str:
        nonlocal asked
        asked += 1
        return "an older store was accepted" if asked <= 10 else ""

    async def until_gone() -> None:
        blobs = FileBlobs(plane.folder / "blobs")
        task = asyncio.create_task(
            keep_collecting(plane.store, blobs, lambda: datetime.now(UTC), grace=GRACE, every=0.001, held=held)
        )
        while asked < 10:
            assert list(blobs.stored())
            await asyncio.sleep(0.001)
        while list(blobs.stored()):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        task.cancel()

    plane.run(until_gone())
    assert asked > 10
