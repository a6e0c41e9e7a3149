"""What reads of a SQLite store cost: counted in steps of its virtual machine, which no busy computer can blur."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.kinds.schema.resource import Meta, OwnerReference, Ref, Resource, format_time
from mizzen.kinds.text.selectors import parse
from mizzen.stores.pages import FamilyPlace, ListCursor
from mizzen.stores.records import sqlite_audit
from mizzen.stores.records.protocol import AuditQuery
from mizzen.stores.sqlite import query as sqlite_query
from mizzen.stores.sqlite import read_ops, revisions, schema
from mizzen.stores.sqlite.write_ops import WriteOperations
from mizzen.stores.store import Where

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SMALL, LARGE = 50, 1500
VERSIONS = 3


def fill(path: Path, models: int) -> None:
    """Models with some versions each: every label but `all` and `env` is of few."""
    connection = schema.open_writer(path)
    ids = (str(i) for i in itertools.count())
    ledger = WriteOperations(connection, clock=lambda: NOW, new_id=lambda: next(ids))
    connection.execute("BEGIN")
    for i in range(models):
        labels = {"all": "yes", "few": str(i // 5), "env": "prod" if i > 20 else f"dev-{i % 4}"}
        if i < 10:
            labels["rare"] = str(i)
        made = ledger.create(Resource("Model", Meta(f"m{i:05}", labels=labels), {}), "ann", None).resource
        assert made is not None
        owner = OwnerReference("Model", made.meta.name, made.meta.uid)
        for number in range(VERSIONS):
            name = f"{made.meta.name}.{number}"
            meta = Meta(name, namespace="default", labels=labels, owners=(owner,))
            ledger.create(Resource("ModelVersion", meta, {"modelName": made.meta.name}), "ann", None)
    entries = []
    for i in range(models * 10):
        actor = "ann" if i % 10 == 0 and i < 500 else "bob"
        entries.append((format_time(NOW + timedelta(seconds=i)), actor, f"m{i // 10:05}", i >= 100 or i % 5 > 0))
    connection.executemany(
        "INSERT INTO audit (time, actor, verb, kind, namespace, name, allowed, reason, method, path, code, source,"
        " count) VALUES (?, ?, 'write', 'Model', 'default', ?, ?, '', '', '', 0, '', 1)",
        entries,
    )
    connection.execute("COMMIT")
    connection.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("cost")
    small, large = folder / "small.db", folder / "large.db"
    fill(small, SMALL)
    fill(large, LARGE)
    return small, large


Read = Callable[[sqlite3.Connection], object]


def steps(path: Path, read: Read) -> int:
    connection = schema.open_reader(path)
    count = itertools.count()
    connection.set_progress_handler(lambda: next(count) < 0, 1)  # False goes on
    try:
        read(connection)
    finally:
        connection.close()
    return next(count)


def listed(kind: str, where: Where, limit: int | None = 25, *, second: bool = False) -> Read:
    def read(connection: sqlite3.Connection) -> object:
        page = read_ops.listing(connection, kind, where, limit, None)
        return read_ops.listing(connection, kind, where, limit, page.next) if second and page.next else page

    return read


def labelled(selector: str, **more: str) -> Where:
    return Where(labels=parse(selector), fields=more)


def of(model: str) -> Where:
    return Where(fields={"spec.modelName": model})


READS: dict[str, Read] = {
    "get": lambda connection: read_ops.get(connection, Ref("Model", "m00007")),
    "page": listed("Model", Where()),
    "second page": listed("Model", Where(), second=True),
    "page of a namespace": listed("Model", Where(namespace="default"), second=True),
    "by name": listed("Model", Where(fields={"metadata.name": "m00003"})),
    "by name and namespace": listed("Model", Where(namespace="default", fields={"metadata.name": "m00003"})),
    "versions by field": listed("ModelVersion", of("m00007"), None),
    "versions by field, here": listed("ModelVersion", replace(of("m00007"), namespace="default"), 2, second=True),
    "by owner": listed("ModelVersion", Where(owner="5"), None),
    "by label": listed("Model", labelled("few=3"), None),
    "by one of several": listed("Model", labelled("env in (dev-1, dev-2)"), None),
    "by many values": listed("Model", labelled(f"rare in ({', '.join(map(str, range(40)))})"), None),
    "by a key": listed("Model", labelled("rare"), 3, second=True),
    "by a label that all have": listed("Model", labelled("all=yes"), second=True),
    "by a narrow label of two": listed("Model", labelled("all=yes, few=3"), None),
    "by a narrow label of two, turned": listed("Model", labelled("few=3, all=yes"), None),
    "by label and not": listed("Model", labelled("few=3, env!=prod, !none"), None),
    "by label and field": listed("ModelVersion", replace(of("m00007"), labels=parse("all=yes")), None),
    "newest of a model": lambda connection: read_ops.SqlitePresent(connection).newest(
        "ModelVersion", Ref("Model", "m00007"), 2
    ),
    "number of a model's": lambda connection: read_ops.SqlitePresent(connection).count(
        "ModelVersion", Ref("Model", "m00007")
    ),
    "history": lambda connection: revisions.history(connection, Ref("Model", "m00007")),
    "family": lambda connection: revisions.family_history(connection, Ref("Model", "m00007"), None, None),
    "family page": lambda connection: revisions.family_history(connection, Ref("Model", "m00007"), 3, None),
    "revision": lambda connection: read_ops.get(connection, Ref("Revision", "modelversion.m00007.1.1")),
    "revisions": listed("Revision", Where(), second=True),
    "revisions here": listed("Revision", Where(namespace="default"), second=True),
    "revisions of a kind": listed("Revision", Where(fields={"spec.kind": "Model"}), second=True),
    "revisions of a name": listed("Revision", Where(fields={"spec.name": "m00007"})),
    "revisions of an object": listed(
        "Revision", Where(namespace="default", fields={"spec.kind": "Model", "spec.name": "m00007"})
    ),
    "revisions of a model": listed("Revision", Where(fields={"spec.model": "m00007"}), 2, second=True),
    "watch": lambda connection: read_ops.events(connection, "Model", 100, 20),
    "watch of revisions": lambda connection: read_ops.events(connection, "Revision", 100, 20),
    "audit": lambda connection: sqlite_audit.select(connection, AuditQuery(), 20, 400),
    "audit of somebody": lambda connection: sqlite_audit.select(connection, AuditQuery(actor="ann"), 20, None),
    "audit of an object": lambda connection: sqlite_audit.select(
        connection, AuditQuery(namespace="default", kind="Model", name="m00007"), 20, None
    ),
    "refusals": lambda connection: sqlite_audit.select(connection, AuditQuery(allowed=False), 10, None),
}


@pytest.mark.parametrize("what", READS)
def test_a_read_costs_what_it_returns(files: tuple[Path, Path], what: str) -> None:
    small, large = (steps(path, READS[what]) for path in files)
    assert large <= 2 * small, f"{small} steps among {SMALL} models, {large} among {LARGE}"


def test_the_newest_cost_the_same_among_many_of_one_model(tmp_path: Path) -> None:
    model = Ref("Model", "iris")
    costs = []
    for versions in (20, 600):
        path = tmp_path / f"{versions}.db"
        connection = schema.open_writer(path)
        ledger = WriteOperations(connection, clock=lambda: NOW, new_id=lambda: "1")
        connection.execute("BEGIN")
        for number in range(versions):
            ledger.create(Resource("ModelVersion", Meta(f"iris.{number}"), {"modelName": "iris"}), "ann", None)
        connection.execute("COMMIT")
        connection.close()
        costs.append(
            steps(path, lambda connection: read_ops.SqlitePresent(connection).newest("ModelVersion", model, 10))
        )
    assert costs[1] <= 2 * costs[0]


def test_steps_can_tell(files: tuple[Path, Path]) -> None:
    """What does look at everything is seen to."""
    small, large = (steps(path, listed("Model", labelled("!all"))) for path in files)
    assert large > 20 * small


class Explained(sqlite3.Connection):
    """Notes the plan of every statement."""

    plans: list[str]

    def execute(self, sql: str, values: object = (), /) -> sqlite3.Cursor:
        plan = super().execute(f"EXPLAIN QUERY PLAN {sql}", values)  # type: ignore[arg-type]
        self.plans.extend(row[3] for row in plan.fetchall())
        return super().execute(sql, values)  # type: ignore[arg-type]


NARROW = {
    "label": labelled("a=b"),
    "labels": labelled("a=b, c=d, e in (f, g), h, !i, j!=k"),
    "values": labelled("a in (b, c)"),
    "many values": labelled(f"a in ({', '.join(map(str, range(40)))})"),
    "key": labelled("a"),
    "name": Where(fields={"metadata.name": "a"}),
    "field": of("iris"),
    "owner": Where(owner="u"),
    "everything": replace(labelled("a=b, c"), owner="u", fields={"spec.modelName": "iris", "metadata.name": "a"}),
    "all": Where(),
}


@pytest.mark.parametrize("name", NARROW)
def test_nothing_is_scanned_or_sorted(tmp_path: Path, name: str) -> None:
    """Each selection walks an index in its own order, in one namespace and in all, on the first page and the next."""
    schema.open_writer(tmp_path / "mizzen.db").close()
    connection = sqlite3.connect(tmp_path / "mizzen.db", factory=Explained)
    connection.plans = []
    for namespace in (None, "n"):
        for start in (None, ListCursor(1, "ModelVersion", "default", "a", "")):
            where = replace(NARROW[name], namespace=namespace)
            assert [*sqlite_query.select(connection, "ModelVersion", where, start)] == []
    assert connection.plans
    for plan in connection.plans:
        assert not plan.startswith(("SCAN k", "SCAN o", "SCAN x", "USE TEMP")), connection.plans
        if name not in ("all", "name", "everything"):
            # Objects are looked up, one by one, where an index has led to.
            assert not plan.startswith("SEARCH k USING INDEX sqlite_autoindex_objects"), connection.plans
    connection.close()


@pytest.mark.parametrize("fields", [{}, *({f"spec.{one}": "x"} for one in ("kind", "name", "model"))])
def test_revisions_are_not_scanned_or_sorted(tmp_path: Path, fields: dict[str, str]) -> None:
    schema.open_writer(tmp_path / "mizzen.db").close()
    connection = sqlite3.connect(tmp_path / "mizzen.db", factory=Explained)
    connection.plans = []
    for namespace in (None, "n"):
        for start in (None, ListCursor(1, "Revision", "default", "model.a.1", "")):
            assert [*revisions.select(connection, Where(namespace=namespace, fields=fields), start)] == []
    for plan in connection.plans:
        assert not plan.startswith("USE TEMP"), connection.plans
        # Of all revisions of all namespaces, the first page is the beginning of the index that has them in order.
        assert plan.startswith("SEARCH") or plan == "SCAN revisions USING INDEX revisions_in_order", connection.plans
    connection.close()


def test_families_are_not_scanned_or_sorted(tmp_path: Path) -> None:
    schema.open_writer(tmp_path / "mizzen.db").close()
    connection = sqlite3.connect(tmp_path / "mizzen.db", factory=Explained)
    connection.plans = []
    revisions.family_history(connection, Ref("Model", "iris"), 10, FamilyPlace(1, "default", "iris").token())
    revisions.last_change(connection, Ref("Model", "iris"))
    wanted = "SEARCH revisions USING INDEX revisions_of_family (namespace=? AND model=?"
    assert connection.plans == [f"{wanted} AND rv>?)", f"{wanted})"]
    connection.close()


def test_the_audit_is_not_scanned_or_sorted(tmp_path: Path) -> None:
    schema.open_writer(tmp_path / "mizzen.db").close()
    connection = sqlite3.connect(tmp_path / "mizzen.db", factory=Explained)
    connection.plans = []
    for query in (
        AuditQuery(), AuditQuery(actor="a"), AuditQuery(namespace="n", kind="k", name="x"), AuditQuery(allowed=False),
        AuditQuery(since=NOW, until=NOW + timedelta(days=1)), AuditQuery(actor="a", since=NOW, kind="k"),
    ):  # fmt: skip
        sqlite_audit.select(connection, query, 10, None)
    for plan in connection.plans:
        assert plan.startswith(("SEARCH audit USING INDEX", "SCAN audit USING INDEX audit_")), connection.plans
    connection.close()
