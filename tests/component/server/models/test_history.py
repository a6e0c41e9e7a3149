"""The /model API: history, and what a model looked like at a time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.kinds.schema.resource import Ref
from mizzen.server.models.history import HistoryReplay
from mizzen.stores.store import Revision
from tests.component.server.resources.test_routes import inference_model
from tests.support.server.harness import HERE, Harness, deploy


def test_history_tells_who_did_what_in_order(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    admin.post("/model/iris/current", json={"version": 1})
    items = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"], item["actor"]) for item in items] == [
        ("created", str(plane.ref("Model", "iris")), "admin"),
        ("created", str(plane.ref("ModelVersion", "iris.1")), "admin"),
        ("created", str(plane.ref("InferenceModel", "iris-1")), "admin"),
        ("promoted", str(plane.ref("Model", "iris")), "admin"),
    ]
    assert [item["time"] for item in items] == sorted(item["time"] for item in items)
    promoted = items[-1]
    assert promoted["number"] == 2
    assert "current" not in promoted["before"]
    assert promoted["after"]["current"]["version"] == "1"
    assert admin.get("/model/none/history").status_code == 404


def test_history_outlives_the_model(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    admin.delete("/model/iris")
    items = admin.get("/model/iris/history").json()["items"]
    assert [item["action"] for item in items] == ["created", "deleted"]


def test_history_tells_of_what_is_gone(plane: Harness, admin: httpx2.Client) -> None:
    """Versions and servers too, by whatever name they went."""
    deploy(plane, admin, "iris-2")  # begins like a server of iris, and is none
    server = deploy(plane, admin)
    admin.post(f"{HERE}/inferencemodels", json=inference_model("other"))
    for name in (server, "other"):
        admin.delete(f"{HERE}/inferencemodels/{name}")
        plane.release(plane.ref("InferenceModel", name))
    assert admin.delete("/model/iris/version/1").status_code == 200
    gone = [
        ("created", str(plane.ref("Model", "iris"))),
        ("created", str(plane.ref("ModelVersion", "iris.1"))),
        ("created", str(plane.ref("InferenceModel", "iris-1"))),
        ("created", str(plane.ref("InferenceModel", "other"))),
        ("deleted", str(plane.ref("InferenceModel", "iris-1"))),
        ("deleted", str(plane.ref("InferenceModel", "other"))),
        ("deleted", str(plane.ref("ModelVersion", "iris.1"))),
    ]
    history = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"]) for item in history] == gone
    assert admin.get("/model/iris").json()["lastChanged"]["time"] == history[-1]["time"]
    admin.delete("/model/iris")
    history = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"]) for item in history] == [
        *gone,
        ("deleted", str(plane.ref("Model", "iris"))),
    ]


def test_history_comes_in_pages(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    deploy(plane, admin, content="two")
    admin.post("/model/iris/current", json={"version": 2})
    whole = admin.get("/model/iris/history").json()
    pages: list[dict[str, Any]] = []
    token = ""
    while True:
        params = {"limit": "2"} | ({"continue": token} if token else {})
        page = admin.get("/model/iris/history", params=params).json()
        pages += page["items"]
        token = page["metadata"]["continue"]
        if not token:
            break
        assert len(page["items"]) == 2
    assert pages == whole["items"]
    assert len(pages) == 6
    other = admin.get("/model/iris/history?limit=1").json()["metadata"]["continue"]
    admin.post("/model", json={"name": "lily"})
    assert admin.get("/model/lily/history", params={"continue": other}).status_code == 400
    assert admin.get("/model/iris/history?continue=x").status_code == 400


@pytest.fixture
def story(plane: Harness, admin: httpx2.Client) -> list[str]:
    """Times: before all, with one version, with two and an alias, current 1, current 2, version 1 gone, all gone."""
    times = [now()]
    admin.post("/model", json={"name": "iris", "framework": "sklearn"})
    for content in ("one", "two"):
        admin.post("/model/iris/version", json={"path": plane.file("m.joblib", content)})
        times.append(now())
    admin.put("/model/iris/alias/prod", json={"version": 2})
    for version in ("1", "2"):
        admin.post(f"/model/iris/serve/{version}")
        plane.make_ready(f"iris-{version}", version)
        admin.post("/model/iris/current", json={"version": version})
        times.append(now())
    for version in ("1", "2"):
        admin.delete(f"/model/iris/serve/{version}/iris-{version}")
        plane.release(plane.ref("InferenceModel", f"iris-{version}"))
    admin.delete("/model/iris/version/1")
    times.append(now())
    admin.delete("/model/iris")
    times.append(now())
    return times


def now() -> str:
    return datetime.now(UTC).isoformat()


def test_what_a_model_looked_like(story: list[str], admin: httpx2.Client) -> None:
    def at(time: str) -> httpx2.Response:
        return admin.get("/model/iris/history", params={"at": time})

    before, one, two, first, second, fewer, gone = story
    assert at(before).status_code == at(gone).status_code == 404
    assert "did not exist at" in at(gone).json()["message"]
    looked = [at(time).json() for time in (one, two, first, second, fewer)]
    assert [past["versions"] for past in looked] == [["1"], ["1", "2"], ["1", "2"], ["1", "2"], ["2"]]
    assert [past["status"].get("current", {}).get("version") for past in looked] == [None, None, "1", "2", "2"]
    assert looked[1]["spec"] == {"framework": "sklearn"}
    assert looked[2]["spec"] == {"framework": "sklearn", "aliases": {"prod": "2"}}
    assert looked[3]["status"]["previous"] == "1"
    assert looked[4]["lastChanged"]["actor"] == "admin"


def test_times_are_read_as_people_write_them(story: list[str], admin: httpx2.Client) -> None:
    moment = datetime.fromisoformat(story[2])
    naive = moment.replace(tzinfo=None).isoformat()
    elsewhere = moment.astimezone(tz=None).isoformat()
    for text in (story[2], story[2].replace("+00:00", "Z"), naive, elsewhere):
        assert admin.get("/model/iris/history", params={"at": text}).json()["versions"] == ["1", "2"]
    assert admin.get(f"/model/iris/history?at={story[2]}").json()["versions"] == ["1", "2"]  # its + comes as a blank
    for text in ("yesterday", "2026-13-01", "1"):
        answer = admin.get("/model/iris/history", params={"at": text})
        assert (answer.status_code, "2026-01-31T12:00:00Z" in answer.json()["details"]["hint"]) == (400, True)


START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("Model"), st.sampled_from(("created", "updated", "promoted", "deleted")), st.integers(1, 3)),
        st.tuples(st.just("ModelVersion"), st.sampled_from(("created", "deleted")), st.integers(1, 3)),
        st.tuples(st.just("InferenceModel"), st.just("created"), st.integers(1, 3)),
    )
)


@given(STEPS)
def test_the_past_is_what_a_slow_reading_of_all_revisions_says(steps: list[tuple[str, str, int]]) -> None:
    revisions = [revision(number, *step) for number, step in zip(itertools.count(), steps, strict=False)]
    past = HistoryReplay()
    for count, entry in enumerate(revisions, 1):
        past.apply(entry)
        so_far = revisions[:count]
        own = [one for one in so_far if one.ref.kind == "Model"]
        specs = [one for one in own if one.action != "promoted"]
        assert past.spec == (specs[-1].after if specs else None)
        since = max((index for index, one in enumerate(own) if one.action in ("created", "deleted")), default=-1)
        moves = [one.after for one in own[since + 1 :] if one.action == "promoted"]
        assert past.status == (moves[-1] if moves else {})
        for version in ("1", "2", "3"):
            last = [one.action for one in so_far if one.ref == Ref("ModelVersion", f"iris.{version}")]
            assert (version in past.versions) == (last[-1:] == ["created"])


def revision(number: int, kind: str, action: str, value: int) -> Revision:
    name = "iris" if kind == "Model" else f"iris.{value}"
    after = None if action == "deleted" else {"n": value}
    return Revision(Ref(kind, name), "uid", number, action, "ann", START + timedelta(seconds=number), None, after)


def test_the_history_of_a_name_that_was_used_twice_tells_both(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris", "framework": "python"})
    between = now()
    admin.delete("/model/iris")
    admin.post("/model", json={"name": "iris"})
    assert admin.get("/model/iris/history", params={"at": between}).json()["spec"] == {"framework": "python"}
    assert admin.get("/model/iris/history", params={"at": now()}).json()["spec"] == {}
    actions = [item["action"] for item in admin.get("/model/iris/history").json()["items"]]
    assert actions == ["created", "deleted", "created"]
