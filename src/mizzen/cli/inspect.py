"""get, delete, logs, history: looking at what there is, and removing it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output, tail
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Output, call

if TYPE_CHECKING:
    from mizzen.kinds.catalog import Kind
    from mizzen.sdk.client import AsyncPlane

_PROCESS = re.compile(r"plane|supervisor|gateway(-\d+)?")


def get(
    kind: Annotated[
        str, typer.Argument(help="Model, ModelVersion, InferenceModel or Workload; models, im, … will do.")
    ],
    name: Annotated[str | None, typer.Argument(help="One object; default: all of the kind.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with each change until Ctrl-C.")] = False,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show objects of a kind.

    \b
    Example:
      mizzen get models
      mizzen get inferencemodel iris-1 -o yaml
    """
    from mizzen.kinds import catalog

    found = catalog.find(kind)
    if watch:
        call(data_dir, lambda plane: _watch(plane, found, name, form))
        return
    if name is not None:
        one = call(data_dir, lambda plane: plane.get(found.plural, name))
        items, whole = [one], one
    else:
        whole = call(data_dir, lambda plane: plane.list(found.plural))
        items = whole["items"]
    if form is not Format.TABLE:
        output.data(whole, form)
    elif items:
        output.table(_titles(found), (_row(found, item) for item in items))
    else:
        output.note(f"no {found.plural}")


def delete(
    kind: Annotated[str, typer.Argument(help="The object's kind.")],
    name: Annotated[str, typer.Argument(help="Its name.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it and its processes are gone.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="A model: end all that serves it first.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Delete an object.

    \b
    Example:
      mizzen delete inferencemodel iris-1 --wait
      mizzen delete model iris --cascade
    """
    from mizzen.kinds import catalog
    from mizzen.sdk import deployment

    found = catalog.find(kind)
    if cascade and found.name != "Model":
        raise typer.BadParameter(f"is for a model, not for a {found.name}", param_hint="'--cascade'")

    async def work(plane: AsyncPlane) -> None:
        await (plane.delete_model(name) if cascade else plane.delete(found.plural, name))
        if wait:
            await deployment.wait_gone(plane, found.plural, [name])

    call(data_dir, work)
    output.say(f"{found.singular}/{name} {'is gone' if wait else 'deleted'}")


def logs(
    name: Annotated[str, typer.Argument(help="An InferenceModel such as iris-1; or plane, gateway, supervisor.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is printed, until Ctrl-C.")] = False,
    lines: Annotated[int | None, typer.Option("--tail", min=0, help="Only the last N lines.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a served model, or a process of the plane, printed.

    \b
    Example:
      mizzen logs iris-1 --tail 20 -f
      mizzen logs gateway
    """
    if _PROCESS.fullmatch(name):
        for piece in tail.read(_log_file(name, data_dir), lines, follow=follow):
            output.say(piece, nl=False)
        return

    async def work(plane: AsyncPlane) -> None:
        async for piece in plane.logs(name, tail=lines, follow=follow):
            output.say(piece, nl=False)

    call(data_dir, work)


def history(
    model: Annotated[str, typer.Argument(help="The model.")],
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show who did what to a model, its versions and servers, and when.

    \b
    Example:
      mizzen history iris
    """
    entries = call(data_dir, lambda plane: plane.history(model))
    if form is not Format.TABLE:
        output.data({"items": entries}, form)
        return
    keys = ("time", "actor", "action", "object")
    rows = ((*(str(entry.get(key, "")) for key in keys), _value(entry, "after.current.version")) for entry in entries)
    output.table(("TIME", "ACTOR", "ACTION", "OBJECT", "CURRENT"), rows)


async def _watch(plane: AsyncPlane, kind: Kind, name: str | None, form: Format) -> None:
    """A line, or a document, for each object there is and for each change."""
    widths = [len(title) for title in _titles(kind)]
    first = True
    async for event in plane.watch(kind.plural):
        item = event["object"]
        if name not in (None, item["metadata"]["name"]):
            continue
        if form is not Format.TABLE:
            output.data(item, form)
            continue
        row = _row(kind, item)
        widths = [max(pair) for pair in zip(widths, map(len, row), strict=True)]
        for line in (_titles(kind), row) if first else (row,):
            text = "   ".join(value.ljust(width) for value, width in zip(line, widths, strict=True))
            output.say(text.rstrip() + ("   (deleted)" if event["type"] == "DELETED" else ""))
        first = False


def _titles(kind: Kind) -> tuple[str, ...]:
    return ("NAME", *(column.title for column in kind.columns), "AGE")


def _row(kind: Kind, item: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = item["metadata"]
    values = (_value(item, column.path) for column in kind.columns)
    return (metadata["name"], *values, output.age(metadata.get("creationTimestamp")))


def _value(item: Mapping[str, Any], path: str) -> str:
    """What a column shows: dots into the object, or the word of a condition."""
    if path.startswith("condition:"):
        wanted = path.removeprefix("condition:")
        conditions = item.get("status", {}).get("conditions") or ()
        found = next((condition for condition in conditions if condition["type"] == wanted), None)
        if found is None:
            return ""
        return "True" if found["status"] == "True" else str(found.get("reason") or found["status"])
    value: Any = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _log_file(process: str, data_dir: Path | None) -> Path:
    from mizzen.sdk import locate
    from mizzen.supervisor.home import Home

    folder = Home.of(locate.data_dir_of(data_dir)).logs
    candidates = [folder / f"{process}.log", folder / f"{process}-0.log"]
    for file in candidates:
        if file.is_file():
            return file
    there = ", ".join(sorted(file.stem for file in folder.glob("*.log"))) or "no logs"
    raise errors.NotFound(f"no log of '{process}' in {folder}", hint=f"there: {there}")
