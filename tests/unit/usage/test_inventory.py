from __future__ import annotations

from typing import Any

from mizzen.graph import table_types
from mizzen.graph.table_types import Plan, Route, Table
from mizzen.kinds.schema.resource import Meta, OwnerReference, Resource
from mizzen.usage.inventory import InventoryCache, ServedVersion, build_inventory


def server(name: str = "iris-1", target: str = "1", **status: Any) -> Resource:
    return Resource(
        "InferenceModel", Meta(name, uid=f"uid-{name}"), {"modelName": "iris", "targetVersion": target}, status
    )


def workload(name: str, *states: str, of: str = "iris-1", replicas: int = 1) -> Resource:
    meta = Meta(name, uid=f"uid-{name}", owners=(OwnerReference("InferenceModel", of, f"uid-{of}"),))
    return Resource("Workload", meta, {"replicas": replicas}, {"replicas": [{"state": state} for state in states]})


def test_a_server_that_has_no_processes_yet_is_wanted() -> None:
    assert build_inventory(None, [server()], []).served == {
        ("default", "iris", "1"): ServedVersion(("iris-1",), wanted=1, ready=0)
    }


def test_two_versions_of_a_switch_are_told_apart() -> None:
    switching = server(target="2", targetVersion="2", servingVersion="1", servingWorkload="iris-1.1-0a1b2c3d")
    found = build_inventory(
        None, [switching],
        [workload("iris-1.1-0a1b2c3d", "ready", "ready", replicas=2), workload("iris-1.2", "starting", replicas=2)],
    )  # fmt: skip
    assert found.served == {
        ("default", "iris", "1"): ServedVersion(("iris-1",), wanted=2, ready=2),
        ("default", "iris", "2"): ServedVersion(("iris-1",), wanted=2, ready=0),
    }
    assert found.workloads["uid-iris-1.2"].key == ("default", "iris", "2")


def test_several_servers_of_a_version_are_added() -> None:
    found = build_inventory(
        None, [server(), server("other")], [workload("iris-1.1", "ready"), workload("other.1", "failed", of="other")]
    )
    assert found.served == {("default", "iris", "1"): ServedVersion(("iris-1", "other"), wanted=2, ready=1)}


def test_processes_and_names_are_found() -> None:
    table = Table(routes=(Route(namespace="default", name="flower", version="1", model="iris", plan=Plan(servers=())),))
    found = build_inventory(table, [server()], [workload("iris-1.1", "ready")])
    told = found.find_workload("uid-iris-1.1.0")
    assert told is not None
    assert (told[0].server, told[1]) == ("iris-1", 0)
    assert found.find_workload("plane") is found.find_workload("uid-x.0") is None
    assert {found.resolve_model("default", name) for name in ("iris", "iris-1", "flower")} == {"iris"}
    assert found.resolve_model("default", "rose") == "rose"


def test_it_is_made_anew_when_something_changed() -> None:
    told: list[Any] = ["1", None, [server()], []]
    kept = InventoryCache(lambda: (told[0], told[1], told[2], told[3]))
    first = kept()
    assert kept() is first
    told[:3] = ["2", None, []]
    assert kept().served == {}


def test_what_feedback_is_kept_for_is_known_by_uid_and_node() -> None:
    nodes = (
        table_types.Node(name="a", children=(1, 2)),
        table_types.Node(name="b", dependencies=(0,), call=table_types.Callee(name="iris-1")),
        table_types.Node(name="c", dependencies=(0,), call=table_types.Callee(service="default/g/c")),
    )
    graph = table_types.CompiledGraph(uid="u", generation=1, nodes=nodes)
    kept = {uid: table_types.RecordLimits(uid=uid, max_bytes=1, max_seconds=1.0) for uid in ("u", "v")}
    plans = {
        "g": table_types.Plan(graph=graph, kept=kept["u"]), "h": table_types.Plan(graph=graph),
        "iris-1": table_types.Plan(kept=kept["v"]),
    }  # fmt: skip
    routes = tuple(
        table_types.Route(
            namespace="default", name=name, version="1", plan=each, model="iris" if name == "iris-1" else "",
        )
        for name, each in plans.items()
    )  # fmt: skip
    found = build_inventory(table_types.Table(routes=routes), (), ())
    assert found.feedback_targets == {("u", "b"): ("default", "iris"), ("v", ""): ("default", "iris")}
