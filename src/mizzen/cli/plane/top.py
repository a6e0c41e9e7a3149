"""`mizzen top`: load and latency of served models, redrawn every two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.parameters import option
from mizzen.cli.plane import live_screen
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.client import AsyncPlane

_PATIENCE: Final = 1.0
"""Shorter than a client's usual patience, because the screen must stay current."""
_RIGHT_ALIGNED: Final = frozenset(
    {
        "REQ/S", "ERR/S", "P50", "P95", "P99", "FLIGHT", "WAIT", "BATCH", "MEMORY", "CPU", "ACCURACY", "REWARD",
        "RESTARTS",
    }
)  # fmt: skip
_SCORES: Final = (("ACCURACY", "accuracy"), ("REWARD", "reward"))
_DROP_ORDER: Final = (
    "BATCH", "FLIGHT", "P95", "MEMORY", "WAIT", "CPU", "P50", "ERR/S", "REPLICAS", "REWARD", "ACCURACY", "RESTARTS",
)  # fmt: skip
"""Columns to leave out on a narrow terminal, in this order."""
_GAP: Final = 2
"""Spaces between columns."""

Usage = Mapping[str, Any]


class Sort(StrEnum):
    NAME = "name"
    REQUESTS = "requests"
    ERRORS = "errors"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    WAITING = "waiting"
    MEMORY = "memory"
    CPU = "cpu"


_FIELDS: Final = {
    Sort.REQUESTS: "requestsPerSecond", Sort.ERRORS: "errorsPerSecond", Sort.P50: "p50", Sort.P95: "p95",
    Sort.P99: "p99", Sort.WAITING: "waiting", Sort.MEMORY: "memoryBytes", Sort.CPU: "cpu",
}  # fmt: skip


def top(
    once: Annotated[bool, option("Print one table and exit [default if stdout is not a terminal].", "--once")] = False,
    sort: Annotated[Sort, option("Sort by name, or by a number, largest first.")] = Sort.NAME,
    *,
    session: Session,
) -> None:
    """Show the load and latency of served models, redrawn live.

    The table has requests, errors, latency, queues, memory and CPU. Press q or Ctrl-C to quit.

    \b
    Example:
      mizzen top --sort requests
      mizzen top --once -o json
    """
    if session.form is Format.TABLE and not once and sys.stdout.isatty():
        session.call(lambda plane: _show(plane, session.namespace, sort), patience=_PATIENCE)
        return
    usage = session.call(lambda plane: plane.usage(namespace=session.namespace))
    if session.form is not Format.TABLE:
        session.write_data({**usage, "models": sort_models(usage["models"], sort)})
        return
    for title, rows in build_tables(usage, sort):
        if title:
            output.write()
        output.write_table(rows[0], rows[1:])
    if not usage["models"]:
        output.note("no model is served: 'mizzen deploy FILE --name NAME' serves one")


async def _show(plane: AsyncPlane, namespace: str | None, sort: Sort) -> None:
    """Redraw until q is pressed."""
    await live_screen.redraw(
        plane,
        lambda: plane.usage(namespace=namespace),
        lambda usage, trouble, width: _screen(usage, sort, trouble, width),
    )


def _screen(usage: Usage | None, sort: Sort, trouble: str, width: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(output.escape_controls(trouble or format_headline(usage)), style="bold red" if trouble else "dim")
    ]
    for _, lines in build_tables(usage, sort) if usage is not None else ():
        titles, *rows = fit_columns(lines, width)
        table = Table(box=None, pad_edge=False, header_style="bold", style="dim" if trouble else "")
        for title in titles:
            table.add_column(title, justify="right" if title in _RIGHT_ALIGNED else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        parts += [Text(""), table]
    return Group(*parts)


def fit_columns(lines: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The table without the columns that do not fit, least informative first.

    Truncating all columns instead would make every one of them useless.
    """
    for left_out in _DROP_ORDER:
        columns = list(zip(*lines, strict=True))
        if sum(max(map(len, column)) for column in columns) + _GAP * (len(columns) - 1) <= width:
            break
        kept = [column for column in columns if column[0] != left_out]
        lines = list(zip(*kept, strict=True))
    return lines


def format_headline(usage: Usage | None) -> str:
    if usage is None:
        return ""
    if not usage["models"]:
        return "no model is served: 'mizzen deploy FILE --name NAME' serves one · q quits"
    rate = sum(model["requestsPerSecond"] for model in usage["models"])
    return f"{usage['time']} · {rate:.0f} requests/s over the last {usage['seconds']:.0f} s · q quits"


def build_tables(usage: Usage, sort: Sort) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Tables as (title, rows), column titles first: models if there are any, then the plane's processes."""
    models = sort_models(usage["models"], sort)
    everywhere = len({model["namespace"] for model in models} | {"default"}) > 1
    if models:
        titles = ("MODEL", "VERSION", "REQ/S", "ERR/S", "P50", "P95", "P99", "FLIGHT", "WAIT", "BATCH", "REPLICAS",
                  "MEMORY", "CPU")  # fmt: skip
        # Only if feedback has produced such a number.
        judged = [(title, key) for title, key in _SCORES if any(model.get(key) is not None for model in models)]
        rows = [
            (
                *((model["namespace"],) if everywhere else ()),
                *_row(model),
                *(_format_score(model.get(key)) for _, key in judged),
            )
            for model in models
        ]
        yield "", [(*(("NAMESPACE",) if everywhere else ()), *titles, *(title for title, _ in judged)), *rows]
    processes = [
        (each["name"], output.format_size(each["memoryBytes"]), _format_percent(each["cpu"]), str(each["restarts"]))
        for each in usage["processes"]
    ]
    if processes:
        yield "processes" if models else "", [("PROCESS", "MEMORY", "CPU", "RESTARTS"), *processes]


def sort_models(models: list[dict[str, Any]], sort: Sort) -> list[dict[str, Any]]:
    by_name = sorted(models, key=lambda model: (model["namespace"], model["name"], model["version"]))
    if sort is Sort.NAME:
        return by_name
    return sorted(by_name, key=lambda model: -(model[_FIELDS[sort]] or 0.0))


def _row(model: Mapping[str, Any]) -> tuple[str, ...]:
    requests, failed = model["requestsPerSecond"], model["errorsPerSecond"]
    return (
        model["name"],
        model["version"],
        output.format_rate(requests),
        f"{output.format_rate(failed)} ({failed / requests:.0%})" if failed else "0",
        *(output.format_milliseconds(model[name]) for name in ("p50", "p95", "p99")),
        str(model["inFlight"]),
        str(model["waiting"]),
        "-" if model["callsPerBatch"] is None else f"{model['callsPerBatch']:.1f}",
        f"{model['replicasReady']}/{model['replicasWanted']}",
        output.format_size(model["memoryBytes"]),
        _format_percent(model["cpu"]),
    )


def _format_score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _format_percent(cores: float) -> str:
    """Percentage of one core, as the Unix `top` counts."""
    return f"{cores:.0%}"
