"""Spans are sent some at once; a collector that is away costs nobody anything but spans, and those are counted."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from mizzen.telemetry import exporter as exporters
from mizzen.telemetry import otlp
from mizzen.telemetry.destination import Destination
from mizzen.telemetry.exporter import Exporter
from tests.support.collector import Collector, collecting


def encode(names: Sequence[str]) -> bytes:
    spans = [otlp.Span(bytes(15) + b"\1", bytes(7) + b"\1", b"", name, 1, 2) for name in names]
    return otlp.encode_request({"service.name": "test"}, ("mizzen", "1"), spans)


@contextmanager
def started(destination: Destination, **more: int) -> Iterator[Exporter[str]]:
    exporter = Exporter(destination, encode, **more)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.close(5.0)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(exporters, "FIRST_RETRY", 0.01)


def names(collector: Collector) -> list[str]:
    return [span.name for span in collector.spans]


def test_what_is_put_in_arrives_with_its_headers(collector: Collector) -> None:
    to = Destination(f"{collector.url}/v1/traces?a=b", headers={"api-key": "secret"}, gzip=True)
    with started(to) as exporter:
        exporter.put("one")
        collector.wait(lambda: names(collector) == ["one"], "one")
        assert collector.paths == ["/v1/traces?a=b"]
        head = collector.heads[0]
        assert (head["content-type"], head["content-encoding"], head["api-key"]) == (
            "application/x-protobuf", "gzip", "secret",
        )  # fmt: skip
        collector.wait(lambda: exporter.counts.sent == 1, "it is counted")


def test_a_busy_collector_is_asked_again(collector: Collector) -> None:
    collector.codes = [503, 429]
    with started(Destination(f"{collector.url}/v1/traces")) as exporter:
        exporter.put("one")
        collector.wait(lambda: names(collector) == ["one"], "the third attempt")
    assert (exporter.counts.sent, exporter.counts.lost) == (1, 0)


def test_what_is_refused_is_lost_and_told_once(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.codes = [401, 401]
    with caplog.at_level(logging.WARNING), started(Destination(f"{collector.url}/v1/traces")) as exporter:
        for lost in (1, 2):
            exporter.put("refused")
            collector.wait(lambda lost=lost: exporter.counts.lost == lost, "it is lost")  # type: ignore[misc]
        exporter.put("taken")
        collector.wait(lambda: exporter.counts.sent == 1, "the next is not")
    assert names(collector) == ["taken"]
    assert [record.message for record in caplog.records] == [
        f"traces cannot be sent to {collector.url}/v1/traces: 401 Unauthorized"
    ]


def test_nobody_waits_for_a_collector_that_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        exporter = Exporter(Destination(url, timeout=60.0), encode, limit=10)
        exporter.start()
        for number in range(300):
            exporter.put(str(number))
        assert exporter.counts.lost >= 300 - 10 - exporters.BATCH_SIZE
        exporter.close(0.01)  # does not wait for it either
        assert exporter.counts.sent == 0


def test_what_is_left_is_sent_before_the_end(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "INTERVAL_SECONDS", 60.0)
    exporter = Exporter(Destination(f"{collector.url}/v1/traces"), encode)
    exporter.start()
    exporter.put("last")
    exporter.close(10.0)
    assert names(collector) == ["last"]
