"""Code from git, data and blobs from a real S3."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from mizzen.blobs import object_store, open_from_env
from mizzen.runner.inputs.datasets import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.component.runner.test_checkpoints import SAVES
from tests.component.runner.test_datasets import SHOWS
from tests.support.planes import wait_until
from tests.support.runner.attempts import LIMIT, Attempts
from tests.support.seaweed import BUCKET, Seaweed, seaweed


@pytest.fixture(scope="module")
def s3() -> Iterator[Seaweed]:
    with seaweed() as server:
        yield server


def test_code_comes_from_a_commit(attempts: Attempts, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "train.py").write_text("print('from git')")
    _git(repo, "init", "--quiet")
    _git(repo, "add", ".")
    _git(repo, "commit", "--quiet", "-m", "first")
    commit = _git(repo, "rev-parse", "HEAD").strip()
    (repo / "train.py").write_text("print('changed since')")
    _git(repo, "commit", "--quiet", "-a", "-m", "second")
    ended = attempts.run(git={"repo": f"file://{repo}", "commit": commit}, trusted=True)
    assert ended.code == 0, ended.message
    assert attempts.printed() == ["[worker-0] from git"]


def test_a_commit_that_is_not_there_is_told(attempts: Attempts, tmp_path: Path) -> None:
    ended = attempts.run(git={"repo": f"file://{tmp_path}/none", "commit": "0" * 40}, trusted=True)
    assert (ended.code, ended.reason, ended.retry) == (1, "CodeUnavailable", False)


def test_a_dataset_comes_from_a_bucket_with_keys_that_the_code_does_not_see(attempts: Attempts, s3: Seaweed) -> None:
    store = object_store.open_object_store(f"s3://{BUCKET}", s3.credentials)
    for name in ("rows/1.csv", "rows/deep/2.csv", "other.csv"):
        obstore.put(store, f"data/{name}", name.encode())
    keys = {ACCESS_KEY_ID: s3.credentials.access_key_id, SECRET_ACCESS_KEY: s3.credentials.secret_access_key}
    s3_ = {"bucket": BUCKET, "prefix": "data/rows", "endpoint": s3.endpoint, "region": "us-east-1", "secret": "keys"}
    hidden = "assert not [name for name in os.environ if 'KEY' in name]"
    ended = attempts.run(f"{SHOWS}\n    {hidden}", dataset={"s3": s3_}, trusted=True, environ=keys)
    assert ended.code == 0, ended.message
    assert attempts.printed() == ["[worker-0] {'1.csv': 'rows/1.csv', 'deep/2.csv': 'rows/deep/2.csv'}"]


def test_a_prefix_with_nothing_below_it_is_told(attempts: Attempts, s3: Seaweed) -> None:
    keys = {ACCESS_KEY_ID: s3.credentials.access_key_id, SECRET_ACCESS_KEY: s3.credentials.secret_access_key}
    s3_ = {"bucket": BUCKET, "prefix": "nothing", "endpoint": s3.endpoint, "region": "us-east-1", "secret": "keys"}
    ended = attempts.run(SHOWS, dataset={"s3": s3_}, trusted=True, environ=keys)
    assert (ended.reason, ended.retry) == ("DatasetUnavailable", False)
    assert "nothing" in ended.message


def test_checkpoints_and_logs_are_in_s3_though_it_was_killed_in_the_middle(attempts: Attempts) -> None:
    with seaweed() as mortal:
        environ = open_from_env.variables(f"s3://{BUCKET}/blobs", mortal.credentials, {})
        runner = attempts.start(
            f"{SAVES}\n    rename('c-1', 'one')\n    wait_for('.go')\n    rename('c-2', 'two')\n    wait_for('.end')",
            environ=environ,
        )
        wait_until(attempts.kept, "the first checkpoint")
        mortal.kill()
        (attempts.job.checkpoints / ".go").touch()
        wait_until(lambda: "retrying" in attempts.message(), "it is told")
        mortal.start()
        wait_until(lambda: len(attempts.kept()) == 2, "the second checkpoint")
        (attempts.job.checkpoints / ".end").touch()
        assert runner.wait(LIMIT) == 0
        behind = open_from_env.blobs_of(attempts.data_dir / "elsewhere", environ)
        names = behind.documents.names(f"checkpoints/default/iris/1/{attempts.task.job}")
        assert len(names) == 2, "a plane on another disk finds them"
        assert behind.documents.names(f"logs/{attempts.job.uid}/")


def test_the_command_has_credentials_of_its_own_and_the_runner_those_of_the_plane(
    attempts: Attempts, s3: Seaweed
) -> None:
    own = s3.credentials
    around = {
        "AWS_ENDPOINT_URL": own.endpoint, "AWS_REGION": own.region, "AWS_ACCESS_KEY_ID": own.access_key_id,
        "AWS_SECRET_ACCESS_KEY": own.secret_access_key,
    }  # fmt: skip
    theirs = {
        "AWS_ACCESS_KEY_ID": "theirs",
        "AWS_SSE_KMS_KEY_ID": "theirs",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    }
    plane = open_from_env.variables(f"s3://{BUCKET}/own", None, around)
    script = f"{SAVES}\n    rename('c-1', 'one')\n    print(os.environ['AWS_ACCESS_KEY_ID'])"
    ended = attempts.run(script, environ={**plane, **theirs}, secret_names=("AWS_ACCESS_KEY_ID",))
    assert ended.code == 0, ended.message
    assert attempts.printed() == ["[worker-0] theirs"]
    behind = open_from_env.blobs_of(attempts.data_dir / "elsewhere", plane)
    assert behind.documents.names(f"checkpoints/default/iris/1/{attempts.task.job}"), "it is in the plane's store"


def _git(folder: Path, *words: str) -> str:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environ = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout
