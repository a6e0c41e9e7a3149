"""Renders metric families in Prometheus' text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]
MetricKind = Literal["counter", "gauge", "histogram", "summary"]
RowT = TypeVar("RowT")


class MetricSample(NamedTuple):
    name: str
    """The name of its family; for a histogram or summary with _bucket, _sum or _count."""
    labels: Labels
    value: float


class MetricFamily(NamedTuple):
    name: str
    kind: MetricKind
    help: str
    samples: Sequence[MetricSample]


class Histogram(NamedTuple):
    bounds: Sequence[float]
    buckets: Sequence[int]
    """Not cumulative; the last is for values above all bounds."""
    total: float
    """The sum of all values."""


class ValuesByLabel(NamedTuple):
    label: str
    values: Iterable[tuple[object, float]]
    """Each with its value of the label."""


MetricDefinition: TypeAlias = tuple[str, MetricKind, str, Callable[[RowT], float | Histogram | ValuesByLabel]]
"""How to compute a family from rows of counts: name, kind, help, and the value or values of a row."""


def build_families(
    definitions: Iterable[MetricDefinition[RowT]], rows: Sequence[tuple[Labels, RowT]]
) -> Iterator[MetricFamily]:
    for name, kind, help_, value in definitions:
        samples = [sample for labels, row in rows for sample in _samples_of(name, labels, value(row))]
        yield MetricFamily(name, kind, help_, samples)


def render(families: Iterable[MetricFamily]) -> bytes:
    lines: list[str] = []
    for name, kind, help_, samples in families:
        lines += (f"# HELP {name} {_escape_help(help_)}", f"# TYPE {name} {kind}")
        lines += [f"{sample}{_format_labels(labels)} {value!r}" for sample, labels, value in samples]
    return "\n".join([*lines, ""]).encode()


def _samples_of(name: str, labels: Labels, value: float | Histogram | ValuesByLabel) -> Iterator[MetricSample]:
    match value:
        case Histogram(bounds, buckets, total):
            counts = list(accumulate(buckets))
            for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
                yield MetricSample(f"{name}_bucket", (*labels, ("le", bound)), count)
            yield MetricSample(f"{name}_sum", labels, total)
            yield MetricSample(f"{name}_count", labels, counts[-1])
        case ValuesByLabel(label, values):
            for word, number in values:
                yield MetricSample(name, (*labels, (label, str(word))), number)
        case _:
            yield MetricSample(name, labels, value)


def _format_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
