"""The first three MLGraphs of the seeds, as printed but for their apiVersion, mean what they say whoever sends them.

`split:` and `ensemble:` with nothing after them are nulls. kubectl keeps them when it creates, replaces or applies on
the server, and leaves them out when it applies by itself; then only its annotation still has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.schema.resource import Meta, Resource
from tests.conformance.kubectl import API_VERSION, CHECKOUT, Kubectl
from tests.support import planes

SEEDS = CHECKOUT / "examples" / "seeds" / "mlgraph"
LAST = "kubectl.kubernetes.io/last-applied-configuration"
EMPTY = "spec.dag[0].route: empty, so every child receives the output; for an even split write 'split: {}'"
KEPT = "spec: empty fields are read as the last applied file has them, with nulls; to reset one, omit it"

MEANT = {
    "experiment": {
        "a": "one of b, c, d, each as often",
        "b": "kfb", "c": "kfc", "d": "kfd",
    },
    "egreedy": {
        "a": "the best of b, c, d, another one for 0.1 of all",
        "b": "kfb", "c": "kfc", "d": "kfd",
    },
    "ensemble": {
        "a": "kfa", "b": "kfb", "c": "kfc",
        "d": "the mean of a, b, c",
    },
}  # fmt: skip
ALL_CHILDREN = {**MEANT["experiment"], "a": "all of b, c, d"}


def _created(kubectl: Kubectl, _: planes.TestPlane, file: str) -> None:
    kubectl("create", "-f", file)


def _replaced(kubectl: Kubectl, _: planes.TestPlane, file: str) -> None:
    """What was there before is another graph of the same name."""
    other = {"dag": [{"name": "x", "implementation": {"kfservice": "other"}}]}
    kubectl("create", "-f", "-", sent=[_graph(name, other) for name in MEANT])
    kubectl("replace", "-f", file)


def _applied(kubectl: Kubectl, _: planes.TestPlane, file: str) -> None:
    kubectl("apply", "-f", file)


def _applied_on_the_server(kubectl: Kubectl, _: planes.TestPlane, file: str) -> None:
    kubectl("apply", "--server-side", "-f", file)


def _applied_by_mizzen(kubectl: Kubectl, plane: planes.TestPlane, file: str) -> None:
    plane.cli("apply", "-n", kubectl.namespace, "-f", file)


@pytest.mark.parametrize("send", [_created, _replaced, _applied, _applied_on_the_server, _applied_by_mizzen])
def test_a_seed_means_the_same_whoever_sends_it(
    release: Kubectl, plane: planes.TestPlane, send: Callable[[Kubectl, planes.TestPlane, str], None]
) -> None:
    kubectl = release.within(f"{send.__name__.strip('_').replace('_', '-')}-{release.release}")
    send(kubectl, plane, _seeds(kubectl, *MEANT))
    found = _all(kubectl)
    assert {name: _meaning(graph) for name, graph in found.items()} == MEANT
    assert [_accepted(graph) for graph in found.values()] == [("True", "Accepted", "")] * 3


@pytest.mark.parametrize("way", [(), ("--server-side",)])
def test_a_seed_that_is_applied_again_changes_nothing(kubectl: Kubectl, way: tuple[str, ...]) -> None:
    kubectl = kubectl.within(f"again-{len(way)}-{kubectl.release}")
    file = _seeds(kubectl, "experiment", "ensemble", "single-model")
    names = ("experiment", "ensemble", "test-deployment")
    first = kubectl("apply", *way, "-f", file)
    before = _all(kubectl)
    again = kubectl("apply", *way, "-f", file)
    told = "serverside-applied" if way else "unchanged"
    assert again.out.splitlines() == [f"mlgraph.mizzen.dev/{name} {told}" for name in names]
    assert kubectl("diff", *way, "-f", file).out == ""
    assert _all(kubectl) == before
    assert [graph["metadata"]["generation"] for graph in before.values()] == [1, 1, 1]
    alone = before["test-deployment"]
    assert alone["spec"]["dag"] == {"name": "classifier"}, "one object stays one object"
    assert _meaning(alone) == {"classifier": "its container"}
    for said in (*first.err.splitlines(), *again.err.splitlines()):
        assert "this engine runs no container images" in said


def test_who_applied_from_the_client_goes_on_from_the_server(kubectl: Kubectl) -> None:
    """And kubectl's note of what was applied last goes on with it, so that it is never about another file."""
    file = _seeds(kubectl, "experiment")
    kubectl("apply", "-f", file)
    kubectl("apply", "--server-side", "-f", file)
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]
    emptied = _changed(kubectl, file, "        split:\n", "        {}\n")
    assert EMPTY in kubectl("apply", "--server-side", "-f", emptied).err
    found = _quiet(kubectl, "experiment")
    assert _meaning(found) == ALL_CHILDREN
    assert "null" not in found["metadata"]["annotations"][LAST]
    assert kubectl("apply", "-f", emptied).out == "mlgraph.mizzen.dev/experiment unchanged\n"
    assert kubectl("apply", "-f", file).out == "mlgraph.mizzen.dev/experiment configured\n"
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]


def test_a_route_that_is_empty_is_all_children_and_warned_of(kubectl: Kubectl) -> None:
    emptied = _changed(kubectl, _seeds(kubectl, "experiment"), "        split:\n", "        {}\n")
    for way in (("create",), ("apply",), ("apply", "--server-side", "--force-conflicts")):
        assert f"Warning: {EMPTY}\n" in kubectl(*way, "-f", emptied).err
        found = _quiet(kubectl, "experiment")
        assert _meaning(found) == ALL_CHILDREN
        assert _accepted(found) == ("True", "AcceptedWithWarnings", EMPTY)


def test_what_was_changed_since_it_was_applied_stands(kubectl: Kubectl) -> None:
    file = _seeds(kubectl, "experiment")
    kubectl("apply", "-f", file)
    bandit = {**MEANT["experiment"], "a": "the best of b, c, d, another one for 0.5 of all"}
    for steps, meant in (
        ('[{"op": "replace", "path": "/spec/dag/0/route", "value": {"mab": {"egreedy": 0.5}}}]', bandit),
        ('[{"op": "add", "path": "/spec/dag/0/implementation", "value": {"kfservice": "kfa"}},'
         ' {"op": "remove", "path": "/spec/dag/0/route"}]', {**MEANT["experiment"], "a": "kfa"}),
    ):  # fmt: skip
        kubectl("patch", "mlgraph", "experiment", "--type", "json", "-p", steps)
        found = _quiet(kubectl, "experiment")
        assert '"split":null' in found["metadata"]["annotations"][LAST], "it tells of the file, not of the object"
        assert _meaning(found) == meant
    assert kubectl("apply", "-f", file).out == "mlgraph.mizzen.dev/experiment configured\n"
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]


def test_nulls_in_patches_and_in_an_editor(kubectl: Kubectl) -> None:
    """A merge patch takes nulls of objects for what is to go, but a list as it is; an editor shows and keeps them."""
    seed = _seeds(kubectl, "experiment")
    kubectl("create", "-f", _changed(kubectl, seed, "        split:\n", "        mab: {thompson: }\n"))
    dag = yaml.safe_load(Path(seed).read_text())["spec"]["dag"]
    patch = ("patch", "mlgraph", "experiment", "--type")
    kubectl(*patch, "merge", "-p", yaml.safe_dump({"spec": {"dag": dag}}))
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]
    kubectl(*patch, "json", "-p", '[{"op": "add", "path": "/spec/dag/0/route", "value": {"split": null}}]')
    edited = kubectl("edit", "mlgraph", "experiment", EDITOR="sed -i s/kfd/kfe/")
    assert edited.out == "mlgraph.mizzen.dev/experiment edited\n"
    assert _meaning(_quiet(kubectl, "experiment")) == {**MEANT["experiment"], "d": "kfe"}
    emptied = '[{"op": "replace", "path": "/spec/dag/0/route", "value": {}}]'
    assert kubectl(*patch, "json", "-p", emptied).err == f"Warning: {EMPTY}\n"
    assert _meaning(_quiet(kubectl, "experiment")) == {**ALL_CHILDREN, "d": "kfe"}


def test_what_is_empty_is_as_in_the_file_applied_last(kubectl: Kubectl) -> None:
    """Nobody can tell what kubectl leaves out from what somebody empties; so it is told."""
    kubectl("apply", "-f", _seeds(kubectl, "experiment"))
    emptied = '[{"op": "replace", "path": "/spec/dag/0/route", "value": {}}]'
    told = kubectl("patch", "mlgraph", "experiment", "--type", "json", "-p", emptied)
    assert told.err == f"Warning: {KEPT}\n"
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]


def test_a_copy_means_the_same(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", _seeds(kubectl, "experiment", "ensemble"))
    read = kubectl("get", "mlgraphs", "-o", "yaml").out
    copy = kubectl.home / "copy.yaml"
    copy.write_text(re.sub("^    name: (experiment|ensemble)$", r"    name: \1-copy", read, flags=re.M))
    kubectl("apply", "-f", str(copy))
    found = _all(kubectl)
    assert len(found) == 4
    assert all(_meaning(graph) == MEANT[name.removesuffix("-copy")] for name, graph in found.items())


def test_what_is_rolled_back_means_what_it_meant(kubectl: Kubectl, plane: planes.TestPlane) -> None:
    file = _seeds(kubectl, "experiment")
    kubectl("apply", "-f", file)
    kubectl("apply", "-f", _changed(kubectl, file, "        split:\n", "        mab: {egreedy: 0.5}\n"))
    plane.cli("rollback", "mlgraph/experiment", "-n", kubectl.namespace)
    assert _meaning(_quiet(kubectl, "experiment")) == MEANT["experiment"]


def _seeds(kubectl: Kubectl, *names: str) -> str:
    """A file with the texts of these, each with the one apiVersion that kubectl can send here."""
    texts = [re.sub("^apiVersion: .*$", f"apiVersion: {API_VERSION}", _seed(name), flags=re.M) for name in names]
    file = kubectl.home / f"{kubectl.namespace}.yaml"
    file.write_text("---\n".join(texts))
    return str(file)


def _seed(name: str) -> str:
    return (SEEDS / f"{name}.yaml").read_text()


def _changed(kubectl: Kubectl, file: str, old: str, new: str) -> str:
    text = Path(file).read_text()
    assert old in text
    other = kubectl.home / f"{kubectl.namespace}-changed.yaml"
    other.write_text(text.replace(old, new))
    return str(other)


def _graph(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "MLGraph", "metadata": {"name": name}, "spec": spec}


def _meaning(found: dict[str, Any]) -> dict[str, str]:
    """What a plane reads in a stored graph: of each node what it does, in words."""
    meta = Meta(found["metadata"]["name"], annotations=found["metadata"].get("annotations", {}))
    graph = MLGraphSpec.of(Resource("MLGraph", meta, found["spec"]))
    children = graph.children()
    return {node.name: _does(node, ", ".join(children[node.name])) for node in graph.dag}


def _does(node: GraphNode, children: str) -> str:
    route, merge = node.route, node.merge
    if node.implementation is not None:
        return str(node.implementation.kfservice)
    if route is not None and route.split is not None:
        assert route.split.model_fields_set <= {"traffic"}
        return f"one of {children}, each as often" if route.split.traffic is None else f"{route.split.traffic}"
    if route is not None and route.mab is not None:
        return f"the best of {children}, another one for {route.mab.egreedy} of all"
    if merge is not None and merge.joins is not None:
        assert merge.joins.weights is None
        return f"the {merge.joins.method} of {', '.join(node.dependencies)}"
    return f"all of {children}" if children else "its container"


def _accepted(found: dict[str, Any]) -> tuple[str, str, str]:
    [condition] = [each for each in found["status"]["conditions"] if each["type"] == "Accepted"]
    return condition["status"], condition["reason"], condition["message"]


def _quiet(kubectl: Kubectl, name: str) -> dict[str, Any]:
    return _all(kubectl)[name]


def _all(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """The graphs of the namespace by name, once their controller has nothing more to report."""

    def seen() -> dict[str, dict[str, Any]] | None:
        found: list[dict[str, Any]] = kubectl.json("get", "mlgraphs", "--show-managed-fields")["items"]
        done = all(
            graph.get("status", {}).get("observedGeneration") == graph["metadata"]["generation"] for graph in found
        )
        return {graph["metadata"]["name"]: graph for graph in found} if done else None

    return planes.wait_until(seen, "the controller has reported") or {}
