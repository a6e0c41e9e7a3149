"""What graphs cost: the models and graphs that are asked, medians, and the figures they are held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import graph_figures, graphs, members
from bench.peers import lineup, questions
from bench.peers.figures import Figure
from bench.report import Window
from mizzen.kinds.graph.spec import MLGraphSpec


def window(
    contestant: str, cpu_us: float, gateway: float = 0.0, *, connections: int = 64, requests: int = 9999, at: int = 1
) -> Window:
    return Window(
        contestant=contestant,
        connections=connections,
        round=at,
        requests=requests,
        cpu_us=cpu_us,
        parts={"gateway": gateway, "runtime": cpu_us - gateway},
        per_second=1e6 / cpu_us,
        p50_ms=0.5,
        p99_ms=2,
        errors=0,
        other_cores=0.0,
    )


def figure(name: str, *windows: Window, connections: int = 64) -> Figure:
    found = graph_figures.lines(graph_figures.costs(windows), [connections], [1, 50, 200])
    (one,) = [each for each in found if name in each.what]
    return one


def test_the_members_say_of_the_row_what_is_expected_of_them(tmp_path: Path) -> None:
    import joblib

    files = members.train(tmp_path / "members")
    said = [int(joblib.load(file).predict([members.ROW])[0]) for file in files.values()]
    assert tuple(files) == members.MEMBERS
    assert tuple(said) == members.LABELS
    assert len(set(said)) > 1  # else the first of them would pass for the mean


@pytest.mark.parametrize("nodes", [*graphs.SHAPES.values(), *(make(3) for make in graphs.BUILDERS.values())])
def test_graphs_are_graphs(nodes: members.Nodes) -> None:
    spec = MLGraphSpec.model_validate(members.graph("g", nodes)["spec"])
    assert [node.name for node in spec.nodes_in_order()] == [node["name"] for node in nodes]


def test_graphs_are_as_large_as_they_say() -> None:
    assert len(members.chain(5)) == 5
    assert len(members.passing(5)) == len(members.wide(5)) == 6
    assert members.chain(3)[2]["dependencies"] == ["n1"]
    assert members.wide(2)[2]["dependencies"] == ["n0", "n1"]


@pytest.mark.parametrize(("ours", "met"), [(120, True), (140, False)])
def test_an_ensemble_is_compared_with_nginx(ours: float, met: bool) -> None:
    assert figure("ensemble", window("ensemble", ours), window("nginx", 10)).met is met


def test_of_a_choice_the_gateway_alone_is_compared() -> None:
    one = window("model", 30, 20)
    assert figure("split", one, window("split", 90, 24)).met is True
    assert figure("split", one, window("split", 31, 26)).seen == "1.30x"
    assert figure("e-greedy", one, window("egreedy", 90, 26)).met is True


def test_a_choice_is_compared_within_each_round() -> None:
    """The second round was in a slow minute, for both; of a fourth, one half is missing."""
    one = [window("model", 60, gateway, at=at) for at, gateway in enumerate((20, 40, 20), 1)]
    both = [window("split", 90, gateway, at=at) for at, gateway in enumerate((24, 44, 30, 10), 1)]
    assert figure("split", *one, *both).seen == "1.20x"


def test_of_a_chain_all_of_it_is_compared() -> None:
    assert figure("chain of 5", window("chain1", 30, 20), window("chain5", 91, 20)).met is False


@pytest.mark.parametrize(("large", "met"), [(430, True), (900, False)])
def test_cost_grows_evenly_or_not(large: float, met: bool) -> None:
    seen = [window("wide1", 30), window("wide50", 128), window("wide200", large)]
    assert figure("wide", *seen).met is met
    assert figure("deep", *seen).met is None


def test_costs_are_medians_of_windows_with_enough_requests() -> None:
    windows = [*(window("split", cost, cost / 2) for cost in (30, 50, 40)), window("split", 1, requests=191)]
    cost = graph_figures.costs(windows)["split", 64]
    assert (cost.whole, cost.lowest, cost.highest, cost.gateway) == (40, 30, 50, 20)


def test_the_table_has_a_row_for_each_load() -> None:
    found = graph_figures.costs([window("nginx", 10), window("model", 40, 20), window("split", 50, 30, connections=16)])
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in graph_figures.whole_table(found).split("\n")
    ]
    assert [line[:2] for line in lines[2:]] == [["16", "split"], ["64", "nginx"], ["64", "model"]]
    assert lines[4][4:7] == ["4.00", "20.0", "1.00"]
    assert lines[2][4] == "-"


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    options = graphs.parse(["--sizes", "0", "--only", "nginx,ensemble"])
    assert (options.sizes, options.only, options.connections) == ([], ["nginx", "ensemble"], [16, 64])
    with pytest.raises(SystemExit):
        graphs.parse(["--only", "triangle"])
    assert "no triangle; there are nginx, model" in capsys.readouterr().err


def test_those_who_compose_models_take_part_in_the_ensemble() -> None:
    case = questions.Case("ensemble", "", "ensemble", [members.ROW], [members.MEAN], (16,), members=members.MEMBERS)
    names = [entry.name for peer in lineup.PEERS for entry in lineup.entries(peer, case)]
    assert names == ["bentoml", "bentoml, batching", "ray haproxy", "ray", "ray haproxy, batching"]
