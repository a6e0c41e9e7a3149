"""/model/{model}/monitor: one tool per model, the ways in for programs and for browsers, and versions compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from mizzen.kinds.monitor import MonitorStatus
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource
from mizzen.runs.paths import JobPlace, events
from mizzen.selection.state_db import Quality
from mizzen.server.monitor import comparison
from mizzen.server.monitor.sessions import COOKIE
from mizzen.usage.inventory import Inventory, ServedVersion
from mizzen.usage.rates import Figures, Growth, UsageSample
from mizzen.usage.sampler import UsageSnapshot
from tests.support.server.harness import HERE, TOKEN, Harness, serving

AT = "/model/iris/monitor"
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PATHS = (
    ("GET", ""), ("POST", ""), ("DELETE", ""), ("POST", "/ticket"), ("POST", "/logout"), ("GET", "/tool"),
    ("GET", "/tool/"), ("GET", "/tool/data/runs"), ("POST", "/tool/data/plugin/timeseries/timeSeries"),
    ("GET", "/page"), ("GET", "/scalars"), ("GET", "/login"),
)  # fmt: skip


@pytest.fixture
def iris(admin: httpx2.Client) -> httpx2.Client:
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    return admin


def show(plane: Harness, tool: str = "scalars", name: str = "iris", namespace: str = "") -> None:
    """What the controller would report."""
    ready = Condition(type="Ready", status="True", reason="Showing", message="it answers")

    async def write() -> None:
        found = await plane.store.get(Ref("Monitor", name, namespace or plane.namespace))
        await plane.store.update_status(found.with_status(MonitorStatus(conditions=(ready,), tool=tool)), "system")

    plane.run(write())


def browser(plane: Harness) -> httpx2.Client:
    """Without a token, and with cookies as a browser keeps them."""
    return plane.client(None, **HTML)


def form(plane: Harness, **said: str) -> dict[str, Any]:
    """As the page sends it."""
    return {"data": said, "headers": {"origin": plane.url, "sec-fetch-site": "same-origin"}}


def log_dir(plane: Harness, version: str, job: str, model: str = "iris", namespace: str = "") -> Path:
    place = events(plane.folder, namespace=namespace or plane.namespace, model=model, version=version, job=job)
    place.mkdir(parents=True, exist_ok=True)
    return place


def metrics(folder: Path, *points: tuple[int, float | None], tag: str = "loss") -> None:
    lines = [json.dumps({"step": step, "time": 1.5, "metrics": {tag: value}}) for step, value in points]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.own_plane
def test_the_first_post_starts_it_and_others_find_it(plane: Harness, iris: httpx2.Client) -> None:
    assert iris.get(AT).status_code == 404
    made = iris.post(AT)
    assert (made.status_code, made.headers["location"]) == (201, AT)
    assert (made.json()["ready"], made.json()["url"]) == (False, f"{plane.url}{AT}/tool/")
    again = iris.post(AT, json={"tool": "tensorboard"})
    assert again.status_code == 200
    stored = iris.get(f"{HERE}/monitors").json()["items"]
    assert [item["metadata"]["name"] for item in stored] == ["iris"]
    show(plane)
    found = iris.get(AT).json()
    assert (found["ready"], found["tool"], found["message"]) == (True, "scalars", "it answers")
    assert found["url"] == f"{plane.url}{AT}/page"
    assert iris.get("/model/iris").json()["monitor"]["tool"] == "scalars"
    assert iris.post(AT).json() == found
    assert iris.delete(AT).json() == {"name": "iris", "deleted": True}
    assert iris.get(AT).status_code == 404
    assert iris.delete(AT).json() == {"name": "iris", "deleted": True}


def test_another_tool_is_not_given_in_place_of_what_is_there(plane: Harness, iris: httpx2.Client) -> None:
    iris.post(AT, json={"tool": "scalars"})
    answer = iris.post(AT, json={"tool": "tensorboard"})
    assert (answer.status_code, "shows scalars" in answer.json()["message"]) == (409, True)
    assert iris.post(AT, json={"tool": "scalars"}).status_code == 200


def test_bodies_are_read_strictly(iris: httpx2.Client) -> None:
    answer = iris.post(AT, json={"tol": "tensorboard"})
    assert (answer.status_code, "tol" in answer.json()["message"]) == (422, True)
    assert iris.post(AT, json={"modelName": "other"}).status_code == 422
    assert iris.post("/model/nobody/monitor").status_code == 404


def test_a_monitor_of_another_name_is_the_models_one(plane: Harness, iris: httpx2.Client) -> None:
    plane.run(plane.store.create(Resource("Monitor", Meta("board", plane.namespace), {"modelName": "iris"}), "ann"))
    assert (iris.post(AT).status_code, iris.get(AT).json()["name"]) == (200, "board")
    assert iris.delete(AT).status_code == 200
    assert iris.get(f"{HERE}/monitors").json()["items"] == []


def test_ending_it_waits_for_its_process_when_asked_to(plane: Harness, iris: httpx2.Client) -> None:
    held = Resource(
        "Monitor", Meta("iris", plane.namespace, finalizers=("mizzen.dev/children",)), {"modelName": "iris"}
    )
    plane.run(plane.store.create(held, "ann"))
    assert (iris.delete(AT).status_code, iris.delete(AT).json()["deleted"]) == (202, False)
    assert iris.get(AT).status_code == 404
    plane.release(plane.ref("Monitor", "iris"))
    assert iris.delete(f"{AT}?wait=true").status_code == 200


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_nobody_gets_in_without_a_token_and_the_right(
    shared_plane: Harness, shared_admin: httpx2.Client, method: str, path: str
) -> None:
    """However open the plane is, and whatever they show."""
    shared_admin.post("/model", json={"name": "iris"})
    shared_admin.post(AT)
    assert shared_plane.client(None).get("/model/iris").status_code == 200, "strangers may read the model"
    carl = shared_plane.user("carl")
    callers = {
        "nobody": (shared_plane.client(None), 401),
        "a wrong token": (shared_plane.client("mzn_wrong"), 401),
        "a made-up cookie": (shared_plane.client(None, cookie=f"{COOKIE}=made-up"), 401),
        "somebody without rights": (shared_plane.client(carl), 403),
        "a token in a cookie": (shared_plane.client(None, cookie=f"{COOKIE}={TOKEN}"), 401),
    }
    for who, (client, code) in callers.items():
        for at in (AT, "/ns/default/model/iris/monitor") if path else (AT,):
            answer = client.request(method, f"{at}{path}", headers={"origin": shared_plane.url})
            assert answer.status_code == code, f"{who} at {at}: {answer.text}"
            assert "set-cookie" not in answer.headers


def test_whoever_may_read_the_model_gets_in_and_starts_nothing(plane: Harness, iris: httpx2.Client) -> None:
    ann = plane.client(plane.user("ann"))
    plane.permit("ann", "read", subjects=["ann"], model="iris")
    assert ann.post(AT).status_code == 403
    iris.post(AT)
    assert [ann.get(f"{AT}{path}").status_code for path in ("", "/page", "/scalars")] == [200, 200, 200]
    assert ann.post(f"{AT}/ticket").status_code == 200
    assert ann.delete(AT).status_code == 403


@pytest.mark.own_plane
def test_a_browser_is_asked_for_a_token_and_keeps_a_cookie_for_it(plane: Harness, iris: httpx2.Client) -> None:
    iris.post(AT)
    show(plane)
    guest = browser(plane)
    page = guest.get(f"{AT}/page")
    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert f'action="{AT}/login"' in page.text
    assert 'value="page"' in page.text
    assert "script-src 'none'" in page.headers["content-security-policy"]
    wrong = guest.post(f"{AT}/login", **form(plane, token="mzn_wrong"))
    assert (wrong.status_code, "not known here" in wrong.text, "set-cookie" in wrong.headers) == (401, True, False)
    right = guest.post(f"{AT}/login", **form(plane, token=f" {TOKEN}\n", to="page"))
    assert (right.status_code, right.headers["location"]) == (303, f"{AT}/page")
    cookie = right.headers["set-cookie"]
    assert TOKEN not in cookie
    assert {"HttpOnly", f"Path={AT}", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert guest.get(f"{AT}/page").status_code == 200
    assert guest.get(f"{AT}/scalars").status_code == 200
    assert guest.get(f"{AT}/tool/").headers["location"] == f"{AT}/page"
    out = guest.post(f"{AT}/logout", **form(plane))
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (303, True)
    assert guest.get(f"{AT}/page", headers={"cookie": cookie.partition(";")[0]}).status_code == 401


def test_a_form_of_another_page_logs_nobody_in_or_out(plane: Harness, iris: httpx2.Client) -> None:
    guest = browser(plane)
    for headers, code in (({}, 401), ({"sec-fetch-site": "cross-site"}, 401), ({"origin": "http://evil.example"}, 403)):
        answer = guest.post(f"{AT}/login", data={"token": TOKEN}, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (code, False)
    assert iris.post(f"{AT}/login", data={"token": TOKEN}).status_code == 403
    own = form(plane)["headers"]
    assert guest.post(f"{AT}/login", json={"token": TOKEN}, headers=own).status_code == 415
    assert guest.post(f"{AT}/login", **form(plane, token="x" * 20_000)).status_code == 413


@pytest.mark.own_plane
def test_a_cookie_is_good_for_its_monitor_and_for_nothing_else(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model", json={"name": "other"})
    for model in ("iris", "other"):
        iris.post(f"/model/{model}/monitor")
        show(plane, name=model)
    guest = browser(plane)
    session = guest.post(f"{AT}/login", **form(plane, token=TOKEN)).headers["set-cookie"].partition(";")[0]
    sent = {"cookie": session, "origin": plane.url}
    assert guest.get(f"{AT}/page", headers=sent).status_code == 200
    for method, path in (
        ("GET", "/model/other/monitor/page"), ("GET", "/model/other/monitor/scalars"), ("DELETE", AT), ("POST", AT),
        ("GET", AT), ("POST", f"{AT}/ticket"), ("POST", "/model"), ("GET", "/secret"), ("GET", "/user"),
        ("DELETE", "/model/iris"), ("GET", "/ns/team/model/iris/monitor/scalars"),
        ("GET", f"{AT}/scalars?namespace=team"),
    ):  # fmt: skip
        assert guest.request(method, path, headers=sent).status_code == 401, path


@pytest.mark.own_plane
def test_a_revoked_token_and_a_lost_right_end_a_visit(plane: Harness, iris: httpx2.Client) -> None:
    iris.post(AT)
    for end, code in (("revoke", 401), ("forbid", 403)):
        token = plane.user("ann")
        plane.permit("ann", "read", subjects=["ann"], model="iris")
        guest = browser(plane)
        assert guest.post(f"{AT}/login", **form(plane, token=token)).status_code == 303
        assert guest.get(f"{AT}/scalars").status_code == 200
        if end == "revoke":
            (known,) = iris.get("/user/ann/token").json()["items"]
            assert iris.delete(f"/user/ann/token/{known['id']}").is_success
            assert plane.client(token).get("/model").status_code == 401
        plane.forbid("ann")
        assert guest.get(f"{AT}/scalars").status_code == code, end
        assert guest.get(f"{AT}/page").headers["content-type"].startswith("text/html")


@pytest.mark.own_plane
def test_a_ticket_opens_the_monitor_once(plane: Harness, iris: httpx2.Client) -> None:
    iris.post(AT)
    show(plane)
    ticket = iris.post(f"{AT}/ticket").json()["url"]
    assert ticket.startswith(f"{plane.url}{AT}/tool/?ticket=")
    guest = browser(plane)
    opened = guest.get(ticket)
    assert (opened.status_code, opened.headers["location"]) == (303, f"{AT}/tool/")
    assert guest.get(f"{AT}/page").status_code == 200
    late = browser(plane).get(ticket)
    assert (late.status_code, "set-cookie" in late.headers) == (401, False)
    assert "it works once" in plane.client(None).get(ticket).json()["details"]["hint"]


def test_a_ticket_is_no_way_around_a_right_that_was_lost(plane: Harness, iris: httpx2.Client) -> None:
    ann = plane.client(plane.user("ann"))
    plane.permit("ann", "read", subjects=["ann"], model="iris")
    ticket = ann.post(f"{AT}/ticket").json()["url"]
    plane.forbid("ann")
    answer = browser(plane).get(ticket)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.own_plane
def test_who_comes_by_a_link_of_another_site_is_led_on_by_a_page(plane: Harness, iris: httpx2.Client) -> None:
    """A redirect would be that site's, and browsers would keep the cookie back."""
    ticket = iris.post(f"{AT}/ticket").json()["url"]
    answer = browser(plane).get(ticket, headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, f"0; url={AT}/tool/" in answer.text) == (200, True)
    assert COOKIE in answer.headers["set-cookie"]


def test_other_namespaces_have_paths_of_their_own(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model?namespace=team", json={"name": "iris"})
    made = admin.post(f"{AT}?namespace=team")
    at = f"/ns/team{AT}"
    assert (made.status_code, made.json()["url"]) == (201, f"{plane.url}{at}/tool/")
    assert made.headers["location"] == f"{AT}?namespace=team"
    show(plane, namespace="team")
    metrics(log_dir(plane, "1", "j", namespace="team"), (1, 0.5))
    ticket = admin.post(f"{AT}/ticket?namespace=team").json()["url"]
    guest = browser(plane)
    assert urlsplit(guest.get(ticket).headers["location"]).path == f"{at}/tool/"
    assert guest.get(f"{at}/scalars").json()["tags"] == ["loss"]
    assert guest.get(f"{at}/page").status_code == 200
    assert admin.get(f"{AT}/scalars?namespace=team").json()["tags"] == ["loss"]
    assert admin.get(f"{AT}/scalars").status_code == 404


def test_over_tls_the_cookie_stays_there(tmp_path: Path) -> None:
    def behind_tls(app: Any) -> None:
        inner = app.middleware_stack or app.build_middleware_stack()

        async def secure(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, "scheme": "https"} if scope["type"] == "http" else scope, receive, send)

        app.middleware_stack = secure

    with serving(tmp_path, change=behind_tls) as plane:
        plane.client().post("/model", json={"name": "iris"})
        headers = {"origin": plane.url.replace("http:", "https:"), "sec-fetch-site": "same-origin"}
        answer = browser(plane).post(f"{AT}/login", data={"token": TOKEN}, headers=headers)
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.own_plane
def test_refusals_are_on_record_and_hold_no_token(plane: Harness, iris: httpx2.Client) -> None:
    browser(plane).post(f"{AT}/login", **form(plane, token="mzn_secret"))
    entry = plane.audited(allowed=False)[0]
    assert (entry.path, entry.code, entry.actor) == (f"{AT}/login", 401, "anonymous")
    assert "mzn_secret" not in repr(entry)


def test_versions_are_compared_by_step(plane: Harness, iris: httpx2.Client) -> None:
    metrics(log_dir(plane, "1", "a"), (0, 1.0), (10, 0.5))
    metrics(log_dir(plane, "10", "b"), (0, 2.0), (3, float("nan")), (5, None), (10, 0.25))
    metrics(log_dir(plane, "2", "c"), (7, 3.0), tag="accuracy")
    found = iris.get(f"{AT}/scalars").json()
    assert found["tags"] == ["accuracy", "loss"]
    assert [(each["version"], each["job"], each["tag"]) for each in found["series"]] == [
        ("1", "a", "loss"), ("2", "c", "accuracy"), ("10", "b", "loss"),
    ]  # fmt: skip
    assert found["series"][2]["points"] == [[0, 2.0, 1.5], [3, None, 1.5], [5, None, 1.5], [10, 0.25, 1.5]]
    assert (found["live"], found["words"], found["behind"]) == ([], [], False)
    assert {each["version"] for each in iris.get(f"{AT}/scalars?tag=loss").json()["series"]} == {"1", "10"}
    assert [each["job"] for each in iris.get(f"{AT}/scalars?version=v2").json()["series"]] == ["c"]
    assert [each["job"] for each in iris.get(f"{AT}/scalars?job=b&tag=loss").json()["series"]] == ["b"]


def test_long_series_are_thinned_to_what_was_asked_for(plane: Harness, iris: httpx2.Client) -> None:
    metrics(log_dir(plane, "1", "a"), *((step, float(step % 97)) for step in range(900)))
    (series,) = iris.get(f"{AT}/scalars?points=50").json()["series"]
    steps = [point[0] for point in series["points"]]
    assert len(steps) <= 50
    assert (steps[0], steps[-1]) == (0, 899)
    assert {0.0, 96.0} <= {point[1] for point in series["points"]}
    for wrong in ("points=3", "points=9999", "points=x", "version=%20", "tags=loss"):
        assert iris.get(f"{AT}/scalars?{wrong}").status_code == 400, wrong


def test_progress_reports_of_jobs_are_scalars_too(plane: Harness, iris: httpx2.Client) -> None:
    job = Resource(
        "TrainingJob", Meta("iris-1-x", plane.namespace), {"modelName": "iris", "version": "1", "command": ["x"]}
    )
    stored = plane.run(plane.store.create(job, "ann"))
    place = JobPlace(plane.folder, stored.meta.uid).replica("master-0")
    place.folder.mkdir(parents=True)
    place.past_progress.write_text('{"step": 2, "metrics": {"loss": 0.5}, "time": 9}\n')
    (series,) = iris.get(f"{AT}/scalars").json()["series"]
    assert (series["version"], series["job"], series["source"]) == ("1", "iris-1-x", "progress")


def test_the_page_runs_nothing_but_itself(plane: Harness, iris: httpx2.Client) -> None:
    assert iris.get(f"{AT}/page").status_code == 404
    iris.post(AT)
    page = iris.get(f"{AT}/page")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 2
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<title>iris" in page.text


def test_deleting_a_model_ends_its_monitor(plane: Harness, iris: httpx2.Client) -> None:
    iris.post(AT)
    assert iris.delete("/model/iris").status_code == 409
    assert iris.delete("/model/iris?cascade=true&wait=true").is_success
    assert iris.get(f"{HERE}/monitors").json()["items"] == []


def test_served_versions_stand_beside_with_how_they_do() -> None:
    figures = Figures(
        requests=20.0, errors=5.0, codes={200: 15.0, 500: 5.0}, p50=0.002, p95=0.01, p99=0.02, in_flight=0, waiting=0,
        batch=None, shed=0.0, expired=0.0, retried=0.0, ready=1, wanted=1, memory=1, cpu=0.1,
    )  # fmt: skip
    quiet = replace(figures, requests=0.0, errors=0.0, p50=None, p99=None)
    served = {
        ("default", "iris", "10"): quiet, ("default", "iris", "9"): figures,
        ("team", "iris", "1"): figures, ("default", "other", "1"): figures,
    }  # fmt: skip
    known = Inventory({("default", "iris", "9"): ServedVersion(("iris-9", "iris-9-2"), 2, 2)})
    judged = {("default", "iris", "9"): Quality("", "9", 4, 1.0, 10, 8.0)}
    rows = comparison.render_live(
        Ref("Model", "iris"), UsageSnapshot(UsageSample(0.0, inventory=known), Growth(), served, {}), judged
    )
    assert rows == [
        {"version": "9", "server": "iris-9, iris-9-2", "requests": 20.0, "errorRate": 0.25, "p50": 0.002, "p99": 0.02,
         "accuracy": 0.8, "reward": 0.25},
        {"version": "10", "server": "", "requests": 0.0, "errorRate": None, "p50": None, "p99": None,
         "accuracy": None, "reward": None},
    ]  # fmt: skip
