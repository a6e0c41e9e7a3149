"""Counters, and the text that is made of them."""

from __future__ import annotations

from mizzen.gateway.metrics import BOUNDS, Metrics


def everything(_namespace: str, _name: str) -> bool:
    return True


def test_a_histogram_counts_up() -> None:
    metrics = Metrics()
    counters = metrics.counters("default", "m", "1")
    for seconds in (0.0001, BOUNDS[0], 0.3, 99.0):
        counters.in_flight += 1
        counters.ended(200, seconds)
    text = metrics.render([], everything).decode()
    labels = 'namespace="default",model="m",version="1"'
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.0005"}} 2\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.25"}} 2\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="0.5"}} 3\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="30.0"}} 3\n' in text
    assert f'mizzen_request_seconds_bucket{{{labels},le="+Inf"}} 4\n' in text
    assert f"mizzen_requests_in_flight{{{labels}}} 0\n" in text


def test_counters_live_as_long_as_their_version_is_named() -> None:
    metrics = Metrics()
    kept, busy, gone = (metrics.counters("a", "b", version) for version in "123")
    busy.in_flight += 1
    metrics.keep({("a", "b", "1")})
    assert metrics.counters("a", "b", "1") is kept
    assert metrics.counters("a", "b", "2") is busy
    assert metrics.counters("a", "b", "3") is not gone
    busy.ended(200, 0.1)
    metrics.keep({("a", "b", "1")})
    assert b'version="2"' not in metrics.render([], everything)


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.counters("default", 'a"b\\c\nd', "1").ended(200, 0.1)
    assert 'model="a\\"b\\\\c\\nd"' in metrics.render([], everything).decode()


def test_every_family_is_declared_once() -> None:
    lines = Metrics().render([], everything).decode().splitlines()
    declared = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(declared) == len(set(declared))
    assert all(len(line.split(maxsplit=3)) == 4 for line in lines if line.startswith("# HELP"))
