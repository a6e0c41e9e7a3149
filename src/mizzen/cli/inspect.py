"""get, delete, logs: looking at what there is, and removing it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mizzen import errors
from mizzen.cli import output, tail, words
from mizzen.cli.columns import Columns
from mizzen.cli.output import Format, Listed
from mizzen.cli.session import DataDir, Namespace, Output, call
from mizzen.cli.words import KindArgument, NameArgument

if TYPE_CHECKING:
    from mizzen.kinds.called import Called
    from mizzen.sdk.client import AsyncPlane

_PROCESS = re.compile(r"plane|supervisor|gateway(-\d+)?")


def get(
    kind: KindArgument,
    name: NameArgument = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with each change until Ctrl-C.")] = False,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", help="By labels: team=a, 'stage in (dev, prod)', !old, …")
    ] = None,
    field_selector: Annotated[
        str | None, typer.Option("--field-selector", help="By fields: spec.modelName=iris, metadata.name=x.")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of every namespace.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Annotated[Listed, typer.Option("--output", "-o", help="How to print the result.")] = Listed.TABLE,
) -> None:
    """Show objects of a kind.

    \b
    Example:
      mizzen get models
      mizzen get inferencemodel/iris-1 -o yaml
      mizzen get modelversions -l team=vision --all-namespaces
    """
    found, named = words.kind_and_name(kind, name)
    if named is not None and (selector or field_selector or everywhere):
        raise typer.BadParameter("a name says it all: leave out selectors and --all-namespaces")
    where = "*" if everywhere else namespace
    if watch:
        call(data_dir, lambda plane: _watch(plane, found, named, selector, form), where)
        return
    if named is not None:
        whole = call(data_dir, lambda plane: plane.get(found.plural, named), namespace)
        items = [whole]
    else:
        whole = call(data_dir, lambda plane: plane.list(found.plural, labels=selector, fields=field_selector), where)
        items = whole["items"]
    if form in (Listed.JSON, Listed.YAML):
        output.data(whole, form)
    elif form is Listed.NAME:
        for item in items:
            output.say(f"{found.singular}/{item['metadata']['name']}")
    elif items:
        columns = Columns(found, everywhere=everywhere, wide=form is Listed.WIDE)
        output.table(columns.titles, map(columns.row, items))
    else:
        output.note(f"no {found.plural}")


def delete(
    kind: KindArgument,
    name: NameArgument = None,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it and its processes are gone.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="A model: end all that serves it first.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Delete an object.

    \b
    Example:
      mizzen delete inferencemodel iris-1 --wait
      mizzen delete model/iris --cascade
    """
    from mizzen.sdk import deployment

    found, named = words.one_object(kind, name)
    if cascade and found.name != "Model":
        raise typer.BadParameter(f"is for a model, not for a {found.name}", param_hint="'--cascade'")

    async def work(plane: AsyncPlane) -> None:
        await (plane.delete_model(named) if cascade else plane.delete(found.plural, named))
        if wait:
            await deployment.wait_gone(plane, found.plural, [named])

    call(data_dir, work, namespace)
    text = f"{found.singular}/{named} {'is gone' if wait else 'deleted'}"
    output.outcome({"kind": found.name, "name": named, "deleted": True, "gone": wait}, form, text)


def logs(
    name: Annotated[str, typer.Argument(help="An InferenceModel such as iris-1; or plane, gateway, supervisor.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is printed, until Ctrl-C.")] = False,
    lines: Annotated[int | None, typer.Option("--tail", min=0, help="Only the last N lines.")] = None,
    namespace: Namespace = None,
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

    call(data_dir, work, namespace)


async def _watch(plane: AsyncPlane, kind: Called, name: str | None, selector: str | None, form: Listed) -> None:
    """A line, or a document, for each object there is and for each change."""
    columns = Columns(kind, everywhere=plane.namespace == "*", wide=form is Listed.WIDE)
    widths = [len(title) for title in columns.titles]
    first = True
    async for event in plane.watch(kind.plural, labels=selector):
        item = event["object"]
        if name not in (None, item["metadata"]["name"]):
            continue
        gone = "   (deleted)" if event["type"] == "DELETED" else ""
        if form in (Listed.JSON, Listed.YAML):
            output.data(item, form)
        elif form is Listed.NAME:
            output.say(f"{kind.singular}/{item['metadata']['name']}{gone}")
        else:
            row = columns.row(item)
            widths = [max(pair) for pair in zip(widths, map(len, row), strict=True)]
            for line in (columns.titles, row) if first else (row,):
                text = "   ".join(value.ljust(width) for value, width in zip(line, widths, strict=True))
                output.say(text.rstrip() + (gone if line is row else ""))
            first = False


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
