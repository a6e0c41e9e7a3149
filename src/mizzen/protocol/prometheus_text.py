"""Prometheus' text format 0.0.4: families of samples -> what a scrape is answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    name: str
    """That of its family; of a histogram or summary with _bucket, _sum or _count."""
    labels: Labels
    value: float


class Family(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    samples: Sequence[Sample]


def render(families: Iterable[Family]) -> bytes:
    lines: list[str] = []
    for name, kind, help_, samples in families:
        lines += (f"# HELP {name} {_escaped_help(help_)}", f"# TYPE {name} {kind}")
        lines += [f"{sample}{_braced(labels)} {value!r}" for sample, labels, value in samples]
    return "\n".join([*lines, ""]).encode()


def histogram(
    name: str, labels: Labels, bounds: Sequence[float], buckets: Sequence[int], total: float
) -> Iterator[Sample]:
    """`buckets` each for itself, the last for what is above all bounds; `total` is the sum of what was observed."""
    counts = list(accumulate(buckets))
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        yield Sample(f"{name}_bucket", (*labels, ("le", bound)), count)
    yield Sample(f"{name}_sum", labels, total)
    yield Sample(f"{name}_count", labels, counts[-1])


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
