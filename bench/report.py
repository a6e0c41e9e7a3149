"""From measured windows to the tables people read. Medians over rounds; ratios are of medians."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

NOISY_CORES = 0.2
"""Other load beyond this makes even CPU time per request unreliable."""


@dataclass(frozen=True, slots=True)
class Window:
    """One contestant under one load for some seconds."""

    contestant: str
    connections: int
    round: int
    requests: int
    cpu_us: float
    """User and system time of the whole server, per request."""
    parts: dict[str, float]
    """The same by role of process."""
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    other_cores: float
    """Cores kept busy by neither the server nor the load generator."""

    @property
    def enough(self) -> bool:
        """With fewer, the requests still in flight at the end would bias the cost of one."""
        return self.requests >= 3 * self.connections


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a contestant took before any load, once it had answered rightly."""

    contestant: str
    seconds: float
    cpu_seconds: float
    """From the start until the right answer, command line tools included."""
    up_cpu_seconds: float | None
    """Of this, until the plane was ready, without the model."""
    memory: dict[str, tuple[float, float]] = field(default_factory=dict)
    """RSS and PSS in MB by role, summed over the processes of a role."""


def load_table(windows: Sequence[Window]) -> str:
    """One row per number of connections and contestant, cheapest first."""
    header = ("connections", "server", "CPU µs/request", "min-max", "x nginx", "x fastapi", "requests/s")
    rows: list[tuple[str, ...]] = [(*header, "p50 ms", "p99 ms", "errors", "other load, cores")]
    for connections in sorted({window.connections for window in windows}):
        groups: dict[str, list[Window]] = {}
        for window in windows:
            if window.connections == connections and window.enough:
                groups.setdefault(window.contestant, []).append(window)
        costs = {name: median(window.cpu_us for window in group) for name, group in groups.items()}
        order = sorted(groups, key=costs.__getitem__)
        rows += [_load_row(connections, name, groups[name], costs) for name in order]
    return table(rows)


def _load_row(connections: int, name: str, group: list[Window], costs: dict[str, float]) -> tuple[str, ...]:
    cost = costs[name]
    lowest, highest = (number(pick(window.cpu_us for window in group)) for pick in (min, max))
    ratios = (f"{cost / costs[floor]:.2f}" if costs.get(floor) else "-" for floor in ("nginx", "fastapi"))
    return (
        str(connections),
        name,
        number(cost),
        f"{lowest}-{highest}",
        *ratios,
        number(median(window.per_second for window in group)),
        f"{median(window.p50_ms for window in group):.2f}",
        f"{median(window.p99_ms for window in group):.2f}",
        str(sum(window.errors for window in group)),
        f"{median(window.other_cores for window in group):.2f}",
    )


def parts_table(windows: Sequence[Window]) -> str:
    """Where the cost of a request arises, for servers of several kinds of process; empty when there is none."""
    rows = [("connections", "server", "process", "CPU µs/request")]
    chosen = [window for window in windows if len(window.parts) > 1 and window.enough]
    for connections, name in sorted({(window.connections, window.contestant) for window in chosen}):
        group = [window for window in chosen if (window.connections, window.contestant) == (connections, name)]
        for role in sorted({role for window in group for role in window.parts}):
            cost = median(window.parts.get(role, 0.0) for window in group)
            rows.append((str(connections), name, role, number(cost)))
    return table(rows) if len(rows) > 1 else ""


def footprint_table(footprints: Iterable[Footprint]) -> str:
    rows = [("server", "start s", "start CPU s", "of it `up`", "process", "RSS MB", "PSS MB")]
    for print_ in footprints:
        up = "-" if print_.up_cpu_seconds is None else f"{print_.up_cpu_seconds:.2f}"
        begin = (print_.contestant, f"{print_.seconds:.2f}", f"{print_.cpu_seconds:.2f}", up)
        for role, (rss, pss) in sorted(print_.memory.items()):
            rows.append((*begin, role, f"{rss:.1f}", f"{pss:.1f}"))
            begin = ("", "", "", "")
    return table(rows)


def noise(windows: Sequence[Window]) -> str:
    """One sentence on how far to trust the run."""
    loads = sorted(window.other_cores for window in windows)
    dropped = sum(not window.enough for window in windows)
    verdict = "NOISY: repeat it on a quiet machine" if median(loads) > NOISY_CORES else "quiet"
    text = f"Other load: median {median(loads):.2f} cores, at most {loads[-1]:.2f}: {verdict}."
    return text + (f" {dropped} windows with too few requests were left out." if dropped else "")


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table that is also aligned for reading in a terminal."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def number(value: float) -> str:
    """Three figures or so: 8.53, 21.4, 712, 35100."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
