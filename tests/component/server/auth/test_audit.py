"""The audit: what changes something or is refused is on record before its answer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from mizzen.access.policy import NEEDS_TOKEN
from mizzen.access.refusal_lines import LONGEST
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.auth.audit import BURST, MAX_ANONYMOUS_BURSTS, AuditRecorder
from mizzen.server.deletion.audit_retention import keep_pruning
from mizzen.stores.records.protocol import AuditEntry, AuditLog, AuditQuery
from tests.support.server.harness import HERE, TOKEN, Harness, serving

pytestmark = pytest.mark.own_plane


class Breakable:
    """An audit whose disk is full when a test says so."""

    def __init__(self, log: AuditLog) -> None:
        self.log = log
        self.full = False

    async def record(self, entry: AuditEntry) -> None:
        await self.record_all((entry,))

    async def record_all(self, entries: Iterable[AuditEntry]) -> None:
        if self.full:
            raise Unavailable("the store cannot write: disk full")
        await self.log.record_all(entries)

    async def entries(self, query: AuditQuery, *, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        return await self.log.entries(query, limit=limit, before=before)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path, anonymous=False) as harness:
        yield harness


def test_every_change_is_on_record_and_reading_is_not(plane: Harness) -> None:
    admin = plane.client()
    assert admin.put("/secret/db?namespace=lab", json={"data": {"key": "value"}}).status_code == 201
    (entry,) = plane.audited()
    assert (entry.actor, entry.verb, entry.kind, entry.namespace, entry.name) == (
        "admin",
        "write",
        "Secret",
        "lab",
        "db",
    )
    assert (entry.allowed, entry.reason, entry.code) == (True, "admin is an admin", 201)
    assert (entry.method, entry.path, entry.source, entry.count) == ("PUT", "/secret/db", "127.0.0.1", 1)
    for path in ("/version", "/whoami", f"{HERE}/models", "/healthz", "/secret", "/user", "/audit"):
        assert admin.get(path).status_code == 200
    assert plane.audited() == (entry,)
    assert plane.client(token=None).get("/secret").status_code == 401
    refused = plane.audited()[0]
    assert (refused.verb, refused.kind, refused.allowed) == ("read", "Secret", False)


def test_a_change_that_fails_is_on_record_with_its_code(plane: Harness) -> None:
    admin = plane.client()
    assert admin.delete("/user/nobody").status_code == 404
    assert admin.post("/user", json={"name": "Not A Name"}).status_code == 422
    assert [(entry.kind, entry.name, entry.code) for entry in plane.audited()] == [
        ("User", "", 422),
        ("User", "nobody", 404),
    ]


def test_one_request_is_one_entry_about_what_it_names(plane: Harness) -> None:
    assert plane.client().post("/user", json={"name": "ann"}).status_code == 201
    (entry,) = plane.audited()
    assert (entry.verb, entry.kind, entry.name, entry.code) == ("admin", "User", "ann", 201)


def test_a_change_of_what_belongs_to_a_model_is_one_entry(plane: Harness) -> None:
    """Rights are asked for as more is known: of a name, of the object, of what it becomes."""
    spec = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "image": "example.com/iris:1"}
    plane.run(plane.store.create(Resource("InferenceModel", Meta("one"), spec), "ann"))
    ann = plane.client(plane.user("ann"))
    plane.permit("ann-writes", "write", subjects=["ann"])
    headers = {"content-type": "application/merge-patch+json"}
    for part in ("", "/scale"):
        path = f"{HERE}/inferencemodels/one{part}"
        answer = ann.patch(path, json={"spec": {"replicas": 0}}, headers=headers)
        assert answer.status_code == 200, answer.text
    assert [(one.verb, one.name, one.path[-5:], one.reason) for one in plane.audited(actor="ann")] == [
        ("write", "one", end, "RoleBinding default/ann-writes lets ann write") for end in ("scale", "s/one")
    ]


def test_every_kind_of_refusal_is_on_record(closed: Harness) -> None:
    admin, ann, wrong = closed.client(), closed.client(closed.user("ann")), closed.client("mzn_wrong")
    before = len(closed.audited())
    answers = [
        closed.client(token=None).get(f"{HERE}/models"),
        ann.get(f"{HERE}/models/iris"),
        ann.put("/secret/x", json={}),
        wrong.get("/version"),
        admin.get("/version", headers={"host": "evil.example"}),
        ann.get("/version", headers={"origin": "http://evil.example"}),
        admin.post(f"{HERE}/workloads", json={}),
    ]
    entries = closed.audited()[: len(answers)][::-1]
    assert len(closed.audited()) == before + len(answers)
    assert [entry.code for entry in entries] == [answer.status_code for answer in answers]
    assert [entry.allowed for entry in entries] == [False] * len(answers)
    assert [(entry.actor, entry.verb, entry.code) for entry in entries] == [
        ("anonymous", "read", 401),
        ("ann", "read", 403),
        ("ann", "write", 403),
        ("anonymous", "authenticate", 401),
        ("anonymous", "authenticate", 403),
        ("anonymous", "authenticate", 403),
        ("admin", "write", 403),
    ]
    parts = (
        "needs a token",
        "no RoleBinding",
        "mizzen permit ann write",
        "not known",
        "Host",
        "pages from",
        "internal",
    )
    for entry, part in zip(entries, parts, strict=True):
        assert part in entry.reason


def test_nothing_that_was_sent_is_on_record(closed: Harness) -> None:
    ann = closed.client(closed.user("ann"), cookie="cookie-value")
    ann.put("/secret/db?namespace=default&token=query-value", json={"data": {"key": "body-value"}})
    closed.client("mzn_token-value").get("/model")
    text = closed.client().get("/audit").text
    for value in ("cookie-value", "query-value", "body-value", "token-value", TOKEN):
        assert value not in text


def test_long_names_and_paths_are_cut(closed: Harness) -> None:
    ann = closed.client(closed.user("ann"))
    assert ann.get(f"{HERE}/models/{'x' * 5000}").status_code == 403
    entry = closed.audited()[0]
    assert (len(entry.name), len(entry.path)) == (LONGEST, LONGEST)
    assert len(entry.reason) <= 512


def test_what_cannot_be_recorded_is_not_answered(tmp_path: Path) -> None:
    broken: list[Breakable] = []

    def wrap(log: AuditLog) -> AuditLog:
        broken.append(Breakable(log))
        return broken[0]

    with serving(tmp_path, audit=wrap) as plane:
        admin, stranger = plane.client(), plane.client(token=None)
        broken[0].full = True
        for answer in (
            admin.put("/secret/db", json={"data": {"key": "value"}}),
            stranger.get("/audit"),
            stranger.put("/secret/db", json={}),
            plane.client("mzn_wrong").get("/model"),
            admin.get("/version", headers={"host": "evil.example"}),
        ):
            assert answer.status_code == 503, answer.text
            assert "audit cannot be written" in answer.json()["message"]
            assert answer.headers["retry-after"]
        assert stranger.get("/version").status_code == 200  # nothing to record
        assert admin.get("/healthz").status_code == 200
        broken[0].full = False
        assert admin.get("/audit").status_code == 200


def test_the_audit_can_be_searched(plane: Harness) -> None:
    admin, ann = plane.client(), plane.client(plane.user("ann"))
    admin.put("/secret/a", json={"data": {"key": "value"}})
    admin.put("/secret/b?namespace=lab", json={"data": {"key": "value"}})
    ann.put("/secret/a", json={})
    ann.delete("/user/admin")

    def found(**query: str) -> list[tuple[str, str, str]]:
        answer = admin.get("/audit", params=query)
        assert answer.status_code == 200, answer.text
        mine = [item for item in answer.json()["items"] if item["kind"] == "Secret"]
        return [(item["actor"], item["namespace"], item["name"]) for item in mine]

    first, second, third = ("admin", "default", "a"), ("admin", "lab", "b"), ("ann", "default", "a")
    assert found() == [third, second, first]
    assert found(actor="ann") == [third]
    assert found(namespace="lab") == [second]
    assert found(kind="Secret", name="a") == [third, first]
    assert found(allowed="false") == [third]
    assert found(allowed="true") == [second, first]
    times = {(entry.actor, entry.namespace): entry.time for entry in plane.audited(kind="Secret")}
    assert found(since=times["ann", "default"].isoformat()) == [third]
    assert found(since=times["ann", "default"].isoformat().replace("+", " ")) == [third], "as a query changes it"
    assert found(until=times["admin", "lab"].isoformat().replace("+00:00", "Z")) == [first]
    assert found(since=(datetime.now(UTC) + timedelta(hours=1)).isoformat()) == []


def test_pages_of_the_audit_miss_nothing(plane: Harness) -> None:
    admin = plane.client()
    for number in range(7):
        admin.put(f"/secret/s-{number}", json={"data": {"key": "value"}})
    names: list[str] = []
    query = {"kind": "Secret", "limit": "3"}
    while True:
        page = admin.get("/audit", params=query).json()
        names += [item["name"] for item in page["items"]]
        admin.delete("/secret/s-0")  # what is added meanwhile comes on no later page
        if not page["metadata"]["continue"]:
            break
        query["continue"] = page["metadata"]["continue"]
    assert names == [f"s-{number}" for number in reversed(range(7))]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "since=yesterday", "allowed=maybe", "continue=x", "actr=ann", "continue=999999"]
)
def test_bad_queries_are_refused(shared_admin: httpx2.Client, query: str) -> None:
    assert shared_admin.get(f"/audit?{query}").status_code == 400


def test_what_can_be_no_namespace_has_no_audit(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get("/audit?namespace=Other").status_code == 422


def test_who_asks_for_more_than_a_page_gets_a_page(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get(f"/audit?limit={2**63 - 1}").status_code == 200
    assert shared_admin.get(f"/audit?limit={10**19}").status_code == 400


def test_only_admins_read_the_audit_and_of_a_namespace_its_own(plane: Harness) -> None:
    ann = plane.client(plane.user("ann"))
    plane.permit("chief", "admin", subjects=["ann"], namespace="lab")
    plane.permit("writer", "write", subjects=["ann"])
    plane.client().put("/secret/theirs", json={"data": {"key": "value"}})
    plane.client().put("/secret/ours?namespace=lab", json={"data": {"key": "value"}})
    assert plane.client(token=None).get("/audit").status_code == 401
    assert ann.get("/audit").status_code == 403
    assert ann.get("/audit?namespace=default").status_code == 403
    listed = ann.get("/audit?namespace=lab").json()["items"]
    assert {item["namespace"] for item in listed} == {"lab"}
    assert "ours" in {item["name"] for item in listed}


def test_a_flood_of_equal_refusals_becomes_few_entries_and_none_is_lost(closed: Harness) -> None:
    """However many there are, each is in the log when its answer leaves: by itself, or in a count."""
    wrong = {"authorization": "Bearer mzn_wrong"}
    entries = after_a_flood(closed, [f"/version?{number}" for number in range(200)], wrong)
    assert len(entries) <= 3 * (BURST + 1)


def test_a_flood_of_strangers_becomes_few_entries_whatever_they_name(closed: Harness) -> None:
    """Each is in the log when its answer leaves. The first keeps what it named."""
    amount = 400
    entries = after_a_flood(closed, [f"/model/m{number}?namespace=n{number}" for number in range(amount)])
    assert len(entries) < amount / 8
    assert entries[-1].name.startswith("m")
    assert entries[-1].path.startswith("/model/m")
    merged = [entry for entry in entries if entry.count > 1]
    assert {(one.name, one.namespace, one.path, one.reason) for one in merged} == {("", "", "", NEEDS_TOKEN)}
    assert {(one.actor, one.verb, one.kind, one.code, one.source) for one in merged} == {
        ("anonymous", "read", "Model", 401, "127.0.0.1")
    }


def after_a_flood(
    closed: Harness, paths: Sequence[str], headers: Mapping[str, str] | None = None
) -> tuple[AuditEntry, ...]:
    """What the audit says once all of these were refused at the same time; each was in it when its answer left."""

    async def flood() -> None:
        left = 0
        async with httpx2.AsyncClient(base_url=closed.url, trust_env=False, verify=False, timeout=60) as client:

            async def ask(path: str) -> None:
                nonlocal left
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401
                left += 1
                entries = await closed.store.audit.entries(AuditQuery(allowed=False), limit=1000)
                assert sum(entry.count for entry in entries) >= left

            await asyncio.gather(*(ask(path) for path in paths))

    closed.run(flood())
    entries = closed.audited(allowed=False)
    assert sum(entry.count for entry in entries) == len(paths)
    return entries


def test_strangers_of_many_addresses_take_no_memory_and_few_entries(closed: Harness) -> None:
    async def flood() -> int:
        book = AuditRecorder(closed.store.audit)
        now = datetime.now(UTC)
        entry = AuditEntry(now, "anonymous", "read", "Model", "", "", False, NEEDS_TOKEN, code=401)
        await asyncio.gather(*(book.record(replace(entry, source=f"2001:db8::{number}")) for number in range(3000)))
        return len(book._anonymous_bursts)

    assert closed.run(flood()) <= MAX_ANONYMOUS_BURSTS + 1
    entries = closed.audited()
    assert sum(entry.count for entry in entries) == 3000
    assert len(entries) < 1000


@pytest.mark.parametrize(
    "headers",
    [
        lambda number: {"host": f"evil-{number}.example"},
        lambda number: {"origin": f"http://evil-{number}.example"},
        lambda number: {"authorization": f"Bearer mzn_{number}"},
        lambda number: {"authorization": f"Bearer eyJ{number}.x.y"},
    ],
)
def test_bad_credentials_are_counted_whatever_they_say(
    closed: Harness, headers: Callable[[int], dict[str, str]]
) -> None:
    async def flood() -> None:
        async with httpx2.AsyncClient(base_url=closed.url, trust_env=False, verify=False, timeout=60) as client:
            answers = await asyncio.gather(*(client.get("/version", headers=headers(number)) for number in range(200)))
        assert {answer.status_code for answer in answers} <= {401, 403}

    closed.run(flood())
    entries = closed.audited(allowed=False)
    assert sum(entry.count for entry in entries) == 200
    assert len(entries) < MAX_ANONYMOUS_BURSTS


def test_the_audit_is_pruned_while_the_plane_runs(plane: Harness) -> None:
    old = AuditEntry(datetime.now(UTC) - timedelta(days=3), "ann", "write", "Model", "", "old", True, "because")
    refused = AuditEntry(datetime.now(UTC), "ann", "write", "Model", "", "refused", False, "because")
    new = replace(old, time=datetime.now(UTC), name="new")

    async def pruned() -> None:
        audit = plane.store.audit
        await audit.record_all([old, refused, refused, refused, new])
        task = asyncio.create_task(keep_pruning(audit, lambda: datetime.now(UTC), days=1, refusals=2, every=0.01))
        while len(await audit.entries(AuditQuery(), limit=10)) > 3:
            pass
        task.cancel()

    plane.run(pruned())
    assert [(entry.name, entry.number) for entry in plane.audited()] == [("new", 5), ("refused", 4), ("refused", 3)]


def test_a_flood_of_different_refusals_takes_no_memory(closed: Harness) -> None:
    async def flood() -> int:
        book = AuditRecorder(closed.store.audit)
        now = datetime.now(UTC)
        await asyncio.gather(
            *(
                book.record(AuditEntry(now, "ann", "read", "Plane", "", "", False, f"reason {number}"))
                for number in range(3000)
            )
        )
        return len(book._bursts)

    assert closed.run(flood()) == 1024
    assert len(closed.audited()) == 3000


def test_who_leaves_early_takes_nobody_along(closed: Harness) -> None:
    entry = AuditEntry(datetime.now(UTC), "ann", "read", "Plane", "", "", False, "wrong")

    async def flood() -> None:
        book = AuditRecorder(closed.store.audit)
        tasks = [asyncio.create_task(book.record(entry)) for _ in range(BURST + 3)]
        while len(await closed.store.audit.entries(AuditQuery(), limit=100)) < BURST:
            pass
        tasks[-3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not tasks[-1].cancelled()

    closed.run(flood())
    assert sum(one.count for one in closed.audited()) == BURST + 3
