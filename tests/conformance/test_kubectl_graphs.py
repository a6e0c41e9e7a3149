"""kubectl with graphs that answer: applied, waited for, looked at, changed and deleted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.conformance.kubectl import API_VERSION, CHECKOUT, Kubectl
from tests.support import planes

SEEDS = CHECKOUT / "examples" / "seeds" / "mlgraph"
EXAMPLES = CHECKOUT / "examples" / "mlgraph"
MODEL = "def predict(inputs):\n    return inputs['x'] + {}\n"
ADDS = {"kfa": 1, "kfb": 2, "kfc": 3, "kfd": 6}
CHOICES, MEAN = {2.0, 3.0, 6.0}, {2.0}
"""What graphs of the seeds may answer for 0."""
LONG = "--timeout=60s"
URLS = ".status.url"


@pytest.fixture(scope="module")
def folder(plane: planes.TestPlane) -> Path:
    """Of the models that graphs call."""
    place = plane.data_dir.parent / "models"
    place.mkdir()
    for name, add in ADDS.items():
        (place / f"{name}.py").write_text(MODEL.format(add))
    return place


def serve(plane: planes.TestPlane, folder: Path, kubectl: Kubectl, *names: str) -> None:
    for name in names:
        plane.cli("deploy", f"{name}:predict", "--name", name, "-n", kubectl.namespace, cwd=folder)


@pytest.mark.parametrize("way", [("apply",), ("apply", "--server-side"), ("create",)])
def test_seeds_become_ready_when_what_they_call_is_there(
    kubectl: Kubectl, plane: planes.TestPlane, folder: Path, way: tuple[str, ...]
) -> None:
    """Their nulls mean what they say all the way to an answer."""
    kubectl = kubectl.within(f"seeds-{len(way)}-{way[0]}-{kubectl.release}")
    graphs = {"experiment": CHOICES, "egreedy": CHOICES, "ensemble": MEAN}
    everyone = [f"mlgraph/{name}" for name in graphs]
    kubectl(*way, "-f", seeds(kubectl, *graphs))
    kubectl("wait", "--for=condition=Accepted", *everyone, LONG)
    kubectl("wait", "--for=condition=Ready=false", *everyone, LONG)
    assert "timed out" in kubectl("wait", "--for=condition=Ready", everyone[0], "--timeout=1s", code=1).err
    assert kubectl("get", everyone[0], "-o", "jsonpath={.status.phase}").out == "Pending"
    told = kubectl("describe", everyone[0]).out
    assert "node 'b': nothing called 'kfb' is served here" in told
    assert re.search(r"Warning +NodesNotReady ", told), "it is an event, too"

    serve(plane, folder, kubectl, *ADDS)
    done = kubectl("wait", "--for=condition=Ready", *everyone, LONG).out
    assert done.splitlines() == [f"mlgraph.mizzen.dev/{name} condition met" for name in graphs]
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", *everyone, LONG)
    for name, values in graphs.items():
        url = kubectl("get", "mlgraph", name, "-o", f"jsonpath={{{URLS}}}").out
        assert url == f"{plane.inference_url}/ns/{kubectl.namespace}/v2/models/{name}"
        assert answers(url) <= values
    rows = [line.split() for line in kubectl("get", "mlg").out.splitlines()]
    assert rows[0] == ["NAME", "ACCEPTED", "READY", "URL", "AGE"]
    assert sorted(row[:3] for row in rows[1:]) == [[name, "True", "True"] for name in sorted(graphs)]
    described = kubectl("describe", "mlgraph", "ensemble").out
    assert re.search(r"Reason: +AllReady\n", described)
    assert re.search(r"Normal +Serving .* generation 1 is serving", described)


def test_a_graph_of_commands_is_waited_for_changed_and_deleted(kubectl: Kubectl, plane: planes.TestPlane) -> None:
    file = kubectl.home / f"{kubectl.namespace}.yaml"
    graph = yaml.safe_load((EXAMPLES / "single-program.yaml").read_text())
    file.write_text(yaml.safe_dump(graph))
    kubectl("apply", "-f", str(file))
    kubectl("wait", "--for=condition=Ready", "mlgraph/single-program", LONG)
    url = kubectl("get", "mlgraph", "single-program", "-o", f"jsonpath={{{URLS}}}").out
    assert asked(url, [5.0, 6.0]).json()["outputs"][0]["data"] == [1]
    assert kubectl("apply", "-f", str(file)).out == "mlgraph.mizzen.dev/single-program unchanged\n"
    [workload] = kubectl.json("get", "workloads")["items"]
    assert workload["metadata"]["ownerReferences"][0]["name"] == "single-program"

    changed = graph["spec"]["custom"][0]["spec"]["containers"][0]["args"][0].replace("each > 10", "each > 100")
    graph["spec"]["custom"][0]["spec"]["containers"][0]["args"][0] = changed
    file.write_text(yaml.safe_dump(graph))
    assert kubectl("apply", "-f", str(file)).out == "mlgraph.mizzen.dev/single-program configured\n"
    kubectl("wait", "--for=jsonpath={.status.serving.generation}=2", "mlgraph/single-program", LONG)
    kubectl("wait", "--for=condition=Ready", "mlgraph/single-program", LONG)
    planes.wait_until(lambda: asked(url, [5.0, 6.0]).json()["outputs"][0]["data"] == [0], "the change is served")

    assert kubectl("delete", "mlgraph", "single-program", LONG).out.startswith(
        'mlgraph.mizzen.dev "single-program" del'
    )
    kubectl("wait", "--for=delete", "mlgraph/single-program", LONG)
    planes.wait_until(lambda: asked(url, [5.0, 6.0]).status_code == 404, "nobody answers for it")
    planes.wait_until(lambda: kubectl.json("get", "workloads")["items"] == [], "its processes are ended")


def test_a_graph_is_no_longer_ready_when_a_model_goes(kubectl: Kubectl, plane: planes.TestPlane, folder: Path) -> None:
    serve(plane, folder, kubectl, "kfb")
    nodes = [{"name": "b", "implementation": {"kfservice": "kfb"}}]
    graph = {"apiVersion": API_VERSION, "kind": "MLGraph", "metadata": {"name": "one"}, "spec": {"dag": nodes}}
    kubectl("apply", "-f", "-", sent=graph)
    kubectl("wait", "--for=condition=Ready", "mlgraph/one", LONG)
    with kubectl.going("get", "mlgraph", "one", "--watch", "--no-headers") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:3] == ["one", "True", "True"]
        plane.cli("undeploy", "kfb", "-n", kubectl.namespace)
        kubectl("wait", "--for=condition=Ready=false", "mlgraph/one", LONG)
        assert watching.stdout.readline().split()[2] != "True", "who watches is told"
    url = kubectl("get", "mlgraph", "one", "-o", f"jsonpath={{{URLS}}}").out
    refused = asked(url, [0.0])
    assert refused.status_code == 503
    assert "node 'b'" in refused.json()["error"]


def seeds(kubectl: Kubectl, *names: str) -> str:
    """A file with the texts of these, each with the one apiVersion that kubectl can send here."""
    texts = ((SEEDS / f"{name}.yaml").read_text() for name in names)
    file = kubectl.home / f"{kubectl.namespace}.yaml"
    file.write_text(
        "---\n".join(re.sub("^apiVersion: .*$", f"apiVersion: {API_VERSION}", t, flags=re.M) for t in texts)
    )
    return str(file)


def asked(url: str, row: list[float]) -> httpx2.Response:
    tensor: dict[str, Any] = {"name": "x", "datatype": "FP64", "shape": [1, len(row)], "data": row}
    return httpx2.post(f"{url}/infer", json={"inputs": [tensor]})


def answers(url: str) -> set[float]:
    said = [asked(url, [0.0]) for _ in range(20)]
    assert {each.status_code for each in said} == {200}
    return {each.json()["outputs"][0]["data"][0] for each in said}
