"""The group `mizzen monitor`: one tool over all versions and jobs of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.help_format import Group
from mizzen.cli.object_arguments import ModelArgument
from mizzen.cli.output import Format
from mizzen.cli.parameters import option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

monitor = Group("monitor", "Monitoring tools of models: start, open, show, stop.", "mizzen monitor start iris")


@monitor.command("start")
def start(
    *,
    model: ModelArgument,
    tool: Annotated[str | None, option("Tool: tensorboard or scalars [default: by framework].")] = None,
    wait: Annotated[bool, option("Wait until it answers.", "--wait/--no-wait")] = True,
    session: Session,
) -> None:
    """Start a model's monitor: TensorBoard, or a built-in viewer.

    Each model has one monitor, over all its versions and jobs.

    \b
    Example:
      mizzen monitor start iris
      mizzen monitor start iris --tool scalars
    """

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        begun = await plane.start_monitor(model, tool)
        return await plane.wait_monitor(model) if wait else begun

    seen = session.call(work)
    session.write_outcome(seen, _status_text(model, seen))
    if session.form is Format.TABLE:
        output.note(f"'mizzen monitor open {model}' opens it in a browser")


@monitor.command("open")
def open_(
    *,
    model: ModelArgument,
    browser: Annotated[bool, option("Open a browser, or only print the URL.", "--browser/--no-browser")] = True,
    session: Session,
) -> None:
    """Open the monitor of a model in a browser. The URL works once and for one minute.

    \b
    Example:
      mizzen monitor open iris
      mizzen monitor open iris --no-browser
    """

    async def work(plane: AsyncPlane) -> str:
        try:
            await plane.wait_monitor(model)
        except errors.NotFound as error:
            raise _with_start_hint(model, error) from error
        return await plane.monitor_ticket(model)

    url = session.call(work)
    session.write_outcome({"url": url}, url)
    if browser:
        import webbrowser

        if not webbrowser.open(url):
            output.note("no browser could be started here: open the URL yourself, within a minute")


@monitor.command("show")
def show(model: ModelArgument, session: Session) -> None:
    """Show the monitor of a model: its tool and its URL.

    \b
    Example:
      mizzen monitor show iris
    """

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        try:
            return await plane.monitor(model)
        except errors.NotFound as error:
            raise _with_start_hint(model, error) from error

    seen = session.call(work)
    session.write_outcome(seen, _status_text(model, seen))


@monitor.command("stop")
def stop(model: ModelArgument, session: Session) -> None:
    """Stop the monitor of a model. Logged data is kept.

    \b
    Example:
      mizzen monitor stop iris
    """
    session.call(lambda plane: plane.stop_monitor(model))
    session.write_outcome({"model": model, "stopped": True}, f"the monitor of {model} is stopped")


def _status_text(model: str, seen: Mapping[str, Any]) -> str:
    conditions = (seen.get("status") or {}).get("conditions") or ()
    why = next((str(one.get("message") or "") for one in conditions if one.get("type") == "Ready"), "")
    state = "answers at" if seen.get("ready") else "will answer at"
    text = f"the monitor of {model} ({seen.get('tool') or 'not known yet'}) {state} {seen.get('url') or '-'}"
    return f"{text}\n{why}" if why else text


def _with_start_hint(model: str, error: errors.NotFound) -> errors.NotFound:
    return errors.NotFound(error.message, hint=error.hint or f"'mizzen monitor start {model}' starts one")
