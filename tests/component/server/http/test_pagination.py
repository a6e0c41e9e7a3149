"""Lists, page by page: what their tokens tell, and what somebody gets who sees little."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.http import pagination
from mizzen.server.http.pagination import BLOCK, MOST_READ, Paginator
from mizzen.stores.pages import fill_page
from tests.support.server.harness import HERE, ROOT, Harness, serving

pytestmark = pytest.mark.own_plane


def models(plane: Harness, *names: str) -> None:
    for name in names:
        plane.run(plane.store.create(Resource("Model", Meta(name)), "admin"))


def page(client: httpx2.Client, path: str, **query: Any) -> tuple[list[str], str]:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    names = [item.get("name") or item.get("metadata", {}).get("name") for item in body["items"]]
    return names, body["metadata"]["continue"]


@given(st.text(st.characters(codec="ascii", exclude_characters=" "), max_size=400))
def test_what_is_sealed_is_opened_and_tells_nothing(place: str) -> None:
    own = Paginator()
    sealed = own.seal(place)
    assert own.unseal(sealed) == (place or None)
    if place:
        raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
        assert len(raw) % BLOCK == 28  # nonce and tag
        with pytest.raises(BadRequest):
            Paginator().unseal(sealed)


@pytest.mark.parametrize("token", ["x", "é", "=", "AAAA", "A" * 5000, "eyJydiI6MX0", " ", "\0"])
def test_what_was_not_sealed_here_is_refused(token: str) -> None:
    with pytest.raises(BadRequest, match="not a valid continue token"):
        Paginator().unseal(token)


def test_a_kept_key_outlives_a_restart_and_one_that_makes_no_sense_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "page-key"
    sealed = Paginator.load_or_create(file).seal("here")
    assert Paginator.load_or_create(file).unseal(sealed) == "here"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("short\n")
    replaced = Paginator.load_or_create(file)
    assert Paginator.load_or_create(file).unseal(replaced.seal("there")) == "there"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_token_tells_a_name(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        models(plane, "aaa", "hidden-project", "zzz")
        admin = plane.client()
        for version in ("1", "2"):
            spec = {"modelName": "aaa", "version": version, "framework": "sklearn"}
            plane.run(plane.store.create(Resource("ModelVersion", Meta(f"aaa.{version}"), spec), "admin"))
            assert admin.put("/secret/s", json={"data": {"key": version}}).status_code < 300
        for path, limit in (
            ("/model", 2), (f"{HERE}/models", 2), (f"{ROOT}/models", 2), (f"{ROOT}/revisions", 2),
            ("/model/aaa/history", 1), ("/model/aaa/version", 1), ("/audit", 1),
        ):  # fmt: skip
            _, token = page(admin, path, limit=limit)
            assert token, path
            assert b"hidden" not in base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            assert not token.isdecimal()
            following = admin.get(path, params={"limit": limit, "continue": token})
            assert following.status_code == 200, (path, following.text)
            other = "/audit" if path != "/audit" else "/model"
            assert admin.get(other, params={"continue": token}).status_code == 400
            forged = base64.urlsafe_b64encode(b'{"rv":1}').decode()
            for wrong in (forged, token[:-4], "x"):
                assert admin.get(path, params={"continue": wrong}).status_code == 400


LISTS = ("/model", f"{HERE}/models", f"{ROOT}/models")


@pytest.mark.parametrize("path", LISTS)
def test_who_sees_little_gets_no_empty_pages(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        models(plane, *(f"a{number:02d}" for number in range(MOST_READ + 5)), "mine", "zz")
        plane.permit("mine", "read", subjects=["ann"], model="mine")
        ann = plane.client(plane.user("ann"))
        assert page(ann, path, limit=1) == (["mine"], "")
        assert page(ann, path) == (["mine"], "")


@pytest.mark.parametrize("path", LISTS)
def test_what_is_hidden_shows_in_no_page(tmp_path: Path, path: str) -> None:
    """Neither in its token nor in its length: else selectors would tell of names and labels."""
    with serving(tmp_path, anonymous=False) as plane:
        models(plane, "b", "d", "f")
        for name in ("a", "c", "e", "g"):
            hidden = Resource("Model", Meta(name, labels={"secret": "hush"}))
            plane.run(plane.store.create(hidden, "admin"))
        for name in ("b", "d", "f"):
            plane.permit(name, "read", subjects=["ann"], model=name)
        ann = plane.client(plane.user("ann"))
        for query in ({}, {"labelSelector": "secret!=hush"}, {"labelSelector": "secret!=wrong"}):
            assert page(ann, path, limit=3, **query) == (["b", "d", "f"], "")
            names, token = page(ann, path, limit=2, **query)
            assert names == ["b", "d"]
            assert page(ann, path, **{"limit": 2, "continue": token}, **query) == (["f"], "")


def test_a_page_that_is_full_by_its_bytes_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill_page, "__defaults__", (1,))  # one object is more than that
    with serving(tmp_path, anonymous=False) as plane:
        models(plane, "a", "b", "hidden")
        for name in ("a", "b"):
            plane.permit(name, "read", subjects=["ann"], model=name)
        ann = plane.client(plane.user("ann"))
        names, token = page(ann, "/model", limit=10)
        assert names == ["a"]
        assert page(ann, "/model", **{"limit": 10, "continue": token}) == (["b"], "")


def test_one_answer_reads_so_many_pages_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "WALK", 1)
    with serving(tmp_path, anonymous=False) as plane:
        models(plane, *(f"a{number:02d}" for number in range(2 * MOST_READ)), "mine")
        plane.permit("mine", "read", subjects=["ann"], model="mine")
        ann = plane.client(plane.user("ann"))
        names, token = page(ann, "/model", limit=1)  # of two objects a page
        assert names == []
        assert page(ann, "/model", **{"limit": 1, "continue": token}) == (["mine"], "")
