"""A graph that is changed while it answers: nobody notices but by what is answered."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.support import commands, graphs, planes
from tests.support.graphs import Graphs, node

PROGRAM = yaml.safe_load((commands.ROOT / "examples/mlgraph/single-program.yaml").read_text())
MODELS = """
def one(inputs):
    return {"x": next(iter(inputs.values())) + 1}
"""


@pytest.fixture(scope="module")
def served(plane: planes.TestPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    graphs.deploy(plane, tmp_path_factory.mktemp("models"), MODELS, ["one"])
    with graphs.graphs_of(plane) as found:
        yield found


def program(answer: float) -> list[dict[str, Any]]:
    """A container that answers this number to everybody: the example's program, with another answer."""
    [container] = PROGRAM["spec"]["custom"][0]["spec"]["containers"]
    [code] = container["args"]
    start, _, rest = code.partition("def answer(inputs):\n")
    _, _, end = rest.partition("\n\n")
    body = f'    return [{{"name": "y", "datatype": "FP64", "shape": [1], "data": [{answer}]}}]'
    return [{"spec": {"containers": [{**container, "args": [f"{start}def answer(inputs):\n{body}\n\n{end}"]}]}}]


def written(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    spec = {"dag": list(nodes)}
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def asked_all_the_time(served: Graphs, name: str) -> Iterator[list[float | str]]:
    """What each of many requests was answered, or what was wrong with it."""
    answers: list[float | str] = []
    over = threading.Event()

    def ask() -> None:
        with httpx2.Client(base_url=served.plane.inference_url, timeout=graphs.LIMIT, verify=False) as client:
            while not over.is_set():
                try:
                    answer = graphs.told(client.post(f"/v2/models/{name}/infer", json=graphs.request()))
                except httpx2.HTTPError as error:
                    answers.append(str(error))
                    continue
                answers.append(next(iter(answer.outputs.values()))[0] if answer.code == 200 else str(answer.said))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()


def count(answers: Sequence[float | str], value: float) -> int:
    return sum(answer == value for answer in answers)


def more_answers(answers: Sequence[float | str]) -> None:
    many = len(answers) + 20
    planes.wait_until(lambda: len(answers) > many, "more were answered")


def test_a_new_spec_takes_over_when_it_is_ready_and_no_request_fails(served: Graphs) -> None:
    serve = {"timeoutMs": 1000}
    served.serve("swaps", node("classifier"), custom=program(1), **serve)
    pids = served.pids("swaps")
    with asked_all_the_time(served, "swaps") as answers:
        planes.wait_until(lambda: count(answers, 1), "the first answers")
        served.serve("swaps", node("classifier"), node("then", "one", "classifier"), custom=program(5), **serve)
        planes.wait_until(lambda: count(answers, 6), "the second answers")
        pids |= served.pids("swaps")
        served.serve("swaps", node("a", "one"), **serve)
        planes.wait_until(lambda: count(answers, 2), "the third answers, which needs no container")
        assert len(pids) == 2
        planes.wait_until(lambda: not graphs.living(pids), "what nobody needs has ended")
    assert set(answers) == {1, 6, 2}


def test_a_spec_that_never_gets_ready_leaves_the_old_one_answering(served: Graphs, tmp_path: Path) -> None:
    served.serve("stays", node("classifier"), custom=program(1))
    pids = served.pids("stays")
    with asked_all_the_time(served, "stays") as answers:
        for number, never in enumerate(({"kfservice": "nobody"}, {"svc": f"127.0.0.1:{graphs.unused_port()}"}), 2):
            made = served.apply("stays", {"name": "b", "implementation": never})
            assert made["metadata"]["generation"] == number
            planes.wait_until(lambda: served.conditions("stays")["NodesReady"][0] == "False", "it was looked at")
            status, reason, message = served.conditions("stays")["Ready"]
            assert (status, reason) == ("True", "Serving")
            assert message == "generation 1 is serving; the latest generation is not ready"
            assert "node 'b': " in served.plane.cli("describe", "mlgraph", "stays").stdout
            (tmp_path / "stays.yaml").write_text(
                yaml.safe_dump(written("stays", {"name": "b", "implementation": never}))
            )
            late = served.plane.cli(
                "apply", "-f", str(tmp_path / "stays.yaml"), "--wait", "--timeout", "0.1", check=False
            )
            assert late.returncode != 0, "it is not what was asked for that answers"
            more_answers(answers)
    assert set(answers) == {1}
    served.serve("stays", node("classifier"), custom=program(1))
    assert len(pids) == 1
    assert served.pids("stays") == pids == graphs.living(pids), "going back starts nothing"


def test_applying_the_same_again_changes_nothing(served: Graphs) -> None:
    path = commands.ROOT / "examples/mlgraph/single-program.yaml"
    served.plane.cli("apply", "-f", str(path), "--wait")
    before, pids = served.get("single-program")["metadata"], served.pids("single-program")
    assert served.plane.cli("apply", "-f", str(path), "--wait").stdout == "mlgraph/single-program unchanged\n"
    after = served.get("single-program")["metadata"]
    assert [after[key] for key in ("generation", "resourceVersion")] == [
        before[key] for key in ("generation", "resourceVersion")
    ]
    assert len(pids) == 1
    assert served.pids("single-program") == pids


def test_labels_and_annotations_come_and_go_without_a_restart(served: Graphs) -> None:
    def applied(**meta: dict[str, str]) -> int:
        return int(served.apply("tagged", node("classifier"), custom=program(1), **meta)["metadata"]["generation"])

    def passed_on() -> tuple[dict[str, str], dict[str, str]]:
        [child] = served.workloads("tagged").values()
        labels, annotations = (child["metadata"].get(field, {}) for field in ("labels", "annotations"))
        own = "mizzen.dev/"
        return (
            {key: value for key, value in labels.items() if not key.startswith(own)},
            {key: value for key, value in annotations.items() if not key.startswith(own)},
        )

    assert applied(labels={"team": "a", "tier": "x"}, annotations={"note": "one"}) == 1
    planes.wait_until(lambda: served.answers_by("tagged"), "it is ready")
    pids = served.pids("tagged")
    planes.wait_until(lambda: passed_on() == ({"team": "a", "tier": "x"}, {"note": "one"}), "they are passed on")
    assert applied(labels={"team": "b"}, annotations={"other": "two"}) == 1, "no change of the spec"
    changed = {"team": "b"}, {"other": "two"}
    planes.wait_until(lambda: passed_on() == changed, "changes and removals are passed on, too")
    assert applied() == 1
    planes.wait_until(lambda: passed_on() == ({}, {}), "all are taken back")
    assert served.pids("tagged") == pids
    assert served.ask("tagged").outputs == {"y": [1]}


def test_a_deleted_graph_ends_all_that_ran_for_it(served: Graphs) -> None:
    served.serve("goes", node("classifier"), custom=[{**program(1)[0], "replicas": 2}])
    served.serve("caller", node("a", "goes"))
    pids = served.pids("goes")
    assert len(pids) == 2
    served.delete("goes")
    planes.wait_until(lambda: not graphs.living(pids), "its processes have ended")
    planes.wait_until(lambda: not served.workloads("goes"), "nothing of it is left")
    planes.wait_until(lambda: served.ask("goes").code == 404, "gateways know")
    code, text = served.ask("caller").failure
    assert (code, text) == (503, "node 'a': nothing called 'goes' is served")
    planes.wait_until(lambda: not served.answers_by("caller"), "who called it says so")
    assert "nothing called 'goes' is served here" in served.conditions("caller")["Ready"][2]


def test_no_replicas_are_no_answer(served: Graphs) -> None:
    served.serve("scaled", node("classifier"), custom=program(1), timeoutMs=1000)
    served.apply("scaled", node("classifier"), custom=[{**program(1)[0], "replicas": 0}], timeoutMs=1000)
    planes.wait_until(lambda: served.ask("scaled").code == 503, "it stops")
    assert served.ask("scaled").said["error"].startswith("node 'classifier': ")
    served.serve("scaled", node("classifier"), custom=program(1), timeoutMs=1000)
    assert served.ask("scaled").outputs == {"y": [1]}
