"""Graphs as people write them, for real: the seed's examples and their twins, over all protocols; graphs of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import commands, graphs, grpcs, planes
from tests.support.graphs import Graphs, node

EXAMPLES = commands.ROOT / "examples"
SEEDS, TWINS = EXAMPLES / "seeds" / "mlgraph", EXAMPLES / "mlgraph"
ADDED = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
"""What the model behind each node adds: an answer tells who gave it."""
MODELS = "".join(
    f"def kf{name}(inputs):\n    return next(iter(inputs.values())) + {added}\n\n\n" for name, added in ADDED.items()
)


@pytest.fixture(scope="module")
def served(plane: planes.TestPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    graphs.deploy(plane, tmp_path_factory.mktemp("models"), MODELS, ("kfa", "kfb", "kfc", "kfd"))
    with graphs.graphs_of(plane) as found:
        yield found


def apply(plane: planes.TestPlane, path: Path) -> str:
    return plane.cli("apply", "-f", str(path), "--wait").stdout


@pytest.mark.parametrize("example", ["experiment", "field-table", "egreedy"])
def test_a_printed_choice_between_models_answers_as_one_of_them(served: Graphs, example: str) -> None:
    apply(served.plane, SEEDS / f"{example}.yaml")
    answer = served.ask(example)
    first, taken = answer.parameters["routing"].split("=")
    assert (answer.code, first, answer.nodes) == (200, "a", f"a,{taken}")
    assert answer.outputs == {"predict": [1 + ADDED[taken], 2 + ADDED[taken]]}
    assert answer.said["model_name"] == example
    assert answer.headers["mizzen-request-id"] == answer.said["id"]


def test_a_printed_ensemble_answers_with_the_mean_in_all_protocols(served: Graphs) -> None:
    apply(served.plane, SEEDS / "ensemble.yaml")
    answer = served.ask("ensemble")
    assert (answer.outputs, answer.nodes) == ({"predict": [3.0, 4.0]}, "a,b,c,d")
    rows = served.ask_v1("ensemble", {"x": 1.0}, {"x": 2.0})
    assert rows.said == {"predictions": [3.0, 4.0]}
    assert rows.headers["mizzen-nodes"] == "a,b,c,d"
    with grpcs.calling(served.plane.grpc_address) as call:
        said = call.infer(grpcs.request_of("ensemble", [1.0, 2.0], "x", id="mine"))
        assert (said.id, said.parameters["nodes"].string_param) == ("mine", "a,b,c,d")
        assert grpcs.outputs_of(said)["predict"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("example", ["experiment", "ensemble", "egreedy"])
def test_the_twin_of_a_printed_example_says_the_same(served: Graphs, example: str) -> None:
    apply(served.plane, SEEDS / f"{example}.yaml")
    before = served.get(example)["metadata"]
    assert apply(served.plane, TWINS / f"{example}.yaml") == f"mlgraph/{example} unchanged\n"
    after = served.get(example)["metadata"]
    assert (after["generation"], after["uid"]) == (before["generation"], before["uid"])
    assert served.ask(example).code == 200


def test_what_needs_images_is_accepted_and_says_what_it_lacks(served: Graphs) -> None:
    served.plane.cli("apply", "-f", str(SEEDS / "single-model.yaml"))
    planes.wait_until(lambda: "NodesReady" in served.conditions("test-deployment"), "it was looked at")
    conditions = served.conditions("test-deployment")
    assert (conditions["Accepted"][0], conditions["Ready"][0]) == ("True", "False")
    assert conditions["NodesReady"][2].startswith("node 'classifier': container 'classifier' has an image")
    answer = served.ask_known("test-deployment")
    assert (answer.code, answer.said["error"][:19]) == (503, "node 'classifier': ")
    assert answer.headers["retry-after"] == "1"


def test_a_cascade_is_accepted_and_says_that_it_is_not_run(served: Graphs) -> None:
    served.plane.cli("apply", "-f", str(TWINS / "cascade.yaml"))
    answer = served.ask_known("cascade")
    assert answer.failure == (503, "node 'choose': route.cascade is not run by this release")


def test_a_printed_pipeline_lacks_a_container_and_is_refused(served: Graphs) -> None:
    path = SEEDS / "pipeline.yaml"
    refused = served.plane.cli("apply", "-f", str(path), check=False)
    assert refused.returncode != 0
    assert "imagenet-combiner" in refused.stderr
    manifest = yaml.safe_load(path.read_text())
    answer = served.control.post(f"{graphs.API}/mlgraphs", json={**manifest, "apiVersion": "mizzen.dev/v1alpha1"})
    assert answer.status_code == 422, answer.text
    assert "imagenet-combiner" in answer.json()["message"]


def test_their_twins_with_commands_run(served: Graphs) -> None:
    for name in ("single-program", "program-pipeline"):
        served.plane.cli("apply", "-f", str(TWINS / f"{name}.yaml"))
    for name in ("single-program", "program-pipeline"):
        served.wait(name)
    rows = [{"name": "x", "datatype": "FP64", "shape": [2, 2], "data": [5.0, 4.0, 6.0, 5.0]}]
    assert served.ask("single-program", inputs=rows).outputs == {"label": [0, 1]}
    assert served.ask_v1("single-program", {"x": [5.0, 4.0]}, {"x": [6.0, 5.0]}).said == {"predictions": [0, 1]}
    pixels = [{"name": "x", "datatype": "FP64", "shape": [2], "data": [255.0, 51.0]}]
    answer = served.ask("program-pipeline", inputs=pixels)
    assert answer.outputs == {"most": [4.0, 0.8]}
    names = ("itransformer", "combiner", "otransformer")
    first, merged, last = (f"imagenet-{name}" for name in names)
    assert answer.nodes == f"{first},prediction1,prediction2,{merged},{last}"
    with grpcs.calling(served.plane.grpc_address) as call:
        said = call.infer(grpcs.request_of("program-pipeline", [255.0, 51.0], "x"))
        assert grpcs.outputs_of(said)["most"].tolist() == [4.0, 0.8]


def test_several_outputs_are_told_apart_in_every_protocol(served: Graphs) -> None:
    served.serve("both", node("b", "kfb"), node("c", "kfc"))
    assert served.ask("both").outputs == {"b.predict": [3.0, 4.0], "c.predict": [4.0, 5.0]}
    assert served.ask_v1("both", {"x": 1.0}).said == {"predictions": {"b": [3.0], "c": [4.0]}}
    with grpcs.calling(served.plane.grpc_address) as call:
        found = grpcs.outputs_of(call.infer(grpcs.request_of("both", [1.0], "x")))
        assert {name: data.tolist() for name, data in found.items()} == {"b.predict": [3.0], "c.predict": [4.0]}


def test_a_graph_calls_graphs(served: Graphs) -> None:
    served.serve("inner", node("a", "kfa"), node("b", "kfb"), node("m", "", "a", "b", merge={"ensemble": {}}))
    served.serve("outer", node("first", "kfd"), node("then", "inner", "first"), node("last", "kfa", "then"))
    assert served.ask("outer").outputs == {"predict": [1 + 4 + 1.5 + 1, 2 + 4 + 1.5 + 1]}
    assert served.ask("outer").nodes == "first,then,last"
    assert served.ask_v1("outer", {"x": 1.0}).said == {"predictions": [7.5]}


def test_graphs_that_call_each_other_in_a_circle_are_not_accepted(served: Graphs) -> None:
    served.serve("hen", node("a", "kfa"))
    served.serve("egg", node("a", "hen"))
    served.apply("hen", node("a", "egg"))
    planes.wait_until(lambda: served.conditions("hen")["Accepted"][0] == "False", "it is refused")
    status, reason, message = served.conditions("hen")["Accepted"]
    assert (status, reason) == ("False", "GraphCycle")
    assert "hen" in message
    assert "egg" in message
    assert served.ask("egg").outputs == {"predict": [2.0, 3.0]}, "what answered before goes on"
    served.serve("hen", node("a", "kfb"))
    assert served.ask("egg").outputs == {"predict": [3.0, 4.0]}


def test_graphs_in_graphs_go_eight_deep(served: Graphs) -> None:
    served.serve("deep-1", node("a", "kfa"))
    for depth in range(2, 9):
        served.apply(f"deep-{depth}", node("a", f"deep-{depth - 1}"))
    planes.wait_until(lambda: served.answers_by("deep-8"), "the eighth is ready")
    assert served.ask("deep-8").outputs == {"predict": [2.0, 3.0]}
    served.apply("deep-9", node("a", "deep-8"))
    planes.wait_until(lambda: "Accepted" in served.conditions("deep-9"), "it was looked at")
    assert served.conditions("deep-9")["Accepted"][:2] == ("False", "TooDeep")


def test_a_node_may_come_later_and_describe_says_who_is_waited_for(served: Graphs, tmp_path: Path) -> None:
    served.apply("early", node("a", "kfa"), node("b", "latecomer", "a"), node("c", "kfc", "b"))
    planes.wait_until(lambda: "NodesReady" in served.conditions("early"), "it was looked at")
    said = served.plane.cli("describe", "mlgraph", "early").stdout
    assert "node 'b': nothing called 'latecomer' is served here" in said
    answer = served.ask_known("early")
    assert (answer.code, answer.headers["retry-after"]) == (503, "1")
    assert answer.said["error"].startswith("node 'b': nothing called 'latecomer' is served")
    graphs.deploy(served.plane, tmp_path, "def latecomer(inputs):\n    return inputs['predict'] * 10\n", ["latecomer"])
    planes.wait_until(lambda: served.answers_by("early"), "it is ready by itself")
    assert served.ask("early").outputs == {"predict": [23.0, 33.0]}
    assert "node 'b'" not in served.plane.cli("describe", "mlgraph", "early").stdout
