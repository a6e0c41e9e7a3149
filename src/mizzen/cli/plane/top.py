"""mizzen top: how what is served is doing, redrawn every two seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.plane import live_screen
from mizzen.cli.session import DataDir, Namespace, Output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.client import AsyncPlane

_PATIENCE: Final = 1.0
"""Less than a client usually has: somebody looks at the screen meanwhile."""
_RIGHT: Final = frozenset(
    {
        "REQ/S", "ERR/S", "P50", "P95", "P99", "FLIGHT", "WAIT", "BATCH", "MEMORY", "CPU", "ACCURACY", "REWARD",
        "RESTARTS",
    }
)  # fmt: skip
_JUDGED: Final = (("ACCURACY", "accuracy"), ("REWARD", "reward"))
_FIRST_OUT: Final = (
    "BATCH", "FLIGHT", "P95", "MEMORY", "WAIT", "CPU", "P50", "ERR/S", "REPLICAS", "REWARD", "ACCURACY", "RESTARTS",
)  # fmt: skip
"""Columns that are left out on a narrow terminal, in this order."""
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
    once: Annotated[bool, typer.Option("--once", help="Print one table and end, as when nobody looks.")] = False,
    sort: Annotated[Sort, typer.Option("--sort", help="By name, or the most of something first.")] = Sort.NAME,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show how served models are doing: requests, errors, latency, queues, memory and CPU. q or Ctrl-C ends it.

    \b
    Example:
      mizzen top --sort requests
      mizzen top --once -o json
    """
    from mizzen.sdk.connection import locate

    place = locate.find(data_dir=data_dir)
    from mizzen.sdk.client import AsyncPlane

    async def session() -> None:
        live = form is Format.TABLE and not once and sys.stdout.isatty()
        async with AsyncPlane(place, patience=_PATIENCE if live else 3.0, on_warning=output.warn) as plane:
            if live:
                await _show(plane, namespace, sort)
                return
            usage = await plane.usage(namespace=namespace)
            if form is not Format.TABLE:
                output.data({**usage, "models": ordered(usage["models"], sort)}, form)
                return
            for title, rows in tables(usage, sort):
                if title:
                    output.say()
                output.table(rows[0], rows[1:])
            if not usage["models"]:
                output.note("nothing is served: 'mizzen deploy FILE --name NAME' serves a model")

    asyncio.run(session())


async def _show(plane: AsyncPlane, namespace: str | None, sort: Sort) -> None:
    """Until q is pressed."""
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
        Text(output.shown(trouble or headline(usage)), style="bold red" if trouble else "dim")
    ]
    for _, lines in tables(usage, sort) if usage is not None else ():
        titles, *rows = fitting(lines, width)
        table = Table(box=None, pad_edge=False, header_style="bold", style="dim" if trouble else "")
        for title in titles:
            table.add_column(title, justify="right" if title in _RIGHT else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        parts += [Text(""), table]
    return Group(*parts)


def fitting(lines: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Without the columns that a narrow terminal has no room for, those first that tell least: cut in half, all of them
    would tell nothing."""
    for left_out in _FIRST_OUT:
        columns = list(zip(*lines, strict=True))
        if sum(max(map(len, column)) for column in columns) + _GAP * (len(columns) - 1) <= width:
            break
        kept = [column for column in columns if column[0] != left_out]
        lines = list(zip(*kept, strict=True))
    return lines


def headline(usage: Usage | None) -> str:
    if usage is None:
        return ""
    if not usage["models"]:
        return "nothing is served: 'mizzen deploy FILE --name NAME' serves a model · q ends"
    asked = sum(model["requestsPerSecond"] for model in usage["models"])
    return f"{usage['time']} · {asked:.0f} requests/s over the last {usage['seconds']:.0f} s · q ends"


def tables(usage: Usage, sort: Sort) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """The title and the rows of each, titles of columns first: models if there are any, then the plane's processes."""
    models = ordered(usage["models"], sort)
    everywhere = len({model["namespace"] for model in models} | {"default"}) > 1
    if models:
        titles = ("MODEL", "VERSION", "REQ/S", "ERR/S", "P50", "P95", "P99", "FLIGHT", "WAIT", "BATCH", "REPLICAS",
                  "MEMORY", "CPU")  # fmt: skip
        # Only where there was feedback that says so.
        judged = [(title, key) for title, key in _JUDGED if any(model.get(key) is not None for model in models)]
        rows = [
            (
                *((model["namespace"],) if everywhere else ()),
                *_row(model),
                *(_judged(model.get(key)) for _, key in judged),
            )
            for model in models
        ]
        yield "", [(*(("NAMESPACE",) if everywhere else ()), *titles, *(title for title, _ in judged)), *rows]
    processes = [
        (each["name"], output.size(each["memoryBytes"]), _percent(each["cpu"]), str(each["restarts"]))
        for each in usage["processes"]
    ]
    if processes:
        yield "processes" if models else "", [("PROCESS", "MEMORY", "CPU", "RESTARTS"), *processes]


def ordered(models: list[dict[str, Any]], sort: Sort) -> list[dict[str, Any]]:
    by_name = sorted(models, key=lambda model: (model["namespace"], model["name"], model["version"]))
    if sort is Sort.NAME:
        return by_name
    return sorted(by_name, key=lambda model: -(model[_FIELDS[sort]] or 0.0))


def _row(model: Mapping[str, Any]) -> tuple[str, ...]:
    asked, failed = model["requestsPerSecond"], model["errorsPerSecond"]
    return (
        model["name"],
        model["version"],
        output.rate(asked),
        f"{output.rate(failed)} ({failed / asked:.0%})" if failed else "0",
        *(output.milliseconds(model[name]) for name in ("p50", "p95", "p99")),
        str(model["inFlight"]),
        str(model["waiting"]),
        "-" if model["callsPerBatch"] is None else f"{model['callsPerBatch']:.1f}",
        f"{model['replicasReady']}/{model['replicasWanted']}",
        output.size(model["memoryBytes"]),
        _percent(model["cpu"]),
    )


def _judged(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(cores: float) -> str:
    """Of one core, as other programs of this name count."""
    return f"{cores:.0%}"
