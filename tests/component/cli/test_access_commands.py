"""user, token, permit, whoami, secret, audit: who may do what, and who did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.sdk.api.access import binding_name, binding_target
from tests.support.cli.command import Plane, commanding, failed
from tests.support.golden import Golden

OPEN = "may read and predict everything here: the plane allows anonymous access (setting anonymous)"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as running:
        yield running


def test_users_have_tokens_that_are_shown_once(plane: Plane, golden: Golden) -> None:
    assert plane("user", "add", "ann").stdout == "user ann added\n"
    failed(plane("user", "add", "ann", check=False), "ann")
    done = plane("token", "create", "ann", "--expires", "30d", "--note", "laptop")
    token = done.stdout.strip()
    assert re.fullmatch(r"\S{40,}", token)
    assert done.stderr == ""
    assert plane("whoami", token=token).stdout == f"ann\n{OPEN}\n"
    golden.check(plane("whoami").stdout)
    listing = plane("token", "list", "ann").stdout
    assert token not in listing
    titles, row = (line.split() for line in listing.splitlines())
    assert titles == ["ID", "VALID", "CREATED", "EXPIRES", "REVOKED", "NOTE"]
    assert (row[1], row[-1]) == ("yes", "laptop")
    assert plane("token", "revoke", "ann", row[0]).stdout == f"token {row[0]} of ann revoked\n"
    failed(plane("whoami", token=token, check=False), "revoked")
    assert "ann" in plane("user", "list").stdout
    assert plane("user", "delete", "ann").stdout == "user ann deleted\n"
    assert plane("user", "list").stderr == "no users\n"
    failed(plane("token", "create", "ann", "--expires", "soon", check=False), "expiresIn")


def test_permit_gives_merges_and_takes_back(plane: Plane, golden: Golden) -> None:
    plane("model", "create", "iris")
    plane("user", "add", "ann")
    token = plane("token", "create", "ann").stdout.strip()
    failed(plane("delete", "model", "iris", token=token, check=False), "ann may not write", "")
    golden.check(plane("permit", "ann", "predict", "iris").stdout)
    golden.check(plane("permit", "ann", "read", "write", "iris").stdout)
    assert len(plane("get", "rolebindings", "-o", "name").stdout.split()) == 1
    assert plane("whoami", token=token).stdout == f"ann\nmay read and predict and write iris\n{OPEN}\n"
    golden.check(plane("permit", "ann", "write", "predict", "iris", "--revoke").stdout)
    plane("permit", "ann", "predict", "iris@prod")
    plane("permit", "ann", "write", "namespace/default")
    assert set(plane("whoami", token=token).stdout.splitlines()) == {
        "ann", "may read iris", "may predict iris@prod", "may write namespace/default", OPEN,
    }  # fmt: skip
    plane("delete", "model", "iris", token=token)
    gone = plane("permit", "ann", "read", "iris", "--revoke").stdout
    golden.check(gone)
    assert len(plane("get", "rolebindings", "-o", "name").stdout.split()) == 2
    failed(
        plane("permit", "ann", "raed", "iris", check=False),
        "'raed' is not a valid verb",
        "verbs are read, predict, write, admin",
    )
    failed(plane("permit", "ann", "read", "a/b", check=False), "is not a valid target", "expected iris, iris@prod or")
    failed(
        plane("permit", "ann", "read", "namespace/default", "-n", "lab", check=False),
        "namespace/default and --namespace lab name different namespaces", "leave out --namespace",
    )  # fmt: skip


def test_what_was_not_given_cannot_be_taken_back(plane: Plane, golden: Golden) -> None:
    plane("user", "add", "ann")
    nothing = plane("permit", "ann", "read", "iris", "--revoke")
    golden.check(nothing.stdout)
    assert "nothing was revoked: ann has no direct grant of read on iris" in nothing.stderr
    plane("permit", "ann", "write", "iris")
    included = plane("permit", "ann", "read", "iris", "--revoke")
    golden.check(included.stdout)
    assert "nothing was revoked" in included.stderr


def test_who_is_deleted_leaves_no_rights_behind(plane: Plane, golden: Golden) -> None:
    plane("user", "add", "ann")
    plane("permit", "ann", "write", "namespace/default")
    golden.check(plane("user", "delete", "ann").stdout)
    assert plane("user", "add", "ann").stderr == ""
    assert plane("whoami", token=plane("token", "create", "ann").stdout.strip()).stdout == f"ann\n{OPEN}\n"
    plane("permit", "bob", "write", "namespace/default")
    assert "already named 'bob', so they may now write namespace/default" in plane("user", "add", "bob").stderr


def test_a_token_that_is_not_valid_is_said_to_be_set(plane: Plane) -> None:
    for words in (("whoami",), ("get", "models"), ("secret", "list")):
        failed(
            plane(*words, token="mzn_wrong", check=False), "not known", "the token from MIZZEN_TOKEN is not valid here"
        )


def test_names_of_bindings_tell_apart_what_reads_alike() -> None:
    names = {
        binding_name(user, *binding_target(target, "default"))
        for user, target in (
            ("a-b", "c"), ("a", "b-c"), ("a@b", "c"), ("a", "b@c"), ("a", "namespace/b"), ("a", "b"), ("*", "b"),
            ("group:a", "b"), ("x" * 200, "b"),
        )
    }  # fmt: skip
    assert len(names) == 9
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in names)
    assert binding_name("a", *binding_target("b", "lab")) != binding_name("a", *binding_target("b", "default"))


def test_secrets_are_set_from_words_files_and_stdin_and_never_shown(plane: Plane, golden: Golden) -> None:
    plane.file("key.pem", "a key\n")
    done = plane("secret", "set", "tls", "key=@key.pem", "user=ann")
    golden.check(done.stdout)
    plane("secret", "set", "db", "-", stdin="# a comment\nPASSWORD=a=b c\n\nUSER=ann\n")
    plane("secret", "set", "db2", stdin="PASSWORD=hush\n")
    listing = plane("secret", "list").stdout
    assert [line.split()[:2] for line in listing.splitlines()] == [
        ["NAME", "KEYS"], ["db", "PASSWORD,USER"], ["db2", "PASSWORD"], ["tls", "key,user"],
    ]  # fmt: skip
    everything = listing + plane("secret", "list", "-o", "json").stdout + plane("audit").stdout
    for value in ("a key", "a=b c", "hush"):
        assert value not in everything
    assert plane("secret", "delete", "tls").stdout == "secret tls deleted\n"
    failed(plane("secret", "delete", "tls", check=False), "tls")
    failed(plane("secret", "set", "x", "key=@none", check=False), "cannot read none")
    failed(plane("secret", "set", "x", "-", stdin="only-a-hush-value\n", check=False), "is not KEY=VALUE")
    assert "only-a-hush-value" not in plane("secret", "set", "x", "-", stdin="only-a-hush-value\n", check=False).stderr
    assert plane("secret", "list", "-n", "lab").stderr == "no secrets\n"


def test_setting_one_value_of_a_secret_keeps_the_others(plane: Plane, golden: Golden) -> None:
    plane("secret", "set", "db", "user=ann", "password=hush")
    golden.check(plane("secret", "set", "db", "user=bob").stdout)
    assert "password,user" in plane("secret", "list").stdout
    done = plane("secret", "set", "db", "--replace", "user=eve")
    golden.check(done.stdout)
    assert plane("secret", "list").stdout.splitlines()[1].split()[:2] == ["db", "user"]
    data = json.loads(plane("secret", "set", "db", "--replace", "key=x", "-o", "json").stdout)
    assert (data["keys"], data["removed"]) == (["key"], ["user"])


def test_the_audit_tells_who_asked_what(plane: Plane) -> None:
    plane("model", "create", "iris")
    plane("user", "add", "ann")
    token = plane("token", "create", "ann").stdout.strip()
    plane("delete", "model", "iris", token=token, check=False)
    titles, first = (line.split() for line in plane("audit", "--refused").stdout.splitlines())
    assert titles == ["TIME", "ACTOR", "VERB", "KIND", "NAMESPACE", "NAME", "ALLOWED", "CODE", "REQUEST", "REASON"]
    assert first[1:7] == ["ann", "write", "Model", "default", "iris", "no"]
    assert first[7:10] == ["403", "DELETE", "/model/iris"]
    assert plane("audit", "--actor", "nobody").stderr == "no entries\n"
    made = json.loads(plane("audit", "--kind", "models", "--since", "1h", "-o", "json").stdout)["items"]
    assert [(entry["actor"], entry["allowed"]) for entry in made] == [("ann", False), ("admin", True)]
    assert len(json.loads(plane("audit", "--limit", "2", "-o", "json").stdout)["items"]) == 2
    failed(plane("audit", token=token, check=False), "ann may not read the audit: only admins of the plane may do that")
    failed(plane("audit", "--kind", "modle", check=False), "no kind 'modle'", "did you mean 'model'?")
    users = json.loads(plane("audit", "--kind", "user", "-o", "json").stdout)["items"]
    assert [(entry["verb"], entry["name"]) for entry in users] == [("admin", "ann"), ("admin", "ann")]
    wrong = plane("audit", "--since", "yesterday", check=False)
    assert (wrong.returncode, "is not a valid time" in wrong.stderr) == (2, True)
