"""Mizzen beside others: what is asked and read, medians and best configurations, figures, tables, and the keeper."""

from __future__ import annotations

import json

import pytest

from bench.peers import environments, figures, lineup, questions, results, run, tables
from bench.peers.results import Sample
from bench.report import Window

ROWS = [[1.5, 2.0], [3.0, -4.25]]
CASES = [
    questions.Case(name, name, model, ROWS, [0, 1], (1,), binary=name == "binary")
    for name, model in (("iris", "iris"), ("noop", ""), ("json", "wide"), ("binary", "wide"), ("forest", "forest"))
]


def sample(case: str, connections: int, contestant: str, cpu_us: float, **other: float) -> Sample:
    seen: dict[str, float] = {"requests": 10_000, "p50": 1.0, "p99": 2.0, "errors": 0, "per_second": 1e6 / cpu_us}
    seen |= other
    window = Window(
        contestant=contestant,
        connections=connections,
        round=1,
        requests=int(seen["requests"]),
        cpu_us=cpu_us,
        parts={},
        per_second=seen["per_second"],
        p50_ms=seen["p50"],
        p99_ms=seen["p99"],
        errors=int(seen["errors"]),
        other_cores=0.0,
    )
    return Sample(case, window)


def figure(name: str, *samples: Sample, mixed: float | None = None) -> figures.Figure:
    (found,) = [one for one in figures.lines(results.medians(samples), 200, mixed) if name in one.what]
    return found


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ({"outputs": [{"name": "predict", "data": [0, 1]}]}, [0, 1]),
        ({"predictions": [[0.5], [1]]}, [0.5, 1]),
        ({"output": [[1.5, 2.0]]}, [1.5, 2.0]),
        ([0, 1], [0, 1]),
    ],
)
def test_answers_of_every_dialect_are_read(body: object, given: list[float]) -> None:
    assert questions.answer(json.dumps(body).encode(), {}) == given


def test_an_answer_in_bytes_is_read_by_its_header() -> None:
    head = b'{"outputs": [{"name": "predict", "datatype": "INT64", "shape": [2]}]}'
    body = head + (7).to_bytes(8, "little") + (9).to_bytes(8, "little")
    assert questions.answer(body, {"inference-header-content-length": str(len(head))}) == [7, 9]


@pytest.mark.parametrize("body", [b'{"error": "no"}', b'{"outputs": [{"data": ["a"]}]}', b'{"outputs": [true]}', b"<"])
def test_what_holds_no_numbers_is_no_answer(body: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        questions.answer(body, {})


def test_the_same_numbers_are_asked_in_every_dialect() -> None:
    flat = [1.5, 2.0, 3.0, -4.25]
    assert json.loads(questions.v2(ROWS).body)["inputs"][0]["data"] == flat
    assert json.loads(questions.named(ROWS).body)["x"] == ROWS == json.loads(questions.inputs(ROWS).body)["inputs"]
    binary = questions.v2_binary(ROWS)
    length = int(binary.headers[questions.HEADER_LENGTH])
    assert json.loads(binary.body[:length])["inputs"][0]["parameters"] == {"binary_data_size": 32}
    assert binary.body[length:] == questions.raw(ROWS).body


@pytest.mark.parametrize(("given", "right"), [([0, 1], True), ([0], False), ([0, 1.1], False), ([], False)])
def test_an_answer_is_right_when_all_of_it_is(given: list[float], right: bool) -> None:
    assert questions.is_right(given, [0, 1]) is right


def test_who_batches_takes_part_with_and_without_it() -> None:
    names = {case.name: [entry.name for peer in lineup.PEERS for entry in lineup.entries(peer, case)] for case in CASES}
    assert {"mlserver", "mlserver, batching", "ray", "ray haproxy", "ray haproxy, batching"} <= set(names["iris"])
    assert "mlserver" not in names["forest"]
    assert "mlserver, batching" in names["forest"]
    assert names["binary"] == ["kserve", "ray haproxy"]
    assert "nginx" not in names["json"]


def test_medians_and_the_cheapest_configuration() -> None:
    found = results.medians([
        *(sample("iris", 64, "mlserver", cost) for cost in (700, 900, 800)),
        sample("iris", 64, "mlserver, batching", 400),
        sample("iris", 64, "kserve", 1, requests=191),
        sample("iris", 64, "nginx", 10),
        sample("iris", 64, "bentoml", 300, errors=9_000),
        sample("iris", 64, "mizzen", 20),
    ])  # fmt: skip
    plain = found.at("iris", 64, "mlserver")
    assert plain is not None
    assert (plain.cpu_us, plain.lowest_us, plain.highest_us) == (800, 700, 900)
    best = found.best("iris", 64, lineup.FLOORS)
    assert best is not None
    assert best.contestant == "mlserver, batching"
    assert found.at("iris", 64, "kserve") is None
    refusing = found.at("iris", 64, "bentoml")
    assert refusing is not None
    assert refusing.cpu_us == 3000  # of each answer: the nine refusals beside it are part of its cost


@pytest.mark.parametrize("contestant", ["mizzen", "mlserver"])
def test_who_only_refuses_has_no_figure(contestant: str) -> None:
    found = results.medians([sample("iris", 64, contestant, 5, errors=9_809)])  # 191 answers, of 192 it takes
    assert found.at("iris", 64, contestant) is None
    (row,) = tables.case_rows(found, "iris")
    assert (row[1], row[2], row[-1], len(row)) == (contestant, "too few answers", "9809", len(tables.CASE_HEADER))


def test_refusing_almost_everything_does_not_pass_for_unmeasured() -> None:
    refusing = sample("forest", 64, "mizzen", 5, errors=9_900)
    assert figure("200 trees, adaptive batching, p99", refusing).met is False


@pytest.mark.parametrize(("ours", "met"), [(40, True), (60, False)])
def test_figures_of_one_row_are_met_or_not(ours: float, met: bool) -> None:
    peers = [sample("iris", 64, "mlserver", 600), sample("iris", 64, "nginx", 10), sample("iris", 64, "fastapi", 30)]
    mine = sample("iris", 64, "mizzen", ours)
    assert figure("64 connections, CPU of the best peer", *peers, mine).met is met
    assert figure("iris, 64 connections, CPU against nginx", *peers, mine).met is (ours / 10 <= 5)


def test_bytes_are_compared_with_the_best_peer_in_any_form() -> None:
    seen = (
        sample("json", 4, "mlserver", 4000),
        sample("binary", 4, "kserve", 9000),
        sample("binary", 4, "mizzen", 500),
    )
    assert figure("as bytes", *seen).seen == "8.00x (mlserver)"


def test_the_forest_has_to_be_quick_and_within_the_objective() -> None:
    off = sample("forest", 64, "mizzen, batching off", 10_000, per_second=90)
    slow = sample("forest", 64, "mizzen", 300, per_second=1000, p99=250)
    assert figure("200 trees, requests/s", off, slow).met
    assert not figure("200 trees, adaptive batching, p99", off, slow).met
    good = sample("forest", 64, "mizzen", 300, per_second=1000, p99=150)
    assert figure("200 trees, adaptive batching, p99", good).met
    shed = sample("forest", 64, "mizzen", 300, per_second=1000, errors=9_500)
    assert figure("200 trees, requests/s", off, shed).seen == "0.56x"  # of 1000 a second, 50 were answered
    failed = sample("forest", 64, "mizzen", 300, per_second=1000, p99=150, errors=1)
    assert not figure("200 trees, adaptive batching, p99", failed).met


def test_each_way_of_composing_is_compared_by_its_better_configuration() -> None:
    seen = (
        sample("ensemble", 16, "mizzen", 100),
        sample("ensemble", 16, "bentoml", 9000),
        sample("ensemble", 16, "bentoml, batching", 2900),
        sample("ensemble", 16, "ray", 9000),
        sample("ensemble", 16, "ray haproxy, batching", 3000),
    )
    assert figure("CPU of bentoml", *seen).seen == "29.00x (bentoml, batching)"
    assert figure("CPU of ray against", *seen).seen == "90.00x (ray)"
    assert figure("CPU of ray haproxy", *seen).met


def test_what_was_not_measured_is_neither_met_nor_not() -> None:
    assert {one.met for one in figures.lines(results.medians([]), 200, None)} == {None}
    assert figure("beside 1000 rows", mixed=2.5).met
    assert figure("p50", sample("iris", 1, "mizzen", 1, p50=0.5), sample("iris", 1, "fastapi", 1, p50=0.4)).met is False


def test_the_report_says_who_when_how_and_why_not() -> None:
    found = results.medians([
        sample("iris", 64, "mizzen", 50), sample("iris", 64, "ray haproxy", 900), sample("iris", 64, "ray", 9000),
    ])  # fmt: skip
    head = tables.Head("2026-11-16", 2, {"ray": "2.60.0"}, 3, 2, "Other load: quiet.")
    failures = [results.Failure("iris", "kserve", "a | b\nc")]
    text = tables.whole(head, found, [], failures, figures.lines(found, 200, None))
    assert "2026-11-16, 2 cores, 3 rounds of 2 s windows. ray 2.60.0." in text
    assert "| ray    | 900 (18.0x) |" in text
    assert "| kserve | iris | a / b c |" in text
    assert "18.00x (ray haproxy)" in text


def test_every_peer_has_hashed_requirements_that_pin_it() -> None:
    for peer in lineup.INSTALLED:
        text = (environments.REQUIREMENTS / f"{peer}.txt").read_text()
        assert environments.version_in(text, peer) != "?"
        assert environments.version_in(text, "scikit-learn") == environments.versions([])["scikit-learn"]


def test_names_that_do_not_exist_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.parse(["--only", "mizzen,ray", "--cases", "iris"]).only == ["mizzen", "ray"]
    with pytest.raises(SystemExit):
        run.parse(["--only", "apache"])
    assert "no apache; there are mizzen, nginx" in capsys.readouterr().err
