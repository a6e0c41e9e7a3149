"""Cookies and tickets of monitors: good for one model, for a while, and for pages of ours only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from starlette.types import Scope

from mizzen.access.policy import Actor
from mizzen.kinds.schema.resource import Ref
from mizzen.server.auth.authentication import CallerIdentity
from mizzen.server.monitor.sessions import COOKIE, MAX_PER_ACTOR, SECONDS, TICKET_SECONDS, MonitorSessions

IRIS = Ref("Model", "iris")
TOOL = "/model/iris/monitor/tool/data/runs"


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def asked(path: str, cookie: str, method: str = "GET", query: str = "", **headers: str) -> Scope:
    sent = {"cookie": f"a=b; {COOKIE}={cookie}; c=d"} | {name.replace("_", "-"): text for name, text in headers.items()}
    raw = [(name.encode(), text.encode()) for name, text in sent.items()]
    return {"type": "http", "path": path, "method": method, "headers": raw, "query_string": query.encode()}


def known(name: str = "ann", *, holds: bool = True) -> CallerIdentity:
    return CallerIdentity(Actor(name), lambda: holds)


@pytest.mark.parametrize(
    "path", [TOOL, *(f"/model/iris/monitor/{name}" for name in ("tool", "page", "scalars", "logout"))]
)
def test_a_cookie_counts_below_its_monitor(path: str) -> None:
    visits, ann = MonitorSessions(Clock()), known()
    assert visits.identify(asked(path, visits.begin(IRIS, ann))) is ann


@pytest.mark.parametrize(
    "path",
    [
        "/model", "/model/iris", "/model/iris/monitor", "/model/iris/monitor/ticket", "/model/iris/monitor/login",
        "/model/other/monitor/page", "/ns/team/model/iris/monitor/page", "/x/model/iris/monitor/page",
        "/model/iris/monitorx/page", "/model/iris/monitor/page/more", "/secret", "/model/iris/monitor/pages",
    ],
)  # fmt: skip
def test_a_cookie_counts_nowhere_else(path: str) -> None:
    visits = MonitorSessions(Clock())
    assert visits.identify(asked(path, visits.begin(IRIS, known()))) is None


def test_in_another_namespace_it_counts_for_the_path_that_names_it() -> None:
    visits, ann = MonitorSessions(Clock()), known()
    cookie = visits.begin(Ref("Model", "iris", "team"), ann)
    assert visits.identify(asked("/ns/team/model/iris/monitor/page", cookie)) is ann
    assert visits.identify(asked("/model/iris/monitor/page", cookie)) is None
    here = visits.begin(IRIS, ann)
    assert visits.identify(asked("/model/iris/monitor/scalars", here, query="namespace=team")) is None
    assert visits.identify(asked(TOOL, here, query="namespace=whatever-a-tool-means-by-it")) is ann


def test_it_ends_with_its_time_with_its_token_and_when_it_is_told_to() -> None:
    clock = Clock()
    visits = MonitorSessions(clock)
    cookie = visits.begin(IRIS, known())
    clock.pass_by(SECONDS - 1)
    assert visits.identify(asked(TOOL, cookie))
    clock.pass_by(1)
    assert visits.identify(asked(TOOL, cookie)) is None
    assert visits.identify(asked(TOOL, visits.begin(IRIS, known(holds=False)))) is None
    cookie = visits.begin(IRIS, known())
    visits.end(asked("/model/iris/monitor/logout", cookie, "POST"))
    assert visits.identify(asked(TOOL, cookie)) is None


@pytest.mark.parametrize(
    ("method", "headers", "taken"),
    [
        ("GET", {}, True),
        ("GET", {"sec_fetch_site": "none"}, True),
        ("GET", {"sec_fetch_site": "same-origin"}, True),
        ("GET", {"sec_fetch_site": "same-site"}, False),  # another port of this machine
        ("GET", {"sec_fetch_site": "cross-site"}, False),
        ("POST", {}, False),
        ("POST", {"origin": "http://here"}, True),  # a foreign one never comes so far
        ("POST", {"sec_fetch_site": "same-origin"}, True),
        ("POST", {"sec_fetch_site": "same-site", "origin": "http://here"}, False),
        ("POST", {"sec_fetch_site": "none"}, False),
    ],
)
def test_only_our_own_pages_and_people_are_taken_at_their_cookie(
    method: str, headers: dict[str, str], *, taken: bool
) -> None:
    visits = MonitorSessions(Clock())
    found = visits.identify(asked(TOOL, visits.begin(IRIS, known()), method, **headers))
    assert (found is not None) is taken


def test_of_several_cookies_the_one_that_is_known_counts() -> None:
    visits, ann = MonitorSessions(Clock()), known()
    assert visits.identify(asked(TOOL, f"foreign; {COOKIE}={visits.begin(IRIS, ann)}")) is ann
    assert visits.identify(asked(TOOL, "made-up")) is None


def test_a_ticket_is_good_once_here_and_soon() -> None:
    clock = Clock()
    visits, ann = MonitorSessions(clock), known()
    ticket = visits.new_ticket(IRIS, ann)
    assert visits.redeem(ticket, IRIS) is ann
    assert visits.redeem(ticket, IRIS) is None
    elsewhere = visits.new_ticket(IRIS, ann)
    assert visits.redeem(elsewhere, Ref("Model", "other")) is None
    assert visits.redeem(elsewhere, IRIS) is None
    late = visits.new_ticket(IRIS, ann)
    clock.pass_by(TICKET_SECONDS)
    assert visits.redeem(late, IRIS) is None
    assert visits.redeem(visits.new_ticket(IRIS, known(holds=False)), IRIS) is None
    assert visits.identify(asked(TOOL, visits.new_ticket(IRIS, ann))) is None, "a ticket is no cookie"


def test_whoever_has_many_loses_their_oldest_and_nobody_elses() -> None:
    visits, bob = MonitorSessions(Clock()), known("bob")
    kept = visits.begin(IRIS, bob)
    cookies = [visits.begin(IRIS, known()) for _ in range(MAX_PER_ACTOR + 3)]
    good = [visits.identify(asked(TOOL, cookie)) is not None for cookie in cookies]
    assert good == [False] * 3 + [True] * MAX_PER_ACTOR
    assert visits.identify(asked(TOOL, kept)) is bob
