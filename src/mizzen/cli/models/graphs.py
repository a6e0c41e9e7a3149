"""The group graph: what a graph looks like, what it does with a request, and what its bandits have learnt."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import completions, output
from mizzen.cli.help_format import Group
from mizzen.cli.models.deploy import read_data
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.client import AsyncPlane

_WIDE: Final = 120
"""Columns where nobody looks."""
_PATIENCE: Final = 1.0

graph = Group(
    name="graph",
    help="Graphs: show, explain, state.\n\n\b\nExample:\n  mizzen graph show experiment",
    no_args_is_help=True,
)

GraphArgument = Annotated[str, typer.Argument(metavar="NAME", help="The MLGraph.", autocompletion=completions.graphs)]


@graph.command("show")
def show(
    name: GraphArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Draw it anew every 2 s; q or Ctrl-C ends it.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Draw a graph: its nodes, whether they are ready, what they call, and what passes between them.

    \b
    Example:
      mizzen graph show experiment
      mizzen graph show experiment --watch
    """
    if watch and form is Format.TABLE and sys.stdout.isatty():
        _watch(name, namespace, data_dir)
        return
    view = call(data_dir, lambda plane: plane.graph(name), namespace)
    if form is not Format.TABLE:
        output.data(view, form)
        return
    from mizzen.cli.models import graph_views

    for line in graph_views.shown(view, shutil.get_terminal_size((_WIDE, 24)).columns):
        output.say(line)


@graph.command("explain")
def explain(
    name: GraphArgument,
    text: Annotated[
        str, typer.Option("--data", "-d", metavar="JSON|@FILE|-", help="Rows, an object of inputs, or a V2 request.")
    ],
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Send a request through a graph and show the way it took, how long each call took, and what it gave.

    \b
    Example:
      mizzen graph explain experiment --data '[[5.1,3.5,1.4,0.2]]'
      mizzen graph explain experiment --data @request.json -o json
    """
    inputs = read_data(text)
    told = call(data_dir, lambda plane: plane.explain_graph(name, inputs), namespace)
    if form is not Format.TABLE:
        output.data(told, form)
    else:
        from mizzen.cli.models import graph_views

        for line in graph_views.explained(name, told):
            output.say(line)
    if "error" in told:
        from mizzen.sdk.connection import transport

        raise transport.error_of(told["code"], str(told["error"]))


@graph.command("state")
def state(
    name: GraphArgument,
    user: Annotated[str | None, typer.Option(help="What is known of this user.")] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show what the bandits of a graph have learnt, and how well each version does at each node.

    \b
    Example:
      mizzen graph state experiment
      mizzen graph state experiment --user ann -o json
    """
    told = call(data_dir, lambda plane: plane.graph_state(name, user=user), namespace)
    if form is not Format.TABLE:
        output.data(told, form)
        return
    from mizzen.cli.models import graph_views

    tables = list(graph_views.learnt(told))
    for at, (title, titles, rows) in enumerate(tables):
        output.say(f"\n{title}" if at else title)
        output.table(titles, rows)
    if not tables:
        output.note(f"{name} has no bandit, and no feedback came; 'mizzen explain mlgraph.dag.route.mab' tells of them")


def _watch(name: str, namespace: str | None, data_dir: Any) -> None:
    from mizzen.sdk.connection import locate

    place = locate.find(data_dir=data_dir)
    from mizzen.cli.plane import live_screen
    from mizzen.sdk.client import AsyncPlane

    async def session() -> None:
        async with AsyncPlane(
            place, namespace=namespace or "default", patience=_PATIENCE, on_warning=output.warn
        ) as plane:
            await _known(plane, name)
            await live_screen.redraw(plane, lambda: plane.graph(name), _screen)

    asyncio.run(session())


async def _known(plane: AsyncPlane, name: str) -> None:
    """NotFound, before the screen is taken. A plane that is away is waited for there."""
    try:
        await plane.graph(name)
    except errors.Unavailable:
        return


def _screen(view: dict[str, Any] | None, trouble: str, width: int) -> RenderableType:
    from rich.text import Text

    from mizzen.cli.models import graph_views

    lines = [trouble] if trouble else []
    lines += graph_views.shown(view, width) if view is not None else []
    return Text("\n".join(map(output.shown, lines)), no_wrap=True, overflow="crop", style="dim" if trouble else "")
