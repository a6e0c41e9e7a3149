"""Datasets from a real S3: all of it or nothing that counts, gone on with after a failure, and no path leads out."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import obstore
import pytest

from mizzen.blobs import object_store
from mizzen.blobs.disk_room import Room
from mizzen.blobs.ingest import buckets
from mizzen.blobs.object_store_credentials import Credentials
from mizzen.errors import Invalid, NoRoom, NotFound, Unavailable
from tests.support.blobs.contents import tree
from tests.support.seaweed import BUCKET, Seaweed, seaweed

FILES = {
    "train.csv": b"1,2,3\n",
    "deep/er/images.bin": bytes(range(256)) * 100_000,
    "empty": b"",
    "with space/ü#%41": b"x",
}


@pytest.fixture
def mortal() -> Iterator[Seaweed]:
    with seaweed() as server:
        yield server


class Followed:
    """What was said of how far it is."""

    def __init__(self) -> None:
        self.said: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.said.append((done, total))


def fill(server: Seaweed, files: dict[str, bytes]) -> str:
    """The prefix."""
    prefix = f"data-{uuid.uuid4().hex}"
    store = object_store.open_object_store(f"s3://{BUCKET}", server.credentials)
    for name, data in files.items():
        obstore.put(store, f"{prefix}/{name}", data)
    return prefix


def fetch(
    server: Seaweed,
    prefix: str,
    target: Path,
    told: buckets.Report | None = None,
    credentials: Credentials | None = None,
) -> None:
    buckets.fetch_prefix(BUCKET, prefix, target, credentials or server.credentials, told or Followed())


@pytest.mark.parametrize("slash", ["", "/"])
def test_all_that_is_below_a_prefix_comes_and_nothing_beside_it(s3: Seaweed, tmp_path: Path, slash: str) -> None:
    prefix = fill(s3, FILES)
    obstore.put(object_store.open_object_store(f"s3://{BUCKET}", s3.credentials), f"{prefix}-beside/no", b"no")
    told = Followed()
    fetch(s3, prefix + slash, tmp_path / "dataset", told)
    assert tree(tmp_path / "dataset") == FILES
    assert list(tmp_path.iterdir()) == [tmp_path / "dataset"], "nothing is left beside it"
    total = sum(map(len, FILES.values()))
    assert told.said[-1] == (total, total)
    assert [done for done, _ in told.said] == sorted(done for done, _ in told.said)


def test_one_object_and_a_whole_bucket(s3: Seaweed, tmp_path: Path) -> None:
    prefix = fill(s3, FILES)
    fetch(s3, f"{prefix}/deep/er/images.bin", tmp_path / "one")
    assert tree(tmp_path / "one") == {"images.bin": FILES["deep/er/images.bin"]}
    bucket = f"bucket-{uuid.uuid4().hex[:20]}"
    obstore.put(object_store.open_object_store(f"s3://{bucket}", s3.credentials), "a/b", b"x")
    buckets.fetch_prefix(bucket, "", tmp_path / "all", s3.credentials, Followed())
    assert tree(tmp_path / "all") == {"a/b": b"x"}


def test_markers_of_folders_are_no_files(s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = fill(s3, {"a/b": b"x"})
    listed = obstore.list

    def with_markers(store: object, below: str | None) -> Iterator[list[dict[str, object]]]:
        for page in listed(store, below):  # type: ignore[call-overload]
            yield [*page, {**page[0], "path": f"{prefix}/a", "size": 0}]

    monkeypatch.setattr(obstore, "list", with_markers)
    fetch(s3, prefix, tmp_path / "dataset")
    assert tree(tmp_path / "dataset") == {"a/b": b"x"}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//b", "a\0b", "x" * 300])
def test_no_name_leads_out(s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    prefix = fill(s3, {"a": b"x"})
    listed = obstore.list

    def hostile(store: object, below: str | None) -> Iterator[list[dict[str, object]]]:
        for page in listed(store, below):  # type: ignore[call-overload]
            yield [{**page[0], "path": f"{prefix}/{name}"}]

    monkeypatch.setattr(obstore, "list", hostile)
    with pytest.raises(Invalid, match="is not a valid file name"):
        fetch(s3, prefix, tmp_path / "in" / "dataset")
    assert not list(tmp_path.iterdir())


def test_a_file_and_a_folder_of_one_name_are_refused(
    s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = fill(s3, {"a/b": b"x"})
    listed = obstore.list

    def both(store: object, below: str | None) -> Iterator[list[dict[str, object]]]:
        for page in listed(store, below):  # type: ignore[call-overload]
            yield [*page, {**page[0], "path": f"{prefix}/a", "size": 3}]

    monkeypatch.setattr(obstore, "list", both)
    with pytest.raises(Invalid, match="a: is both a file and a folder"):
        fetch(s3, prefix, tmp_path / "dataset")


def test_what_cannot_be_had_is_told_so_that_it_helps(s3: Seaweed, tmp_path: Path) -> None:
    prefix, target = fill(s3, {"a": b"x"}), tmp_path / "dataset"
    with pytest.raises(NotFound, match=re.escape(f"nothing is below s3://{BUCKET}/{prefix}/none")):
        fetch(s3, f"{prefix}/none", target)
    with pytest.raises(NotFound, match="no such bucket"):
        buckets.fetch_prefix("no-such-bucket", "x", target, s3.credentials, Followed())
    with pytest.raises(Invalid, match=r"rejects accessKeyId.*: SignatureDoesNotMatch"):
        fetch(s3, prefix, target, credentials=replace(s3.credentials, secret_access_key="wrong"))
    with pytest.raises(Invalid, match=r"rejects accessKeyId.*: AccessDenied"):
        fetch(s3, prefix, target, credentials=Credentials(s3.endpoint, "us-east-1"))
    with pytest.raises(Unavailable, match="cannot be fetched"):
        fetch(s3, prefix, target, credentials=replace(s3.credentials, endpoint="http://127.0.0.1:9"))
    with pytest.raises(Invalid, match="only an admin"):
        buckets.fetch_prefix(BUCKET, prefix, target, s3.credentials, Followed(), private=False)
    room = Room(tmp_path, low=100, critical=0, free=lambda _: 100)
    with pytest.raises(NoRoom):
        buckets.fetch_prefix(BUCKET, prefix, target, s3.credentials, Followed(), room=room)


class Stopped(Exception):
    pass


def test_it_goes_on_where_it_was_and_with_what_is_there_now(s3: Seaweed, tmp_path: Path) -> None:
    files = {f"{number:02}": random.Random(number).randbytes(3_000_000) for number in range(12)}
    files["large"] = random.Random(0).randbytes(30_000_000)
    prefix, target = fill(s3, files), tmp_path / "dataset"

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Stopped

    with pytest.raises(Stopped):
        fetch(s3, prefix, target, stop)
    for name, data in tree(target).items():
        assert data == files[name], "what is there is whole"
    store = object_store.open_object_store(f"s3://{BUCKET}", s3.credentials)
    files["00"] = files["00"][::-1]
    obstore.put(store, f"{prefix}/00", files["00"])
    obstore.delete(store, f"{prefix}/01")
    del files["01"]
    told = Followed()
    fetch(s3, prefix, target, told)
    assert tree(target) == files
    assert told.said[0][0] >= 3_000_000, "not from the beginning"
    assert list(tmp_path.iterdir()) == [target]


def test_a_part_that_was_damaged_on_the_disk_is_fetched_anew(s3: Seaweed, tmp_path: Path) -> None:
    data = random.Random(5).randbytes(20_000_000)
    prefix, target = fill(s3, {"one": b""}), tmp_path / "dataset"
    obstore.put(
        object_store.open_object_store(f"s3://{BUCKET}", s3.credentials), f"{prefix}/one", data, use_multipart=False
    )

    def stop(done: int, total: int) -> None:
        if done > 1_000_000:
            raise Stopped

    with pytest.raises(Stopped):
        fetch(s3, prefix, target, stop)
    [part] = (tmp_path / ".dataset.parts").glob("*.part")
    part.write_bytes(b"?" * 1_000_000)
    fetch(s3, prefix, target)
    assert (target / "one").read_bytes() == data


def test_a_server_that_is_killed_in_the_middle(mortal: Seaweed, tmp_path: Path) -> None:
    files = {f"{number:02}": random.Random(number).randbytes(2_000_000) for number in range(30)}
    prefix, target = fill(mortal, files), tmp_path / "dataset"
    killed = False

    def kill(done: int, total: int) -> None:
        nonlocal killed
        if not killed and done > total / 3:
            killed = True
            mortal.kill()

    with pytest.raises(Unavailable):
        fetch(mortal, prefix, target, kill)
    assert killed
    for name, data in tree(target).items():
        assert data == files[name]
    mortal.start()
    told = Followed()
    fetch(mortal, prefix, target, told)
    assert tree(target) == files
    assert told.said[0][0] > 0
