"""The group train: job sets, as the /model API has them. Starting one is in `training_start`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen.cli import completions, output
from mizzen.cli.help_format import Group, Running
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call
from mizzen.cli.training.start import start

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

train = Group(
    name="train",
    help="Training: start, list, show, logs, checkpoints, stop, suspend, resume.\n\n"
    "\b\nExample:\n  mizzen train start iris --code examples/training/iris --serve",
    no_args_is_help=True,
)
train.command("start", cls=Running)(start)

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The id of the job set.", autocompletion=completions.jobs)
]


class State(StrEnum):
    ONGOING = "ongoing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ALL = "all"


@train.command("list")
def list_jobs(
    *,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Only of this model.", autocompletion=completions.models)
    ] = None,
    version: Annotated[str | None, typer.Option(help="Only of this version of it.")] = None,
    state: Annotated[State, typer.Option(help="Those that go on or wait, or have ended so.")] = State.ONGOING,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List job sets, newest first.

    \b
    Example:
      mizzen train list
      mizzen train list iris --state all
    """
    if version is not None and model is None:
        raise typer.BadParameter("--version is of a model: name it")
    items = call(data_dir, lambda plane: plane.jobs(model, version, state=state.value), namespace)
    if form is not Format.TABLE:
        output.data({"items": items}, form)
        return
    from mizzen.cli.training import views

    if items:
        output.table(views.TITLES, views.rows(items))
    elif state is State.ONGOING:
        output.note("no job goes on or waits; --state all lists those that have ended, too")
    else:
        output.note("no jobs")


@train.command("show")
def show(
    job: JobArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show a job set: how far it is, how its replicas are, what it saved, and who serves that.

    \b
    Example:
      mizzen train show iris-1-x7k2p
    """

    async def work(plane: AsyncPlane) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        ref = await plane.find_job(job)
        return await plane.job(ref), await plane.checkpoints(ref)

    found, checkpoints = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(found, form)
        return
    from mizzen.cli.training import views

    for line in views.described(found, checkpoints):
        output.say(line)


@train.command("logs")
def logs(
    job: JobArgument,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is printed, until it ends.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="Only the last N lines.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since then: 10m for so long ago, or a time.")] = None,
    replica: Annotated[str | None, typer.Option(help="Only of this one, such as worker-0.")] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
) -> None:
    """Show what the replicas of a job set printed, in the order in which they did.

    \b
    Example:
      mizzen train logs iris-1-x7k2p -f
      mizzen train logs iris-1-x7k2p --replica worker-1 --tail 20
    """

    async def work(plane: AsyncPlane) -> None:
        async for piece in plane.job_logs(job, follow=follow, tail=tail, since=since, replica=replica):
            output.say(piece, nl=False, colours=True)

    call(data_dir, work, namespace)


@train.command("checkpoints")
def checkpoints(
    job: JobArgument,
    *,
    get: Annotated[str | None, typer.Option("--get", metavar="ID", help="Fetch the files of this one.")] = None,
    trust: Annotated[
        str | None,
        typer.Option("--trust", metavar="ID", help="Vouch for this one: it may be served, even if it is a pickle."),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Into this folder; default: its id.")] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """List what a job set saved, newest first; or fetch the files of one, or vouch for it.

    \b
    Example:
      mizzen train checkpoints iris-1-x7k2p
      mizzen train checkpoints iris-1-x7k2p --get iris-1-x7k2p-0c29a1f0 --to best
      mizzen train checkpoints iris-1-x7k2p --trust iris-1-x7k2p-0c29a1f0
    """
    if get is not None and trust is not None:
        raise typer.BadParameter("--get and --trust are two things: one after the other")
    if trust is not None and to is None:
        told = call(data_dir, lambda plane: plane.trust_checkpoint(job, trust), namespace)
        output.outcome(told, form, f"{trust} is trusted: what is in it may run")
        return
    if get is not None:
        folder = call(data_dir, lambda plane: plane.fetch_checkpoint(job, get, to or Path(get)), namespace)
        output.outcome({"checkpoint_id": get, "folder": str(folder)}, form, f"{get} is in {folder}")
        return
    if to is not None:
        raise typer.BadParameter("--to is for --get ID")
    items = call(data_dir, lambda plane: plane.checkpoints(job), namespace)
    if form is not Format.TABLE:
        output.data({"items": items}, form)
    elif not items:
        output.note(f"no checkpoint of {job} is kept: it has saved none yet, or they were removed")
    else:
        from mizzen.cli.training import views

        output.table(views.CHECKPOINT_TITLES, views.checkpoint_rows(items))


@train.command("stop")
def stop(
    job: JobArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until its processes have ended.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """End a job set. Its logs and checkpoints stay.

    \b
    Example:
      mizzen train stop iris-1-x7k2p
    """
    ended = call(data_dir, lambda plane: plane.stop_job(job, wait=wait), namespace)
    output.outcome(ended, form, f"{job} {_ended(ended)}")


@train.command("suspend")
def suspend(
    job: JobArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Stop the processes of a job set until it is resumed. Its deadline stands still.

    \b
    Example:
      mizzen train suspend iris-1-x7k2p
    """
    told = call(data_dir, lambda plane: plane.suspend_job(job), namespace)
    output.outcome(told, form, f"{job} is suspended; 'mizzen train resume {job}' lets it go on")


@train.command("resume")
def resume(
    job: JobArgument,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Let a suspended job set go on from what it saved.

    \b
    Example:
      mizzen train resume iris-1-x7k2p
    """
    told = call(data_dir, lambda plane: plane.resume_job(job), namespace)
    output.outcome(told, form, f"{job} goes on; 'mizzen train logs {job} -f' follows it")


def _ended(job: dict[str, Any]) -> str:
    if job["state"] == "Succeeded":
        return "had succeeded before"
    if job["state"] != "Failed":
        return "is ending"
    return "is ended" if job.get("reason") == "Terminated" else f"had failed before: {job.get('reason')}"
