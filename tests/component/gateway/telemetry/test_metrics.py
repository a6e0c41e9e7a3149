"""Counters, what is written down of them, and the text that is made of all gateways' for a scrape."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from mizzen.gateway.telemetry import metrics
from mizzen.gateway.telemetry.counters import Metrics
from mizzen.protocol import prometheus_text
from mizzen.protocol.gateway_files import counts
from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS, Counts, RequestCounts, ServerCounts
from tests.support.gateway.harness import Gateway, body_of, until

NAME = re.compile(r"[a-z][a-z0-9_]*")
UNITS = ("_seconds", "_bytes")


def everything(_namespace: str, _name: str) -> bool:
    return True


def counted(metrics: Metrics, gateway: str = "gateway-0", served: list[ServerCounts] | None = None) -> Counts:
    return Counts(
        gateway, os.getpid(), 1.0, 2.0, 0.5, 1024, metrics.request_counts(), served or [], dict(metrics.refused)
    )


def served(server: str = "default/m", waits: int = 0, sizes: int = 0) -> ServerCounts:
    return ServerCounts(
        server, "1", waiting=0, waiting_bytes=0, in_flight=0, replicas=1, room=1, shed=0, expired=0, retried=0,
        waits=[waits] + [0] * len(BOUNDS), waited_seconds=0.0, compute_seconds=0.25,
        sizes=[sizes] + [0] * len(BATCH_BOUNDS), batch_items=sizes,
    )  # fmt: skip


def test_a_histogram_counts_up() -> None:
    mine = Metrics()
    counters = mine.counters("default", "m", "1")
    for seconds in (0.0001, BOUNDS[0], 0.3, 99.0):
        counters.in_flight += 1
        counters.record_end(200, seconds)
    text = metrics.render([counted(mine)], everything).decode()
    labels = 'gateway="gateway-0",namespace="default",model="m",version="1"'
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.0005"}} 2\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.25"}} 2\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.5"}} 3\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="30.0"}} 3\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="+Inf"}} 4\n' in text
    assert f"mizzen_requests_in_flight{{{labels}}} 0\n" in text


def test_counters_live_as_long_as_their_version_is_named() -> None:
    mine = Metrics()
    kept, busy, gone = (mine.counters("a", "b", version) for version in "123")
    busy.in_flight += 1
    mine.retain({("a", "b", "1")})
    assert mine.counters("a", "b", "1") is kept
    assert mine.counters("a", "b", "2") is busy
    assert mine.counters("a", "b", "3") is not gone
    busy.record_end(200, 0.1)
    mine.retain({("a", "b", "1")})
    assert b'version="2"' not in metrics.render([counted(mine)], everything)


def test_what_one_model_answered_does_not_count_for_the_next_of_that_name() -> None:
    mine = Metrics()
    before = mine.counters("default", "best", "1", "iris")
    before.record_end(200, 0.1)
    assert mine.counters("default", "best", "1", "iris") is before
    (told,) = mine.request_counts()
    assert (told.model, told.of, told.codes) == ("best", "iris", {200: 1})
    after = mine.counters("default", "best", "1", "wine")
    after.record_end(500, 0.1)
    (told,) = mine.request_counts()
    assert (told.model, told.of, told.codes) == ("best", "wine", {500: 1})


def test_label_values_are_escaped() -> None:
    mine = Metrics()
    mine.counters("default", 'a"b\\c\nd', "1").record_end(200, 0.1)
    text = metrics.render([counted(mine)], everything).decode()
    assert 'model="a\\"b\\\\c\\nd"' in text
    assert 'a"b\\c\nd' in {sample.labels.get("model") for each in _families(text) for sample in each.samples}


def test_what_nobody_asked_for_has_no_series() -> None:
    mine = Metrics()
    mine.counters("default", "idle", "1")
    assert mine.request_counts() == []


def test_a_scrape_shows_each_gateway_and_only_what_one_may_see() -> None:
    first, second = Metrics(), Metrics()
    for name, of in (("seen", first), ("seen", second), ("hidden", second)):
        of.counters("default", name, "1").record_end(200, 0.1)
    text = metrics.render(
        [
            counted(first, "gateway-0", [served("default/seen")]),
            counted(second, "gateway-1", [served("default/hidden"), served("default/seen")]),
        ],
        lambda _, name: name == "seen",
    ).decode()
    assert "hidden" not in text
    requests = {
        sample.labels["gateway"]: sample.value
        for family in _families(text)
        for sample in family.samples
        if sample.name == "mizzen_requests_total"
    }
    assert requests == {"gateway-0": 1.0, "gateway-1": 1.0}


def test_who_would_rather_have_another_format_gets_the_one_there_is(gateway: Gateway) -> None:
    """As Prometheus asks: it reads what the type says, whatever it asked for."""
    wanted = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    answer = gateway.ask("GET", "/metrics", accept=wanted)
    assert answer.headers["content-type"] == prometheus_text.CONTENT_TYPE
    assert b"# EOF" not in answer.body


def test_a_scrape_follows_the_conventions(gateway: Gateway) -> None:
    """What `promtool check metrics` asks for, said to the parser of Prometheus' own client."""
    gateway.infer([1.0])
    gateway.ask("POST", "/v2/models/nobody/infer", body_of([1.0]))
    text = gateway.ask("GET", "/metrics").body.decode()
    declared = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(declared) == len(set(declared))
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series)), "each is there once"
    found = {family.name: family for family in _families(text)}
    assert "unknown" not in {family.type for family in found.values()}
    for name, family in found.items():
        assert NAME.fullmatch(name), name
        assert family.documentation.endswith("."), name
        assert family.type not in name, "a name does not repeat its type"
        assert family.type == "counter" or not name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        assert not name.endswith(("_milliseconds", "_ms", "_kilobytes", "_mb")), "base units"
        for sample in family.samples:
            assert sample.labels["gateway"] == "gateway-0"
            assert all(NAME.fullmatch(label) for label in sample.labels)
            if family.type == "counter":
                assert sample.name == f"{name}_total"
    for histogram in ("mizzen_request_seconds", "mizzen_queue_wait_seconds", "mizzen_batch_size"):
        assert found[histogram].type == "histogram"
        buckets = [each for each in found[histogram].samples if each.name.endswith("_bucket")]
        counted = [each.value for each in found[histogram].samples if each.name.endswith("_count")]
        assert buckets[-1].labels["le"] == "+Inf"
        assert [each.value for each in buckets] == sorted(each.value for each in buckets)
        assert counted == [buckets[-1].value] == [1.0]


def test_histograms_without_anything_are_whole() -> None:
    empty = prometheus_text.Histogram(BOUNDS, [0] * 16, 0.0)
    rows: list[tuple[prometheus_text.Labels, None]] = [((), None)]
    families = prometheus_text.build_families([("x_seconds", "histogram", "X.", lambda _: empty)], rows)
    text = prometheus_text.render(families)
    [family] = _families(text.decode())
    assert len(family.samples) == len(BOUNDS) + 3


def test_siblings_are_shown_as_long_as_they_live(gateway: Gateway, folder: Path) -> None:
    mine = Metrics()
    mine.counters("default", "m", "1").record_end(200, 0.1)
    living = counted(mine, "gateway-1")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead = msgspec.structs.replace(living, gateway="gateway-2", pid=ended.pid)
    for each in (living, dead):
        counts.write(folder / "counts", each)
    (folder / "counts" / "gateway-3.json").write_text("{")
    shown = set(re.findall(r'gateway="(gateway-\d)"', gateway.ask("GET", "/metrics").body.decode()))
    assert shown == {"gateway-0", "gateway-1"}
    counts.sweep(folder / "counts", ["gateway-0", "gateway-2"])
    assert not (folder / "counts" / "gateway-1.json").exists(), "no gateway has this name"
    assert not (folder / "counts" / "gateway-2.json").exists(), "its process is gone"
    assert (folder / "counts" / "gateway-0.json").exists()


def test_counts_are_written_while_anything_changes_and_removed_at_the_end(
    start_gateway: Callable[..., Gateway], gateway: Gateway, folder: Path
) -> None:
    file = folder / "counts" / "gateway-0.json"
    gateway.infer([1.0])

    def written() -> Counts | None:
        return next((each for each in counts.read(folder / "counts") if each.requests), None)

    found = until(written, "what was asked is written down")
    assert found.requests == [
        RequestCounts("default", "m", "1", {200: 1}, found.requests[0].buckets, found.requests[0].seconds, 0)
    ]
    assert [(each.server, each.replicas, each.batch_items) for each in found.served] == [("default/m", 1, 1)]
    assert file.stat().st_mode & 0o777 == 0o600
    gateway.stop()
    gateway.done.result(60)
    assert not file.exists()
    assert list(file.parent.iterdir()) == []


def _families(text: str) -> list:  # type: ignore[type-arg] # that of a library without types
    return list(text_string_to_metric_families(text))
