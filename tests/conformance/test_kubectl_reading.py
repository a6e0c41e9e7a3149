"""kubectl asks: which kinds there are, what they mean, and objects in every form it knows."""

from __future__ import annotations

import pytest
import yaml

from mizzen.kinds.catalog import KINDS, Kind
from tests.conformance.kubectl import API_VERSION, Kubectl, model, server, version


def test_it_learns_which_kinds_there_are(kubectl: Kubectl) -> None:
    rows = {line.split()[-1]: line.split() for line in kubectl("api-resources", "--no-headers").out.splitlines()}
    for kind in KINDS:
        assert rows[kind.name] == [kind.plural, kind.short, API_VERSION, "true", kind.name]
    assert {"Namespace", "Event"} <= set(rows)
    named = kubectl("api-resources", "--api-group", "mizzen.dev", "-o", "name").out.split()
    assert set(named) == {f"{kind.plural}.mizzen.dev" for kind in KINDS}
    scaled = kubectl("api-resources", "--verbs", "create,delete,get,list,patch,update,watch", "-o", "name").out.split()
    assert {kind.name for kind in KINDS if f"{kind.plural}.mizzen.dev" not in scaled} == {
        kind.name for kind in KINDS if kind.internal
    }


def test_it_learns_which_versions_there_are(kubectl: Kubectl) -> None:
    assert {API_VERSION, "v1", "authorization.k8s.io/v1"} <= set(kubectl("api-versions").out.split())
    told = kubectl.json("version")
    assert told["serverVersion"]["gitVersion"].startswith("v1.")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_explains_every_kind(kubectl: Kubectl, kind: Kind) -> None:
    name = kind.singular
    told = kubectl("explain", name).out
    assert kind.about.split()[0] in told
    assert "spec\t<" in told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("mlgraphs.spec.dag.route.split.traffic", "map[string]integer"),
        ("inferencemodel.spec.batching.batchSize", "IntOrString"),
        ("im.status.conditions.lastTransitionTime", "string"),
        ("model.metadata.managedFields.fieldsV1", "Object"),
        ("trainingjob.spec", "FIELDS"),
    ],
)
def test_it_explains_what_is_deep_within(kubectl: Kubectl, path: str, told: str) -> None:
    assert told in kubectl("explain", path).out


def test_it_explains_all_fields_at_once_and_refuses_unknown_ones(kubectl: Kubectl) -> None:
    assert "      split\t<Object>" in kubectl("explain", "mlgraph", "--recursive").out
    assert 'field "splt" does not exist' in kubectl("explain", "mlgraph.spec.splt", code=1).err


def test_every_kind_can_be_listed(kubectl: Kubectl) -> None:
    plurals = ",".join(kind.plural for kind in KINDS)
    done = kubectl("get", plurals)
    assert (done.out, done.err) == ("", f"No resources found in {kubectl.namespace} namespace.\n")
    assert kubectl.json("get", plurals)["items"] == []
    assert kubectl("get", plurals, "-A", "-o", "wide").code == 0


def test_objects_are_shown_in_every_form(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris", {"team": "a"}), model("wine", {"team": "b"}, framework="onnx")])
    rows = [line.split() for line in kubectl("get", "models").out.splitlines()]
    assert rows[0] == ["NAME", "CURRENT", "HIGHEST", "BY", "AGE"]
    assert [row[0] for row in rows[1:]] == ["iris", "wine"]
    wide = [line.split() for line in kubectl("get", "mz", "-o", "wide").out.splitlines()]
    assert wide[0][-2:] == ["FRAMEWORK", "WRITTEN-BY"]
    assert [row[-2:] for row in wide[1:]] == [["sklearn", "admin"], ["onnx", "admin"]]
    whole = yaml.safe_load(kubectl("get", "model", "iris", "-o", "yaml").out)
    assert whole == kubectl.json("get", "model", "iris")
    assert whole["spec"] == {"framework": "sklearn"}
    assert "managedFields" not in whole["metadata"]
    listed = kubectl.json("get", "models")
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["Model", "Model"])
    assert kubectl("get", "models", "-o", "name").out.split() == ["model.mizzen.dev/iris", "model.mizzen.dev/wine"]
    assert kubectl("get", "models", "-o", "jsonpath={.items[*].spec.framework}").out == "sklearn onnx"
    columns = kubectl("get", "models", "-o", "custom-columns=N:.metadata.name,T:.metadata.labels.team").out
    assert [line.split() for line in columns.splitlines()] == [["N", "T"], ["iris", "a"], ["wine", "b"]]
    assert "team=a" in kubectl("get", "models", "--show-labels").out
    assert [line.split()[-1] for line in kubectl("get", "models", "-L", "team").out.splitlines()] == ["TEAM", "a", "b"]


def test_objects_are_selected(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris", {"team": "a"}), model("wine", {"team": "b"}), model("none")])
    for selector, wanted in (
        ("team=a", ["iris"]), ("team!=a", ["none", "wine"]), ("team", ["iris", "wine"]), ("!team", ["none"]),
        ("team in (a, b)", ["iris", "wine"]), ("team notin (a)", ["none", "wine"]),
    ):  # fmt: skip
        assert _names(kubectl("get", "mz", "-o", "name", "-l", selector).out) == wanted
    assert _names(kubectl("get", "mz", "-o", "name", "--field-selector", "metadata.name=wine").out) == ["wine"]
    kubectl("create", "-f", "-", sent=[server("one"), server("two", modelName="wine")])
    assert _names(kubectl("get", "im", "-o", "name", "--field-selector", "spec.modelName=wine").out) == ["two"]
    refused = kubectl("get", "mz", "--field-selector", "spec.nothing=1", code=1)
    assert "cannot be selected by 'spec.nothing'" in refused.err


def test_a_list_comes_in_pages_and_is_sorted(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model(f"m{number}", {"place": str(9 - number)}) for number in range(7)])
    assert _names(kubectl("get", "mz", "-o", "name", "--chunk-size", "2").out) == [f"m{number}" for number in range(7)]
    assert len(kubectl("get", "mz", "--no-headers", "--chunk-size", "3").out.splitlines()) == 7
    assert len(kubectl("get", "mz", "--no-headers", "--chunk-size", "0").out.splitlines()) == 7
    ordered = kubectl("get", "mz", "--no-headers", "--sort-by", ".metadata.labels.place").out.splitlines()
    assert [line.split()[0] for line in ordered] == [f"m{number}" for number in reversed(range(7))]


def test_several_kinds_and_names_at_once(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), server("one")])
    assert _names(kubectl("get", "models,inferencemodels", "-o", "name").out) == ["iris", "one"]
    assert _names(kubectl("get", "mz/iris", "im/one", "-o", "name").out) == ["iris", "one"]
    done = kubectl.tried("get", "mz", "iris", "none")
    assert (done.code, "iris" in done.out) == (1, True)
    assert f"Error from server (NotFound): Model/{kubectl.namespace}/none does not exist" in done.err
    assert kubectl("get", "mz", "none", "--ignore-not-found").out == ""
    assert "doesn't have a resource type" in kubectl("get", "nothing", code=1).err


def test_a_word_stands_for_several_kinds(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), version("iris", "1"), server("one")])
    assert _names(kubectl("get", "all", "-o", "name").out) == ["iris", "one"]
    assert _names(kubectl("get", "mizzen", "-o", "name").out) == ["iris", "iris.1", "one"]
    assert "Namespace" in kubectl("get", "revisions").out
    everywhere = kubectl("get", "revisions", "-A", "--no-headers").out.splitlines()
    assert all(len(line.split()) == 8 for line in everywhere), "each is in a namespace"


def test_an_object_is_described(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris", {"team": "a"}))
    told = kubectl("describe", "model", "iris").out
    assert "Name:         iris" in told
    assert "Labels:       team=a" in told
    assert "Framework:  sklearn" in told
    assert "Events:" in told


def test_changes_are_watched(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    with kubectl.going("get", "models", "-w", "-o", "custom-columns=N:.metadata.name,F:.spec.framework") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["N", "F"]
        assert watching.stdout.readline().split() == ["iris", "sklearn"]
        kubectl("patch", "model", "iris", "--type", "merge", "-p", '{"spec": {"framework": "onnx"}}')
        while (line := watching.stdout.readline().split()) == ["iris", "sklearn"]:
            pass  # a controller reported something
        assert line == ["iris", "onnx"]
        kubectl("create", "-f", "-", sent=model("wine"))
        while (line := watching.stdout.readline().split()) == ["iris", "onnx"]:
            pass
        assert line == ["wine", "sklearn"]


def test_a_table_is_watched(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    with kubectl.going("get", "models", "-w", "--output-watch-events") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["EVENT", "NAME", "CURRENT", "HIGHEST", "BY", "AGE"]
        assert watching.stdout.readline().split()[:2] == ["ADDED", "iris"]
        kubectl("delete", "model", "iris", "--wait=false")
        while (line := watching.stdout.readline().split())[0] == "MODIFIED":
            pass
        assert line[:2] == ["DELETED", "iris"]


def _names(out: str) -> list[str]:
    return [line.partition("/")[2] for line in out.split()]
