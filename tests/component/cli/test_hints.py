"""Errors say what to do next: what there is, what was probably meant, and which command helps."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mizzen.cli.models import upload_progress
from mizzen.sdk.packaging import upload
from tests.support.cli.command import Plane, commanding, failed, mizzen
from tests.support.golden import Golden


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with commanding(tmp_path_factory.mktemp("hints")) as running:
        running.file("m.joblib", "weights")
        for name in ("iris", "empty"):
            running("model", "create", name)
        for _ in range(2):
            running("version", "add", "iris", "m.joblib")
        running("user", "add", "ana")
        yield running


@pytest.mark.parametrize(
    "words",
    [("serve", "iris", "99"), ("promote", "iris", "99"), ("rollback", "iris", "--to", "99"),
     ("version", "describe", "iris", "99"), ("alias", "set", "iris", "prod", "99")],
)  # fmt: skip
def test_who_asks_for_a_version_that_is_not_there_learns_which_are(plane: Plane, words: tuple[str, ...]) -> None:
    failed(plane(*words, check=False), "has no version 99", "its versions are 1, 2")


def test_versions_that_cannot_be_compared(plane: Plane) -> None:
    failed(plane("diff", "iris:1", "iris:99", check=False), "'iris' has no version 99", "its versions are 1, 2", code=2)
    failed(
        plane("serve", "empty", "1", check=False),
        "no version 1",
        "it has no versions yet: 'mizzen version add empty PATH'",
    )


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("model", "create", "iris"), "already exists", "'mizzen version add iris PATH'"),
        (("get", "model", "nosuch"), "Model/nosuch does not exist", "'mizzen get models'"),
        (("get", "model", "iriss"), "Model/iriss does not exist", "did you mean 'iris'?"),
        (("version", "list", "irs"), "Model/irs does not exist", "did you mean 'iris'?"),
        (("version", "add", "nosuch", "m.joblib"), "does not exist", "'mizzen model create nosuch'"),
        (("predict", "nosuch", "-d", "[1]"), "nosuch", "'mizzen get models' lists models"),
        (("predict", "iris", "-d", "[1]"), "iris", "it is registered but not served: 'mizzen serve iris 2'"),
        (("predict", "empty", "-d", "[1]"), "empty", "the model has no versions"),
        (("predict", "iris:1", "-d", "[1]"), "iris", "it is registered but not served: 'mizzen serve iris 1'\n"),
        (("predict", "iris:9", "-d", "[1]"), "iris", "it is not registered: 'mizzen version list iris'"),
        (("predict", "iris@prod", "-d", "[1]"), "iris", "'mizzen alias list iris' lists its aliases"),
        (
            ("predict", "iris@", "-d", "[1]"),
            "'iris@' is not a valid reference to a version",
            "expected model:version, model@alias or model",
        ),
        (("rollback", "model/iris"), "was current before", "name one of 1, 2: 'mizzen rollback iris --to 2'"),
        (("token", "revoke", "ana", "zz"), "no token 'zz'", "'mizzen token list ana'"),
        (("token", "create", "bob"), "no user 'bob'", "'mizzen user list' lists users"),
        (("user", "delete", "bob"), "no user 'bob'", "'mizzen user list' lists users"),
        (("user", "add", "ana"), "user 'ana' already exists", "'mizzen token create ana'"),
        (
            ("permit", "ana", "read", "namespace/"),
            "'namespace/' does not name a namespace",
            "for example namespace/default",
        ),
        (("get", "modles"), "no kind 'modles'", "did you mean 'models'?"),
        (("get", "mzz"), "no kind 'mzz'", "did you mean 'mz'?"),
        (("get", "unheard-of"), "no kind", "kinds are model, modelversion,"),
    ],
)
def test_every_refusal_says_what_next(plane: Plane, words: tuple[str, ...], says: str, hint: str) -> None:
    failed(plane(*words, check=False), says, hint)


def test_an_alias_that_is_not_there_is_warned_of(plane: Plane, golden: Golden) -> None:
    done = plane("permit", "ana", "read", "iris@nope")
    golden.check(done.stdout)
    golden.check(done.stderr)
    plane("alias", "set", "iris", "prod", "1")
    assert plane("permit", "ana", "read", "iris@prod").stderr == ""
    assert "its aliases are prod" in plane("permit", "ana", "read", "iris@nope").stderr
    plane("alias", "delete", "iris", "prod")


def test_a_file_that_cannot_be_read_is_no_object(plane: Plane) -> None:
    plane.file("bad.yaml", "a: [1\n")
    plane.file("mixed.yaml", "apiVersion: mizzen.dev/v1alpha1\nkind: Model\nmetadata: {name: a}\n---\n- 1\n")
    assert plane("lint", "-f", "bad.yaml", check=False).stdout.startswith("bad.yaml: error: not readable YAML: ")
    assert "mixed.yaml:5: error: must be an object, not a list" in plane("lint", "-f", "mixed.yaml", check=False).stdout
    assert "  bad.yaml: not readable YAML: " in plane("apply", "-f", "bad.yaml", check=False).stderr


def test_the_inference_api_is_told_from_the_control_api(plane: Plane) -> None:
    for words in (("get", "models"), ("predict", "iris", "-d", "[1]"), ("logs", "iris-1")):
        done = mizzen(*words, cwd=plane.folder, environ={"MIZZEN_URL": plane.inference.url})
        failed(done, f"{plane.inference.url} is the inference API", "set MIZZEN_URL to the control API")


def test_a_token_is_never_shown_and_may_have_space_around_it(plane: Plane) -> None:
    token = plane("token", "create", "ana").stdout
    assert plane("whoami", token=f" {token}\r\n").stdout.startswith("ana\n")
    for broken, says in (
        ("my-secret\nother", "a line break"),
        ("my-secret\x01", "an invalid"),
        ("sécret", "an invalid"),
    ):
        done = plane("whoami", token=broken, check=False)
        failed(done, f"the token contains {says}", "check MIZZEN_TOKEN")
        assert "cret" not in done.stderr


def test_a_version_that_is_there_already_is_said_to_be(plane: Plane, golden: Golden) -> None:
    done = plane("version", "add", "iris", "m.joblib", "--version", "1")
    golden.check(done.stdout)


def test_a_bare_name_is_described_as_a_model(plane: Plane) -> None:
    assert plane("describe", "iris", "-o", "json").stdout == plane("describe", "model/iris", "-o", "json").stdout
    failed(plane("describe", "iriss", check=False), "Model/iriss does not exist", "did you mean 'iris'?")
    assert "the name is missing" in plane("describe", "models", check=False).stderr


def test_aliases_are_listed(plane: Plane, golden: Golden) -> None:
    golden.check(plane("alias", "list", "iris").stderr)
    for name, number in (("prod", "2"), ("beta", "1")):
        plane("alias", "set", "iris", name, number)
    lines = plane("alias", "list", "iris").stdout.splitlines()
    assert [line.split() for line in lines] == [["ALIAS", "VERSION"], ["beta", "1"], ["prod", "2"]]
    for name in ("prod", "beta"):
        plane("alias", "delete", "iris", name)


def test_an_interrupted_upload_says_from_where_it_goes_on(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(upload, "PIECE", 1000)
    plane.file("large.joblib", "x" * 4000)
    tell, told = upload_progress.UploadProgress.tell, []

    def interrupted(sent: upload_progress.UploadProgress, done: int, total: int | None) -> None:
        tell(sent, done, total)
        told.append(done)
        if done == 1000:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(upload_progress.UploadProgress, "tell", interrupted)
    done = plane("version", "add", "empty", "large.joblib", check=False)
    assert (done.returncode, done.stdout) == (130, "")
    golden.check(done.stderr)
    kept = max(told)
    told.clear()
    monkeypatch.setattr(upload_progress.UploadProgress, "tell", lambda sent, done, total: told.append(done))
    golden.check(plane("version", "add", "empty", "large.joblib").stdout)
    assert told[0] == 0
    assert min(told[1:]) >= kept


@pytest.mark.parametrize(
    ("before_that", "says"), [(False, "no version of late was registered"), (True, "version 1 of late is registered")]
)
def test_after_an_interrupt_the_plane_is_asked_whether_the_version_is_there(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, before_that: bool, says: str
) -> None:
    plane("model", "create", "late", check=False)
    real = upload.add_version

    async def interrupted(*given: Any, **more: Any) -> Any:
        if before_that:
            await real(*given, **more)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(5)

    monkeypatch.setattr(upload, "add_version", interrupted)
    done = plane("version", "add", "late", "m.joblib", check=False)
    assert (done.returncode, done.stderr) == (130, f"interrupted: {says}\n")


def test_what_is_read_is_told_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a", "sub/b"):
        (tmp_path / name).write_text("x" * 1000)
    assert upload_progress.describe_source(tmp_path) == f"reading {tmp_path} (2.0 KB)"
    assert upload_progress.describe_source(tmp_path / "none") == f"reading {tmp_path / 'none'}"
    git = {"git": {"repo": "https://example.org/x.git"}}
    assert upload_progress.describe_source(git) == "fetching https://example.org/x.git"


def test_a_refused_address_is_spoken_of_as_the_option_it_is(plane: Plane) -> None:
    refused = plane("version", "add", "iris", "--url", "nonsense", "--sha256", "0" * 64, check=False)
    failed(refused, "--url: must be http://")
    refused = plane("version", "add", "iris", "--url", "http://127.0.0.1:1/x", "--sha256", "abc", check=False)
    failed(refused, "--sha256: must be the sha256 of the file")


def test_a_version_that_would_change_is_refused_in_words_for_both_doors(plane: Plane) -> None:
    plane.file("other.joblib", "other weights")
    refused = plane("version", "add", "iris", "other.joblib", "--version", "1", check=False)
    failed(
        refused, "already exists", "versions are immutable; leave the version out to create the next one (over HTTP: "
    )


def test_a_key_without_value_and_nobody_to_ask(plane: Plane) -> None:
    done = plane("secret", "set", "db", "K", check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("error: Invalid value: K needs a value: K=VALUE, K=@FILE or '-'\n")


@pytest.mark.parametrize("words", ["get models", "delete model x", "history x", "describe x", "rollback x"])
def test_short_commands_do_not_wait_for_all_kinds(tmp_path: Path, words: str) -> None:
    code = (
        f"import sys; sys.argv = ['mizzen', *{words.split()!r}]\n"
        "from mizzen.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 1\n"
        "import mizzen.sdk.client\n"
        "sys.exit('they are loaded' if 'mizzen.kinds.schema.resource' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no plane runs" in done.stderr
