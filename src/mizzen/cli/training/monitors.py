"""The group monitor: one tool over all versions and jobs of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.help_format import Group
from mizzen.cli.object_arguments import ModelArgument
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

monitor = Group(
    name="monitor",
    help="Monitoring tools of models: start, open, show, stop.\n\n\b\nExample:\n  mizzen monitor start iris",
    no_args_is_help=True,
)


@monitor.command("start")
def start(
    *,
    model: ModelArgument,
    tool: Annotated[str | None, typer.Option(help="tensorboard or scalars; default: by the model's framework.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it answers.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Start the monitor of a model: TensorBoard, or our own viewer, over all its versions and jobs. It has one.

    \b
    Example:
      mizzen monitor start iris
      mizzen monitor start iris --tool scalars
    """

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        begun = await plane.start_monitor(model, tool)
        return await plane.wait_monitor(model) if wait else begun

    seen = call(data_dir, work, namespace)
    output.outcome(seen, form, _told(model, seen))
    if form is Format.TABLE:
        output.note(f"'mizzen monitor open {model}' opens it in a browser")


@monitor.command("open")
def open_(
    *,
    model: ModelArgument,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it here, or only tell where.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Open the monitor of a model in a browser, by an address that is good once and for a minute.

    \b
    Example:
      mizzen monitor open iris
      mizzen monitor open iris --no-browser
    """

    async def work(plane: AsyncPlane) -> str:
        try:
            await plane.wait_monitor(model)
        except errors.NotFound as error:
            raise _unstarted(model, error) from error
        return await plane.monitor_ticket(model)

    url = call(data_dir, work, namespace)
    output.outcome({"url": url}, form, url)
    if browser:
        import webbrowser

        if not webbrowser.open(url):
            output.note("no browser could be started here: open the address yourself, within a minute")


@monitor.command("show")
def show(
    model: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show the monitor of a model: which tool it is, and where it answers.

    \b
    Example:
      mizzen monitor show iris
    """

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        try:
            return await plane.monitor(model)
        except errors.NotFound as error:
            raise _unstarted(model, error) from error

    seen = call(data_dir, work, namespace)
    output.outcome(seen, form, _told(model, seen))


@monitor.command("stop")
def stop(
    model: ModelArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """End the monitor of a model. What was logged stays.

    \b
    Example:
      mizzen monitor stop iris
    """
    call(data_dir, lambda plane: plane.stop_monitor(model), namespace)
    output.outcome({"model": model, "stopped": True}, form, f"the monitor of {model} is stopped")


def _told(model: str, seen: Mapping[str, Any]) -> str:
    conditions = (seen.get("status") or {}).get("conditions") or ()
    why = next((str(one.get("message") or "") for one in conditions if one.get("type") == "Ready"), "")
    state = "answers at" if seen.get("ready") else "will answer at"
    said = f"the monitor of {model} ({seen.get('tool') or 'not known yet'}) {state} {seen.get('url') or '-'}"
    return f"{said}\n{why}" if why else said


def _unstarted(model: str, error: errors.NotFound) -> errors.NotFound:
    return errors.NotFound(error.message, hint=error.hint or f"'mizzen monitor start {model}' starts one")
