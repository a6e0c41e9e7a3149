"""The group `mizzen train`: job sets, over the /model API. `start` is in its own module."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen.cli import completions, output
from mizzen.cli.help_format import Group, PassthroughCommand
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import PlaneConnection, Session
from mizzen.cli.training.start import start

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

train = Group(
    "train",
    "Training jobs: start, list, show, logs, stop and others.",
    "mizzen train start iris --code examples/training/iris --serve",
)
train.command("start", cls=PassthroughCommand)(start)

JobArgument = Annotated[str, argument("JOB", "Id of the job set.", completions.jobs)]


class StateFilter(StrEnum):
    ONGOING = "ongoing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ALL = "all"


@train.command("list")
def list_jobs(
    *,
    model: Annotated[str | None, argument("MODEL", "Only jobs of this model.", completions.models)] = None,
    version: Annotated[str | None, option("Only jobs of this version.")] = None,
    state: Annotated[
        StateFilter, option("State of the jobs to list; ongoing includes waiting ones.")
    ] = StateFilter.ONGOING,
    session: Session,
) -> None:
    """List job sets, newest first.

    \b
    Example:
      mizzen train list
      mizzen train list iris --state all
    """
    if version is not None and model is None:
        raise typer.BadParameter("--version needs MODEL")
    items = session.call(lambda plane: plane.jobs(model, version, state=state.value))
    from mizzen.cli.training import views

    ongoing = "no job is running or waiting; --state all also lists jobs that have ended"
    nothing = ongoing if state is StateFilter.ONGOING else "no jobs"
    session.write_rows(items, views.TITLES, views.job_rows(items), nothing)


@train.command("show")
def show(job: JobArgument, session: Session) -> None:
    """Show a job set: its progress, replicas and checkpoints.

    \b
    Example:
      mizzen train show iris-1-x7k2p
    """

    async def work(plane: AsyncPlane) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        ref = await plane.find_job(job)
        return await plane.job(ref), await plane.checkpoints(ref)

    found, checkpoints = session.call(work)
    from mizzen.cli.training import views

    session.write_lines(found, views.describe_job(found, checkpoints))


@train.command("logs")
def logs(
    job: JobArgument,
    *,
    follow: Annotated[bool, option("Keep printing new lines until the job ends.", "--follow", "-f")] = False,
    tail: Annotated[int | None, option("Only the last N lines.", min=0)] = None,
    since: Annotated[str | None, option("Only lines since a time, or since 10m ago.")] = None,
    replica: Annotated[str | None, option("Only this replica, such as worker-0.")] = None,
    connection: PlaneConnection,
) -> None:
    """Show the output of the replicas of a job set, in time order.

    \b
    Example:
      mizzen train logs iris-1-x7k2p -f
      mizzen train logs iris-1-x7k2p --replica worker-1 --tail 20
    """

    async def work(plane: AsyncPlane) -> None:
        async for piece in plane.job_logs(job, follow=follow, tail=tail, since=since, replica=replica):
            output.write(piece, nl=False, colors=True)

    connection.call(work)


@train.command("checkpoints")
def checkpoints(
    job: JobArgument,
    *,
    get: Annotated[str | None, option("Download the files of this checkpoint.", metavar="ID")] = None,
    trust: Annotated[
        str | None, option("Trust this checkpoint: it may be served, even if it is a pickle.", metavar="ID")
    ] = None,
    to: Annotated[Path | None, option("Folder to download to [default: the id].", metavar="DIR")] = None,
    session: Session,
) -> None:
    """List the checkpoints of a job set, or download or trust one. The list begins with the newest.

    \b
    Example:
      mizzen train checkpoints iris-1-x7k2p
      mizzen train checkpoints iris-1-x7k2p --get iris-1-x7k2p-0c29a1f0 --to best
      mizzen train checkpoints iris-1-x7k2p --trust iris-1-x7k2p-0c29a1f0
    """
    if get is not None and trust is not None:
        raise typer.BadParameter("--get and --trust cannot be combined: run one after the other")
    if trust is not None and to is None:
        trusted = session.call(lambda plane: plane.trust_checkpoint(job, trust))
        session.write_outcome(trusted, f"{trust} is trusted: its contents may run")
        return
    if get is not None:
        folder = session.call(lambda plane: plane.fetch_checkpoint(job, get, to or Path(get)))
        session.write_outcome({"checkpoint_id": get, "folder": str(folder)}, f"{get} is in {folder}")
        return
    if to is not None:
        raise typer.BadParameter("--to needs --get ID")
    items = session.call(lambda plane: plane.checkpoints(job))
    from mizzen.cli.training import views

    nothing = f"{job} has no checkpoints: none was saved yet, or they were removed"
    session.write_rows(items, views.CHECKPOINT_TITLES, views.checkpoint_rows(items), nothing)


@train.command("stop")
def stop(
    job: JobArgument,
    *,
    wait: Annotated[bool, option("Wait until its processes have ended.", "--wait/--no-wait")] = True,
    session: Session,
) -> None:
    """Stop a job set. Its logs and checkpoints are kept.

    \b
    Example:
      mizzen train stop iris-1-x7k2p
    """
    ended = session.call(lambda plane: plane.stop_job(job, wait=wait))
    session.write_outcome(ended, f"{job} {_stop_text(ended)}")


@train.command("suspend")
def suspend(job: JobArgument, session: Session) -> None:
    """Stop the processes of a job set until it is resumed. Its deadline is paused meanwhile.

    \b
    Example:
      mizzen train suspend iris-1-x7k2p
    """
    suspended = session.call(lambda plane: plane.suspend_job(job))
    session.write_outcome(suspended, f"{job} is suspended; 'mizzen train resume {job}' resumes it")


@train.command("resume")
def resume(job: JobArgument, session: Session) -> None:
    """Resume a suspended job set from its last checkpoint.

    \b
    Example:
      mizzen train resume iris-1-x7k2p
    """
    resumed = session.call(lambda plane: plane.resume_job(job))
    session.write_outcome(resumed, f"{job} is resumed; 'mizzen train logs {job} -f' follows it")


def _stop_text(job: dict[str, Any]) -> str:
    if job["state"] == "Succeeded":
        return "had already succeeded"
    if job["state"] != "Failed":
        return "is stopping"
    return "is stopped" if job.get("reason") == "Terminated" else f"had already failed: {job.get('reason')}"
