"""The group `mizzen graph`: drawings of graphs, traces of requests, and the state of bandits."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from mizzen import errors
from mizzen.cli import completions, output
from mizzen.cli.help_format import Group
from mizzen.cli.models.deploy import DataOption, read_data
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.client import AsyncPlane

_DEFAULT_WIDTH: Final = 120
"""Columns if stdout is not a terminal."""
_TIMEOUT: Final = 1.0

graph = Group("graph", "Graphs: show, explain, state.", "mizzen graph show experiment")

GraphArgument = Annotated[str, argument("NAME", "Name of the MLGraph.", completions.graphs)]


@graph.command("show")
def show(
    name: GraphArgument,
    watch: Annotated[bool, option("Redraw every 2 s; press q or Ctrl-C to quit.", "--watch", "-w")] = False,
    *,
    session: Session,
) -> None:
    """Draw a graph: its nodes, what they call, and the traffic.

    \b
    Example:
      mizzen graph show experiment
      mizzen graph show experiment --watch
    """
    if watch and session.form is Format.TABLE and sys.stdout.isatty():
        session.call(lambda plane: _watch(plane, name), patience=_TIMEOUT)
        return
    view = session.call(lambda plane: plane.graph(name))
    from mizzen.cli.models import graph_views

    width = shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns
    session.write_lines(view, graph_views.render_graph(view, width))


@graph.command("explain")
def explain(name: GraphArgument, text: DataOption, session: Session) -> None:
    """Trace a request through a graph. Shows its path, the time of each call, and the outputs.

    \b
    Example:
      mizzen graph explain experiment --data '[[5.1,3.5,1.4,0.2]]'
      mizzen graph explain experiment --data @request.json -o json
    """
    inputs = read_data(text)
    trace = session.call(lambda plane: plane.explain_graph(name, inputs))
    from mizzen.cli.models import graph_views

    session.write_lines(trace, graph_views.render_trace(name, trace))
    if "error" in trace:
        from mizzen.sdk.connection import transport

        raise transport.error_of(trace["code"], str(trace["error"]))


@graph.command("state")
def state(
    name: GraphArgument,
    user: Annotated[str | None, option("Show the state of this user.")] = None,
    *,
    session: Session,
) -> None:
    """Show what the bandits of a graph have learned, and how well each version does at each node.

    \b
    Example:
      mizzen graph state experiment
      mizzen graph state experiment --user ann -o json
    """
    learned = session.call(lambda plane: plane.graph_state(name, user=user))
    if session.form is not Format.TABLE:
        session.write_data(learned)
        return
    from mizzen.cli.models import graph_views

    tables = list(graph_views.build_state_tables(learned))
    for at, (title, titles, rows) in enumerate(tables):
        output.write(f"\n{title}" if at else title)
        output.write_table(titles, rows)
    if not tables:
        output.note(
            f"{name} has no bandits and no feedback yet; 'mizzen explain mlgraph.dag.route.mab' describes bandits"
        )


async def _watch(plane: AsyncPlane, name: str) -> None:
    from mizzen.cli.plane import live_screen

    await _check_exists(plane, name)
    await live_screen.redraw(plane, lambda: plane.graph(name), _screen)


async def _check_exists(plane: AsyncPlane, name: str) -> None:
    """Raise NotFound before the screen is cleared. If the plane is away, the screen waits for it."""
    try:
        await plane.graph(name)
    except errors.Unavailable:
        return


def _screen(view: dict[str, Any] | None, trouble: str, width: int) -> RenderableType:
    from rich.text import Text

    from mizzen.cli.models import graph_views

    lines = [trouble] if trouble else []
    lines += graph_views.render_graph(view, width) if view is not None else []
    return Text(
        "\n".join(map(output.escape_controls, lines)), no_wrap=True, overflow="crop", style="dim" if trouble else ""
    )
