"""A plane whose files, checkpoints and logs are in a real S3, and a dataset from there; the server is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.support import planes
from tests.support.seaweed import BUCKET, Seaweed, seaweed
from tests.support.training import Job, Trainer

TRAINS = """
    import os, pathlib, time
    data = pathlib.Path(os.environ["MIZZEN_DATASET_DIR"])
    rows = sorted(path.name for path in data.rglob("*") if path.is_file())
    print("rows", rows, flush=True)
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    for step in (1, 2):
        (folder / f".s{step}").write_bytes(os.urandom(1000))
        os.rename(folder / f".s{step}", folder / f"step-{step}")
        print("saved", step, flush=True)
        while not (folder / f".go-{step}").exists():
            time.sleep(0.05)
"""


@pytest.fixture
def s3() -> Iterator[Seaweed]:
    """Its own: it is killed."""
    with seaweed() as server:
        yield server


@pytest.fixture
def bucket(s3: Seaweed) -> S3Store:
    keys = s3.credentials
    return S3Store(
        BUCKET, endpoint=keys.endpoint, region=keys.region, access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key, client_options={"allow_http": True},
    )  # fmt: skip


def test_training_goes_on_while_s3_is_killed_and_started_again(tmp_path: Path, s3: Seaweed, bucket: S3Store) -> None:
    obstore.put(bucket, "data/rows/1.csv", b"1,2\n")
    obstore.put(bucket, "data/rows/2.csv", b"3,4\n")
    data = tmp_path / "data"
    data.mkdir()
    (data / "settings.toml").write_text(
        f'blob_store = "s3://{BUCKET}/blobs"\nblob_store_endpoint = "{s3.endpoint}"\nblob_store_region = "us-east-1"\n'
        'blob_store_secret = "s3"\n'
    )
    with planes.running_plane(data) as plane:
        plane.cli("secret", "set", "s3", "accessKeyId=mizzen", "secretAccessKey=not-so-secret")
        plane.cli("down")
        trainer = Trainer(planes.started(data), "stored")
        source = {
            "s3": {"bucket": BUCKET, "prefix": "data/", "endpoint": s3.endpoint, "region": "us-east-1", "secret": "s3"}
        }
        job = trainer.script(TRAINS, dataset=source)
        job.wait_for_line("saved 1")
        planes.wait_until(lambda: len(job.checkpoints) == 1, "the first is kept")
        s3.kill()
        go(job, 1)
        job.wait_for_line("saved 2")
        assert [each["step"] for each in job.checkpoints] == [1], "nothing is acknowledged that is not in S3"
        go(job, 2)
        s3.start()
        assert job.ended()["state"] == "Succeeded", job.why()
        assert job.printed() == ["rows ['1.csv', '2.csv']", "saved 1", "saved 2"]
        assert [each["step"] for each in job.checkpoints] == [2, 1]
        assert all(each["uri"].startswith(f"s3://{BUCKET}/blobs/") for each in job.checkpoints)
        names = [item["path"] for page in obstore.list(bucket, "blobs") for item in page]
        assert sum(name.endswith(".json") and "/checkpoints/" in name for name in names) == 2
        assert any("/logs/" in name for name in names)
        assert "not-so-secret" not in everything(data), "no key is in any file that is not sealed"


def go(job: Job, step: int) -> None:
    (job.place.checkpoints / f".go-{step}").touch()


def everything(folder: Path) -> str:
    found = []
    for root, _, files in os.walk(folder):
        for name in files:
            path = Path(root) / name
            if path.is_file() and path.stat().st_size < 50_000_000:
                found.append(path.read_bytes().decode("latin-1"))
    return "".join(found)
