"""Blobs behind which a real S3 stands: damage, refusals, and a server that is killed in the middle of it all."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest

from mizzen.blobs import open_from_env
from mizzen.blobs.backed_store import BackedBlobs
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.object_store import ObjectBlobs
from mizzen.blobs.object_store import open_object_store as open_objects
from mizzen.blobs.object_store_credentials import Credentials
from mizzen.blobs.open_store import open_store
from mizzen.errors import NotFound, Unavailable
from tests.contract.objects import has, new_s3
from tests.support.seaweed import BUCKET, Seaweed, seaweed


@pytest.fixture
def mortal() -> Iterator[Seaweed]:
    with seaweed() as server:
        yield server


def wait_for(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 90
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_a_large_file_goes_there_in_parts_and_comes_back_whole(s3: Seaweed, tmp_path: Path) -> None:
    source = tmp_path / "large"
    source.write_bytes(random.Random(1).randbytes(50_000_001))
    store = new_s3(s3)
    blob = BackedBlobs(tmp_path / "disk", store).put_file(source)
    again = BackedBlobs(tmp_path / "another", store)
    assert again.path(blob.digest).read_bytes() == source.read_bytes()
    [found] = store.stored()
    assert (found.digest, found.size) == (blob.digest, 50_000_001)


def test_the_same_content_put_by_many_at_once_is_there_once(s3: Seaweed, tmp_path: Path) -> None:
    store, data = new_s3(s3), b"shared" * 100_000
    with ThreadPoolExecutor(6) as threads:
        put = threads.map(lambda n: BackedBlobs(tmp_path / str(n), store).put_bytes(data).digest, range(6))
        assert len(set(put)) == 1
    [found] = store.stored()
    assert found.size == len(data)


def test_damage_is_found_and_putting_it_again_mends_it(s3: Seaweed, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/{tmp_path.name}/damage"
    blobs = BackedBlobs(tmp_path / "disk", ObjectBlobs(url, s3.credentials))
    digest = blobs.put_bytes(b"weights").digest
    hex_ = digest.removeprefix("sha256:")
    obstore.put(open_objects(url, s3.credentials), f"sha256/{hex_[:2]}/{hex_}", b"weighty")
    another = BackedBlobs(tmp_path / "another", ObjectBlobs(url, s3.credentials))
    with pytest.raises(Unavailable, match="has other content"):
        another.path(digest)
    assert not list(another.stored()), "nothing of it is kept"
    blobs.put_bytes(b"weights")
    assert another.path(digest).read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"secret_access_key": "wrong"}, "SignatureDoesNotMatch"),
        ({"access_key_id": "nobody"}, "InvalidAccessKeyId"),
    ],
)
def test_keys_that_are_refused_are_told(s3: Seaweed, tmp_path: Path, change: dict[str, str], said: str) -> None:
    given = s3.credentials
    wrong = Credentials(**{
        "endpoint": given.endpoint, "region": given.region, "access_key_id": given.access_key_id,
        "secret_access_key": given.secret_access_key, **change,
    })  # fmt: skip
    blobs = BackedBlobs(tmp_path / "disk", open_store(f"s3://{BUCKET}/x", wrong))
    with pytest.raises(Unavailable, match=said) as caught:
        blobs.put_bytes(b"weights")
    assert "blob_store_secret" in caught.value.hint
    assert given.secret_access_key not in repr(given)


def test_a_bucket_that_is_not_there_is_no_missing_file(s3: Seaweed, tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", open_store("s3://no-such-bucket/x", s3.credentials))
    with pytest.raises(Unavailable, match="no such bucket"):
        blobs.path(f"sha256:{'0' * 64}")
    with pytest.raises(Unavailable, match="NoSuchBucket"):
        list(blobs.list_behind())


@pytest.mark.parametrize("given", ["explicit", "around"])
def test_a_process_that_is_told_by_variables_has_the_same_blobs(
    s3: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    own = s3.credentials
    around = {
        "AWS_ENDPOINT_URL": own.endpoint, "AWS_REGION": own.region, "AWS_ACCESS_KEY_ID": own.access_key_id,
        "AWS_SECRET_ACCESS_KEY": own.secret_access_key,
    }  # fmt: skip
    url = f"s3://{BUCKET}/{tmp_path.name}/{given}"
    told = open_from_env.variables(
        url, own if given == "explicit" else None, around if given == "around" else {"AWS_X": "y"}
    )
    assert all(name.startswith("MIZZEN_BLOB_STORE") for name in told)
    # Of the code that a runner runs, and none of the runner's business.
    mine = {"AWS_ACCESS_KEY_ID": "theirs", "AWS_SECRET_ACCESS_KEY": "theirs", "AWS_SESSION_TOKEN": "theirs",
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}  # fmt: skip
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    blobs = open_from_env.blobs_of(tmp_path / "data", {**os.environ, **told})
    digest = blobs.put_bytes(b"weights").digest
    assert blobs.documents.put("logs/a", b"{}", new=True)
    assert blobs.uri(digest).startswith(url)
    assert has(ObjectBlobs(url, own, {}), digest)
    assert {name: os.environ[name] for name in mine} == mine, "its own variables are as they were"
    assert open_from_env.credentials_of(told) == own
    assert type(open_from_env.blobs_of(tmp_path / "data", {})) is FileBlobs


def test_what_was_acknowledged_survives_a_kill_and_the_rest_goes_on_after_it(mortal: Seaweed, tmp_path: Path) -> None:
    store = new_s3(mortal)
    blobs = BackedBlobs(tmp_path / "disk", store)
    kept: dict[str, str] = {}
    failed: list[Unavailable] = []
    after = threading.Event()
    over = threading.Event()

    def put(worker: int) -> int:
        """Until some came through after the server was back."""
        rng, later, number = random.Random(worker), 0, 0
        while later < 5 and not over.is_set():
            number += 1
            data = rng.randbytes(rng.choice((10, 100_000, 10_000_000)))
            counts = after.is_set()
            try:
                digest = blobs.put_bytes(data).digest
                name = f"checkpoints/{worker}/{number}"
                assert blobs.documents.put(name, digest.encode(), new=True)
            except Unavailable as error:
                failed.append(error)
            else:
                kept[name] = digest
                later += counts
        return later

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(put, worker) for worker in range(4)]
        try:
            wait_for(lambda: len(kept) >= 20, "nothing is put")
            mortal.kill()
            wait_for(lambda: bool(failed), "nobody is told that it is away")
            mortal.start()
            after.set()
            assert [each.result(120) for each in running] == [5] * 4, "it goes on, and nobody was restarted"
        finally:
            over.set()
    new = BackedBlobs(tmp_path / "new", store)
    assert set(new.documents.names("checkpoints/")) >= set(kept)
    for name, digest in kept.items():
        assert new.documents.get(name) == digest.encode()
        assert f"sha256:{hashlib.sha256(new.path(digest).read_bytes()).hexdigest()}" == digest


def test_a_server_that_is_away_is_told_soon_and_what_is_here_is_served(mortal: Seaweed, tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", new_s3(mortal))
    digest = blobs.put_bytes(b"weights").digest
    blobs.documents.put("logs/a", b"{}")
    assert blobs.documents.names() == ["logs/a"]
    mortal.kill()
    assert blobs.path(digest).read_bytes() == b"weights"
    assert blobs.documents.names() == ["logs/a"]
    assert blobs.documents.get("logs/a") == b"{}"
    with pytest.raises(Unavailable, match="cannot store a file"):
        blobs.put_bytes(b"more")
    with pytest.raises(Unavailable, match="cannot return a file"):
        blobs.path(f"sha256:{'0' * 64}")
    mortal.start()
    assert blobs.put_bytes(b"more").size == 4
    with pytest.raises(NotFound):
        blobs.path(f"sha256:{'0' * 64}")
