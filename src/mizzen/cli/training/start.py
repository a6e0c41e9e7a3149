"""`mizzen train start`: from code or a version to a job set, its checkpoint, and a server of that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import completions, interrupts, object_arguments, output
from mizzen.cli.models.deploy import Steps, read_data
from mizzen.cli.object_arguments import ModelArgument, NoRequirements, PythonOption, RequirementOption, RequirementsFile
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.client import AsyncPlane

_REPLICA_TYPES: Final = {name.lower(): name for name in ("Chief", "Master", "Worker", "PS", "Evaluator")}
_COUNT: Final = re.compile(r"\d{1,4}")


VersionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="VERSION",
        help="Version whose code to run [default: the newest].",
        autocompletion=completions.versions,
    ),
]
CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND…", help="Command to run [default: python train.py].", show_default=False),
]
Code = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Code to register as a new version first; creates the model if needed."),
]
Framework = Annotated[str | None, typer.Option(help="Framework of the code, if its files do not show it.")]
Param = Annotated[
    list[str] | None, typer.Option("--param", "-p", metavar="KEY=VALUE", help="Hyperparameter; repeatable.")
]
Params = Annotated[str | None, typer.Option(metavar="JSON|@FILE", help="Hyperparameters as a JSON object.")]
Dataset = Annotated[
    str | None, typer.Option(metavar="PATH|URL|s3://BUCKET/PREFIX", help="Dataset to fetch before the command starts.")
]
Sha256 = Annotated[str | None, typer.Option("--sha256", help="SHA-256 of the file at the dataset's URL.")]
Secret = Annotated[str | None, typer.Option(help="Secret with the keys of the dataset's bucket.")]
Replicas = Annotated[
    str | None, typer.Option(metavar="N|TYPE=N,…", help="Number of workers, or by type: chief=1,worker=2,ps=1.")
]
Cpu = Annotated[str | None, typer.Option(help="CPU cores per replica: 2, 500m.")]
Memory = Annotated[str | None, typer.Option(help="Memory per replica: 4Gi.")]
Gpu = Annotated[float | None, typer.Option(help="GPUs per replica, or a fraction of one.")]
Priority = Annotated[int | None, typer.Option(help="Priority: higher ones start first if not all can.")]
Restart = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="Restart policy: Never, OnFailure, Always, ExitCode [default: Never]."),
]
Deadline = Annotated[str | None, typer.Option(metavar="TIME", help="Maximum run time, after which it fails: 2h.")]
Keep = Annotated[int | None, typer.Option(min=1, help="Number of checkpoints to keep.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="KEY=VALUE", help="Environment variable; repeatable.")]
Serve = Annotated[bool, typer.Option("--serve", help="If it succeeds, serve its last checkpoint.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until training ends.")]
Follow = Annotated[
    bool | None,
    typer.Option("--follow/--quiet", help="While waiting, print the log, or nothing [default: progress]."),
]


def start(
    *,
    model: ModelArgument,
    version: VersionArgument = None,
    command: CommandArgument = None,
    code: Code = None,
    framework: Framework = None,
    requirements: RequirementsFile = None,
    requirement: RequirementOption = None,
    no_requirements: NoRequirements = False,
    python: PythonOption = None,
    param: Param = None,
    params: Params = None,
    dataset: Dataset = None,
    sha256: Sha256 = None,
    secret: Secret = None,
    replicas: Replicas = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    priority: Priority = None,
    restart: Restart = None,
    deadline: Deadline = None,
    keep: Keep = None,
    env: Env = None,
    serve: Serve = False,
    wait: Wait = True,
    follow: Follow = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Train a version of a model and show its progress. Exits with 1 if training fails. Ctrl-C leaves it running.

    \b
    Example:
      mizzen train start iris --code examples/training/iris --param epochs=20 --serve
      mizzen train start iris 2 --dataset s3://flowers/iris --secret bucket --restart OnFailure
      mizzen train start sums --code examples/training/exchange --replicas 2 -- python exchange.py
    """
    from mizzen.sdk.operations import train

    _check_source(code, version, dataset, sha256=sha256, secret=secret)
    _check_wait(wait=wait, serve=serve, follow=follow)
    packages = object_arguments.parse_requirements(requirements, requirement, none=no_requirements)
    if code is None and (packages is not None or python is not None):
        raise typer.BadParameter("--requirements and --python need --code: a registered version has its own")
    spec = train.spec_of(
        command=command, params=_parse_params(params, param or []), dataset=_check_dataset(dataset), sha256=sha256,
        secret=secret, replicas=_parse_replicas(replicas), cpu=cpu, memory=memory, gpu=gpu, priority=priority,
        restart=restart, deadline=deadline, keep=keep, env=_parse_env(env or []),
        framework=None if code is not None else framework,
    )  # fmt: skip
    steps = TrainingSteps(model)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        number = version
        if code is not None:
            train.refuse_unstartable(model, code, spec)
            options = {"framework": framework, "requirements": packages, "python": python}
            number = await _register(plane, model, code, steps, **options)
        job = await _start_job(plane, model, number or await plane.newest_version(model), spec, steps)
        ended = await _watch(plane, job, steps, wait=wait, follow=follow, form=form)
        return {**ended, "served": await _serve_checkpoint(plane, steps)} if serve else ended

    with interrupts.report_interrupt(steps.summary):
        done = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.write_data(done, form)
        return
    _report_end(done, waited=wait)


def _check_source(
    code: Path | None, version: str | None, dataset: str | None, *, sha256: str | None, secret: str | None
) -> None:
    if code is not None and version is not None:
        raise typer.BadParameter("--code registers a new version: give --code or VERSION, not both")
    if dataset is None and (sha256 is not None or secret is not None):
        raise typer.BadParameter(f"{'--sha256' if sha256 is not None else '--secret'} needs --dataset")


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


async def _register(plane: AsyncPlane, model: str, code: Path, steps: TrainingSteps, **options: Any) -> str:
    """Register code as the next version of a model, and return the version."""
    from mizzen.sdk.operations import deploy
    from mizzen.sdk.packaging import requirements

    added = await deploy.register_code(plane, model, code, **options)
    steps.tell(f"registered version {added['version']}{requirements.describe(added)}")
    return str(added["version"])


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
            f"version {job.version} is also served by {', '.join(others)}, possibly from another checkpoint: "
            f"'mizzen delete inferencemodel {' '.join(others)}' sends all calls to {server}"
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


def _parse_params(whole: str | None, single: list[str]) -> dict[str, Any]:
    """Hyperparameters of --params and --param. Values are JSON if they parse as such, else text."""
    params = read_data(whole, "--params", '{"rate": 0.1}') if whole is not None else {}
    if not isinstance(params, dict):
        raise typer.BadParameter('must be a JSON object, such as {"rate": 0.1}', param_hint="'--params'")
    _refuse_nan(params, "--params")
    each = {key: _parse_value(text) for key, text in object_arguments.parse_pairs(single, "--param").items()}
    _refuse_nan(each, "--param")
    return {**params, **each}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _refuse_nan(params: dict[str, Any], option: str) -> None:
    """Python's JSON parser reads NaN and infinity, which are not valid JSON."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            why = f"'{name}' is NaN or infinite, which is not valid JSON; write '\"NaN\"' for text"
            raise typer.BadParameter(why, param_hint=f"'{option}'") from None


def _parse_env(pairs: list[str]) -> dict[str, str]:
    found = object_arguments.parse_pairs(pairs, "--env")
    own = next((name for name in found if name.startswith("MIZZEN_")), None)
    if own is not None:
        raise typer.BadParameter(
            f"'{own}': names that start with MIZZEN_ are reserved for the plane", param_hint="'--env'"
        )
    return found


def _check_dataset(text: str | None) -> str | None:
    if text == "":
        raise typer.BadParameter("must not be empty", param_hint="'--dataset'")
    return text


def _parse_replicas(text: str | None) -> int | dict[str, int] | None:
    if text is None:
        return None
    if _COUNT.fullmatch(text):
        return int(text)
    found = {}
    for pair in text.split(","):
        name, _, count = pair.partition("=")
        if name.lower() not in _REPLICA_TYPES or not _COUNT.fullmatch(count):
            known = ", ".join(_REPLICA_TYPES)
            raise typer.BadParameter(f"'{pair}' is not TYPE=N; types are {known}", param_hint="'--replicas'")
        found[_REPLICA_TYPES[name.lower()]] = int(count)
    return found


def _print(piece: str) -> None:
    output.write(piece, nl=False, colors=True)


def _print_note(piece: str) -> None:
    output.note(piece.rstrip("\n"))
