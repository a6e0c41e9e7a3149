"""Tables of objects: their columns, rows, and what stands beside each row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mizzen.kinds.catalog import BY_NAME, KINDS, Kind
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.resources import tables

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ALL = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def server(**status: Any) -> dict[str, Any]:
    meta = Meta(
        "iris-1", uid="u", resource_version="7", created=NOW - timedelta(minutes=3, seconds=20),
        annotations={"mizzen.dev/actor": "ada"},
    )  # fmt: skip
    return Resource("InferenceModel", meta, {"modelName": "iris", "deployToLayer": "edge"}, status).wire()


def shown(table: dict[str, Any], row: int = 0) -> dict[str, Any]:
    names = [definition["name"] for definition in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][row]["cells"], strict=True))


@ALL
def test_every_kind_has_its_columns_between_name_and_age(kind: Kind) -> None:
    table = tables.layout_of(kind).render_object(Resource(kind.name, Meta("a")).wire(), NOW)
    definitions = table["columnDefinitions"]
    narrow = [definition for definition in definitions if definition["priority"] == 0]
    assert [definition["name"].upper() for definition in narrow] == [
        "NAME", *(column.title for column in kind.columns if not column.wide), "AGE",
    ]  # fmt: skip
    assert [definition["name"].upper() for definition in definitions[len(narrow) :]] == [
        *(column.title for column in kind.columns if column.wide), "WRITTEN-BY",
    ]  # fmt: skip
    assert all(definition["description"] for definition in definitions)
    assert definitions[0]["format"] == "name"
    [row] = table["rows"]
    assert len(row["cells"]) == len(definitions)


def test_cells_are_what_the_fields_hold() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "Serving"}]
    item = server(servingVersion="1", readyReplicas=2, url="http://x", conditions=conditions)
    table = tables.layout_of(BY_NAME["InferenceModel"]).render_object(item, NOW)
    assert shown(table) == {
        "Name": "iris-1", "Model": "iris", "Version": "1", "Ready": "True", "Replicas": 2, "Url": "http://x",
        "Age": "3m20s", "Desired": None, "Layer": "edge", "Restarts": None, "Written-by": "ada",
    }  # fmt: skip
    types = {definition["name"]: definition["type"] for definition in table["columnDefinitions"]}
    assert (types["Replicas"], types["Url"], types["Age"]) == ("integer", "string", "date")


def test_what_is_not_there_is_an_empty_cell() -> None:
    table = tables.layout_of(BY_NAME["InferenceModel"]).render_object(server(), NOW)
    assert (shown(table)["Ready"], shown(table)["Replicas"]) == (None, None)


def test_a_condition_that_does_not_hold_gives_its_reason() -> None:
    item = server(conditions=[{"type": "Ready", "status": "False", "reason": "Starting"}])
    assert shown(tables.layout_of(BY_NAME["InferenceModel"]).render_object(item, NOW))["Ready"] == "Starting"
    item = server(conditions=[{"type": "Ready", "status": "Unknown"}])
    assert shown(tables.layout_of(BY_NAME["InferenceModel"]).render_object(item, NOW))["Ready"] == "Unknown"


def test_lists_of_words_are_one_cell() -> None:
    binding = Resource("RoleBinding", Meta("b"), {"subjects": ["ada", "bob"], "verbs": ["read"]}).wire()
    assert shown(tables.layout_of(BY_NAME["RoleBinding"]).render_object(binding, NOW))["Subjects"] == "ada,bob"


def test_a_list_is_a_table_that_goes_on_where_the_list_does() -> None:
    body = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [server(), server()]}
    table = tables.layout_of(BY_NAME["InferenceModel"]).render_list(body, NOW)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "9", "continue": "more"}
    assert len(table["rows"]) == 2


def test_one_object_is_a_table_of_its_own_version() -> None:
    assert tables.layout_of(BY_NAME["InferenceModel"]).render_object(server(), NOW)["metadata"] == {
        "resourceVersion": "7"
    }


def test_beside_a_row_stands_as_much_of_the_object_as_was_asked_for() -> None:
    def row(include: tables.Include) -> dict[str, Any]:
        [found] = tables.layout_of(BY_NAME["InferenceModel"], include).render_object(server(), NOW)["rows"]
        assert isinstance(found, dict)
        return found

    assert "object" not in row("None")
    assert row("Metadata")["object"] == {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": server()["metadata"],
    }  # fmt: skip
    assert row("Object")["object"] == server()


def test_only_the_first_table_of_a_watch_names_its_columns() -> None:
    layout = tables.layout_of(BY_NAME["InferenceModel"])
    table = layout.render_object(server(), NOW, head=False)
    assert table["columnDefinitions"] == []
    assert len(table["rows"][0]["cells"]) == len(layout.definitions)


def test_events_are_shown_as_kubernetes_shows_them() -> None:
    event = {
        "metadata": {"name": "iris.1"}, "type": "Warning", "reason": "Failed", "message": "no", "count": 3,
        "involvedObject": {"kind": "Model", "name": "iris"}, "source": {"component": "models"},
        "firstTimestamp": "2026-01-31T11:00:00Z", "lastTimestamp": "2026-01-31T11:59:55Z",
    }  # fmt: skip
    table = tables.TableLayout(tables.CORE["Event"]).render_object(event, NOW)
    assert list(shown(table).items()) == [
        ("Last Seen", "5s"), ("Type", "Warning"), ("Reason", "Failed"), ("Object", "model/iris"),
        ("Source", "models"), ("Message", "no"), ("First Seen", "60m"), ("Count", 3), ("Name", "iris.1"),
    ]  # fmt: skip
    narrow = [definition["name"] for definition in table["columnDefinitions"] if not definition["priority"]]
    assert narrow == ["Last Seen", "Type", "Reason", "Object", "Message"]


def test_an_event_that_was_seen_once_was_seen_last_then() -> None:
    event = {"metadata": {"name": "e"}, "firstTimestamp": "2026-01-31T11:59:50Z", "lastTimestamp": None}
    assert shown(tables.TableLayout(tables.CORE["Event"]).render_object(event, NOW))["Last Seen"] == "10s"


def test_a_namespace_shows_its_phase() -> None:
    namespace = {"metadata": {"name": "default"}, "status": {"phase": "Active"}}
    table = tables.TableLayout(tables.CORE["Namespace"]).render_object(namespace, NOW)
    assert shown(table) == {"Name": "default", "Status": "Active", "Age": "<unknown>"}
