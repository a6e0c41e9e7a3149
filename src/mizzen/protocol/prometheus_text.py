"""Renders metric families in Prometheus' text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class MetricSample(NamedTuple):
    name: str
    """The name of its family; for a histogram or summary with _bucket, _sum or _count."""
    labels: Labels
    value: float


class MetricFamily(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    samples: Sequence[MetricSample]


def render(families: Iterable[MetricFamily]) -> bytes:
    lines: list[str] = []
    for name, kind, help_, samples in families:
        lines += (f"# HELP {name} {_escape_help(help_)}", f"# TYPE {name} {kind}")
        lines += [f"{sample}{_format_labels(labels)} {value!r}" for sample, labels, value in samples]
    return "\n".join([*lines, ""]).encode()


def histogram_samples(
    name: str, labels: Labels, bounds: Sequence[float], buckets: Sequence[int], total: float
) -> Iterator[MetricSample]:
    """`buckets` are not cumulative; the last is for values above all bounds. `total` is the sum of all values."""
    counts = list(accumulate(buckets))
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        yield MetricSample(f"{name}_bucket", (*labels, ("le", bound)), count)
    yield MetricSample(f"{name}_sum", labels, total)
    yield MetricSample(f"{name}_count", labels, counts[-1])


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
