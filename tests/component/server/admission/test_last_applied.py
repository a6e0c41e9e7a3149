"""kubectl's note of what it applied last: nulls that it left out are put back, and the note is kept true."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from mizzen.kinds.graph.last_applied import ANNOTATION
from mizzen.server.admission.field_managers import KUBECTL
from mizzen.server.resources.write import CLIENT_SIDE, EMPTY_WARNING
from tests.support.server.harness import HERE

GRAPHS = f"{HERE}/mlgraphs"
GRAPH = f"{GRAPHS}/g"
SPLIT, NOTHING = {"split": None}, dict[str, Any]()


@pytest.mark.parametrize("alone", [False, True])
def test_nulls_that_were_left_out_are_stored(admin: httpx2.Client, alone: bool) -> None:
    written = _graph({"ensemble": None}, alone=alone)
    sent = _graph({}, alone=alone) | _noted(written)
    answer = admin.post(GRAPHS, json=sent, params={"fieldManager": CLIENT_SIDE})
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"] == written["spec"]
    assert str(EMPTY_WARNING) not in answer.headers.get("warning", "")


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        ("json", [{"op": "replace", "path": "/spec/dag/0/route", "value": {}}]),
        ("merge", {"spec": {"dag": [{"name": "a", "route": {}}, {"name": "b", "dependencies": ["a"]}]}}),
    ],
)
@pytest.mark.parametrize("by", [CLIENT_SIDE, "somebody"])
def test_who_empties_a_route_is_told_how_it_is_read(admin: httpx2.Client, media: str, patch: Any, by: str) -> None:
    sent = _routed(SPLIT)
    admin.post(GRAPHS, json=sent | _noted(sent)).raise_for_status()
    if media == "merge":
        patch["spec"]["dag"][1]["implementation"] = {"kfservice": "other"}
    answer = admin.patch(
        GRAPH, content=json.dumps(patch), params={"fieldManager": by},
        headers={"content-type": f"application/{media}-patch+json"},
    )  # fmt: skip
    assert answer.json()["spec"]["dag"][0]["route"] == SPLIT
    assert (str(EMPTY_WARNING) in answer.headers.get("warning", "")) == (by != CLIENT_SIDE)


def test_the_note_is_of_what_kubectl_applied_through_the_server(admin: httpx2.Client) -> None:
    sent = _routed(SPLIT)
    admin.post(GRAPHS, json=sent | _noted(sent), params={"fieldManager": CLIENT_SIDE}).raise_for_status()
    assert json.loads(_note(_apply(admin, _routed(SPLIT), "somebody else"))) == sent, "it is not their note"
    after = _apply(admin, _routed(NOTHING), KUBECTL)
    assert after["spec"]["dag"][0]["route"] == {}
    noted = json.loads(_note(after))
    assert (noted["spec"], noted["metadata"]) == (after["spec"], {"name": "g", "annotations": {}})
    assert _apply(admin, _routed(NOTHING), KUBECTL) == after, "the same again is no change"


def test_without_a_note_none_is_made(admin: httpx2.Client) -> None:
    assert _note(_apply(admin, _routed(SPLIT), KUBECTL)) == ""
    assert _note(_apply(admin, _routed(NOTHING), KUBECTL)) == ""


def _apply(admin: httpx2.Client, body: dict[str, Any], by: str) -> dict[str, Any]:
    answer = admin.patch(
        GRAPH, content=json.dumps(body), params={"fieldManager": by, "force": "true"},
        headers={"content-type": "application/apply-patch+yaml"},
    )  # fmt: skip
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def _note(found: dict[str, Any]) -> str:
    return str(found["metadata"]["annotations"].get(ANNOTATION, ""))


def _noted(written: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "g", "annotations": {ANNOTATION: json.dumps(written)}}}


def _routed(route: dict[str, Any]) -> dict[str, Any]:
    called = {"name": "b", "dependencies": ["a"], "implementation": {"kfservice": "kfb"}}
    return _object([{"name": "a", "route": route}, called])


def _graph(merge: dict[str, Any], *, alone: bool) -> dict[str, Any]:
    node = {"name": "m", "implementation": {"kfservice": "kfm"}, "merge": merge}
    others = [{"name": name, "implementation": {"kfservice": name}} for name in ("x", "y")]
    return _object(node if alone else [*others, {**node, "dependencies": ["x", "y"]}])


def _object(dag: Any) -> dict[str, Any]:
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": "g"}, "spec": {"dag": dag}}
