"""`mizzen train start`: from code or a version to a job set, its checkpoint, and a server of that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, interrupts, output
from mizzen.cli.models.deploy import Steps
from mizzen.cli.object_arguments import ModelArgument, PackageOptions
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session
from mizzen.cli.training.job_options import InputOptions, ResourceOptions

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.client import AsyncPlane

VersionArgument = Annotated[
    str | None, argument("VERSION", "Version whose code to run [default: the newest].", completions.versions)
]


def start(
    *,
    model: ModelArgument,
    version: VersionArgument = None,
    command: Annotated[list[str] | None, argument("-- COMMAND…", "Command to run [default: python train.py].")] = None,
    code: Annotated[
        Path | None, option("Code to register as a new version first; creates the model if needed.", metavar="PATH")
    ] = None,
    framework: Annotated[str | None, option("Framework of the code, if its files do not show it.")] = None,
    packages: PackageOptions,
    inputs: InputOptions,
    resources: ResourceOptions,
    serve: Annotated[bool, option("If it succeeds, serve its last checkpoint.", "--serve")] = False,
    wait: Annotated[bool, option("Wait until training ends.", "--wait/--no-wait")] = True,
    follow: Annotated[
        bool | None, option("While waiting, print the log, or nothing [default: progress].", "--follow/--quiet")
    ] = None,
    session: Session,
) -> None:
    """Train a version of a model and show its progress. Exits with 1 if training fails. Ctrl-C leaves it running.

    \b
    Example:
      mizzen train start iris --code examples/training/iris --param epochs=20 --serve
      mizzen train start iris 2 --dataset s3://flowers/iris --secret bucket --restart OnFailure
      mizzen train start sums --code examples/training/exchange --replicas 2 -- python exchange.py
    """
    from mizzen.sdk.operations import train

    if code is not None and version is not None:
        raise typer.BadParameter("--code registers a new version: give --code or VERSION, not both")
    _check_wait(wait=wait, serve=serve, follow=follow)
    options = packages.keywords()
    if code is None and any(value is not None for value in options.values()):
        raise typer.BadParameter("--requirements and --python need --code: a registered version has its own")
    declared = None if code is not None else framework
    spec = train.spec_of(command=command, framework=declared, **inputs.keywords(), **resources.keywords())
    steps = TrainingSteps(model)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        number = version
        if code is not None:
            from mizzen.sdk.operations import deploy
            from mizzen.sdk.packaging import requirements

            train.refuse_unstartable(model, code, spec)
            added = await deploy.register_code(plane, model, code, framework=framework, **options)
            number = str(added["version"])
            steps.tell(f"registered version {number}{requirements.describe(added)}")
        job = await _start_job(plane, model, number or await plane.newest_version(model), spec, steps)
        ended = await _watch(plane, job, steps, wait=wait, follow=follow, form=session.form)
        return {**ended, "served": await _serve_checkpoint(plane, steps)} if serve else ended

    with interrupts.report_interrupt(steps.summary):
        done = session.call(work)
    if session.form is Format.TABLE:
        _report_end(done, waited=wait)
    else:
        session.write_data(done)


def _check_wait(*, wait: bool, serve: bool, follow: bool | None) -> None:
    if wait or not (serve or follow):
        return
    option, later = ("--serve", "serve") if serve else ("--follow", "train logs -f")
    raise typer.BadParameter(f"{option} needs the end of training: leave out --no-wait, or run 'mizzen {later}' later")


class TrainingSteps(Steps):
    """Steps of a training, and what keeps running after an interrupt."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.job: JobRef | None = None
        self.ended = False

    def summary(self) -> str:
        if self.job is None or self.ended:
            return super().summary()
        return (
            f"job {self.job.id} keeps running; 'mizzen train logs {self.job.id} -f' follows it, "
            f"'mizzen train stop {self.job.id}' stops it"
        )


async def _start_job(
    plane: AsyncPlane, model: str, version: str, spec: dict[str, Any], steps: TrainingSteps
) -> dict[str, Any]:
    from mizzen.sdk.api.jobs import JobRef

    path = (spec.get("dataset") or {}).get("path")
    if path and plane.place.data_dir is not None and not Path(path).exists():  # noqa: ASYNC240 - once
        raise errors.NotFound(f"the dataset {path} does not exist")
    job = await plane.start_job(model, version, spec)
    steps.job = JobRef(model, str(job.get("version") or version), str(job["id"]))
    steps.tell(f"started {steps.job.id}")
    return job


async def _watch(
    plane: AsyncPlane, job: dict[str, Any], steps: TrainingSteps, *, wait: bool, follow: bool | None, form: Format
) -> dict[str, Any]:
    """The job once it has ended; without `wait`, once it has started."""
    from mizzen.cli.training import watch

    assert steps.job is not None
    if not wait:
        # Programs that read data poll for themselves.
        return await watch.wait_started(plane, steps.job, job) if form is Format.TABLE else job
    # With data on stdout, progress goes to stderr.
    return await watch.wait(plane, steps.job, follow=follow, tell=_print if form is Format.TABLE else _print_note)


async def _serve_checkpoint(plane: AsyncPlane, steps: TrainingSteps) -> dict[str, Any]:
    """Serve the newest checkpoint of the job; it is ready and current on return."""
    from mizzen.sdk.operations.deploy import Deployment

    assert steps.job is not None
    steps.ended = True
    job = steps.job
    server = await plane.serve_job(job)
    steps.deployment = Deployment(job.model, job.version, server, await plane.inference_url(job.model))
    await plane.finish(steps.deployment, progress=steps.tell)
    others = [
        str(each["id"])
        for each in (await plane.describe_model(job.model))["servers"]
        if str(each["version"]) == job.version and each["id"] != server
    ]
    if others:
        output.note(
            f"{', '.join(others)} also serves version {job.version}, possibly from another checkpoint; to send all "
            f"calls to {server}: 'mizzen delete inferencemodel {' '.join(others)}'"
        )
    return {"server": server, "url": steps.deployment.url}


def _report_end(job: dict[str, Any], *, waited: bool) -> None:
    id_, model, version = job["id"], job.get("model"), job.get("version")
    if not waited:
        output.write(f"{id_} trains version {version} of {model}")
        from mizzen.cli.training import watch

        if why := watch.describe_obstacle(job):
            output.note(why)
        output.note(f"'mizzen train logs {id_} -f' follows it, 'mizzen train show {id_}' shows its progress")
        return
    from mizzen.cli.training import views

    output.write(views.describe_success(job))
    if "served" in job:
        output.write(f"{model} version {version} answers at {job['served']['url']}/infer")
        output.note(f"'mizzen predict {model} --data JSON' sends it a request")
    elif job.get("checkpoints"):
        output.note(f"'mizzen serve {model} {version}' serves it")


def _print(piece: str) -> None:
    output.write(piece, nl=False, colors=True)


def _print_note(piece: str) -> None:
    output.note(piece.rstrip("\n"))
