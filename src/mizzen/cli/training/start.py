"""mizzen train start: from code, or a version, to a job set, its checkpoint, and a server of that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import completions, interrupts, object_arguments, output
from mizzen.cli.models.deploy import Steps, read_data
from mizzen.cli.object_arguments import ModelArgument, NoRequirements, OneRequirement, PythonOption, RequirementsFile
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobRef
    from mizzen.sdk.client import AsyncPlane

_TYPES: Final = {name.lower(): name for name in ("Chief", "Master", "Worker", "PS", "Evaluator")}
_COUNT: Final = re.compile(r"\d{1,4}")


def start(
    *,
    model: ModelArgument,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="VERSION", help="Whose code runs; default: the newest.", autocompletion=completions.versions
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND…", help="What is run there; default: python train.py.", show_default=False),
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Register this file or folder first; the model is made when absent."),
    ] = None,
    framework: Annotated[str | None, typer.Option(help="Of the code, when its files do not tell.")] = None,
    requirements: RequirementsFile = None,
    requirement: OneRequirement = None,
    no_requirements: NoRequirements = False,
    python: PythonOption = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="KEY=VALUE", help="A hyperparameter; repeatable.")
    ] = None,
    params: Annotated[str | None, typer.Option(metavar="JSON|@FILE", help="Hyperparameters as an object.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="PATH|URL|s3://BUCKET/PREFIX", help="Fetched before the command starts.")
    ] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", help="Of what is at the dataset's URL.")] = None,
    secret: Annotated[str | None, typer.Option(help="The secret with the keys of the dataset's bucket.")] = None,
    replicas: Annotated[
        str | None, typer.Option(metavar="N|TYPE=N,…", help="So many workers; or chief=1,worker=2,ps=1.")
    ] = None,
    cpu: Annotated[str | None, typer.Option(help="Processors for each replica: 2, 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory for each replica: 4Gi.")] = None,
    gpu: Annotated[float | None, typer.Option(help="GPUs for each replica, or a share of one.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher ones start first when not all can.")] = None,
    restart: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Never, OnFailure, Always or ExitCode; default: Never.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="It fails after running so long: 2h.")] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Keep only so many of its checkpoints.")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="KEY=VALUE", help="A variable of its environment; repeatable.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="When it succeeded, serve what it saved last.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = True,
    follow: Annotated[
        bool | None,
        typer.Option("--follow/--quiet", help="Meanwhile, print its log, or nothing; default: how far it is."),
    ] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Train a version of a model, show how it goes, and end with 1 when it failed. Ctrl-C leaves it running.

    \b
    Example:
      mizzen train start iris --code examples/training/iris --param epochs=20 --serve
      mizzen train start iris 2 --dataset s3://flowers/iris --secret bucket --restart OnFailure
      mizzen train start sums --code examples/training/exchange --replicas 2 -- python exchange.py
    """
    from mizzen.sdk.operations import train

    if code is not None and version is not None:
        raise typer.BadParameter("--code becomes the next version: give it or VERSION, not both")
    if serve and not wait:
        raise typer.BadParameter("--serve needs the job's end: leave --no-wait out, or 'mizzen serve' later")
    if follow and not wait:
        raise typer.BadParameter("--follow needs the job's end: leave --no-wait out, or 'mizzen train logs -f' later")
    if dataset is None and (sha256 is not None or secret is not None):
        raise typer.BadParameter(f"{'--sha256' if sha256 is not None else '--secret'} is for --dataset: name that, too")
    required = object_arguments.required(requirements, requirement, none=no_requirements)
    if code is None and (required is not None or python is not None):
        raise typer.BadParameter("--requirements and --python are for --code: a version that is there has its own")
    spec = train.spec_of(
        command=command,
        params=_params(params, param or []),
        dataset=_dataset(dataset),
        sha256=sha256,
        secret=secret,
        replicas=_replicas(replicas),
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        priority=priority,
        restart=restart,
        deadline=deadline,
        keep=keep,
        env=_env(env or []),
        framework=None if code is not None else framework,
    )
    steps = _Begun(model)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        number = version
        if code is not None:
            from mizzen.sdk.operations import deploy
            from mizzen.sdk.packaging import requirements as packaging_requirements

            train.refuse_unstartable(model, code, spec)
            added = await deploy.register_code(
                plane, model, code, framework=framework, requirements=required, python=python
            )
            number = str(added["version"])
            steps.tell(f"registered version {number}{packaging_requirements.told(added)}")
        job = await _started(plane, model, number or await plane.newest_version(model), spec, steps)
        from mizzen.cli.training import watch

        assert steps.job is not None
        if not wait:
            # Data is for programs, which look for themselves.
            return await watch.begun(plane, steps.job, job) if form is Format.TABLE else job
        # With data on stdout, what is told meanwhile goes elsewhere.
        ended = await watch.wait(plane, steps.job, follow=follow, tell=_print if form is Format.TABLE else _aside)
        return {**ended, "served": await _served(plane, steps)} if serve else ended

    with interrupts.told(steps.left):
        done = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(done, form)
        return
    _tell_end(done, waited=wait)


class _Begun(Steps):
    """What goes on when nobody waits any more."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.job: JobRef | None = None
        self.ended = False

    def left(self) -> str:
        if self.job is None or self.ended:
            return super().left()
        return (
            f"job {self.job.id} goes on; 'mizzen train logs {self.job.id} -f' follows it, "
            f"'mizzen train stop {self.job.id}' ends it"
        )


async def _started(plane: AsyncPlane, model: str, version: str, spec: dict[str, Any], steps: _Begun) -> dict[str, Any]:
    from mizzen.sdk.api.jobs import JobRef

    path = (spec.get("dataset") or {}).get("path")
    if path and plane.place.data_dir is not None and not Path(path).exists():  # noqa: ASYNC240 - once
        raise errors.NotFound(f"no file or folder {path} to train with")
    job = await plane.start_job(model, version, spec)
    steps.job = JobRef(model, str(job.get("version") or version), str(job["id"]))
    steps.tell(f"started {steps.job.id}")
    return job


async def _served(plane: AsyncPlane, steps: _Begun) -> dict[str, Any]:
    """The newest checkpoint of the job, ready and current."""
    from mizzen.sdk.operations.deploy import Deployment

    assert steps.job is not None
    steps.ended = True
    job = steps.job
    server = await plane.serve_job(job)
    steps.begun = Deployment(job.model, job.version, server, await plane.inference_url(job.model))
    await plane.finish(steps.begun, progress=steps.tell)
    others = [
        str(each["id"])
        for each in (await plane.describe_model(job.model))["servers"]
        if str(each["version"]) == job.version and each["id"] != server
    ]
    if others:
        output.note(
            f"version {job.version} is served by {', '.join(others)}, too, which may be of another checkpoint: "
            f"'mizzen delete inferencemodel {' '.join(others)}' leaves all calls to {server}"
        )
    return {"server": server, "url": steps.begun.url}


def _tell_end(job: dict[str, Any], *, waited: bool) -> None:
    id_, model, version = job["id"], job.get("model"), job.get("version")
    if not waited:
        output.say(f"{id_} trains version {version} of {model}")
        from mizzen.cli.training import watch

        if why := watch.obstacle(job):
            output.note(why)
        output.note(f"'mizzen train logs {id_} -f' follows it, 'mizzen train show {id_}' shows how far it is")
        return
    from mizzen.cli.training import views

    output.say(views.succeeded(job))
    if "served" in job:
        output.say(f"{model} version {version} answers at {job['served']['url']}/infer")
        output.note(f"'mizzen predict {model} --data JSON' asks it")
    elif job.get("checkpoints"):
        output.note(f"'mizzen serve {model} {version}' serves it")


def _params(whole: str | None, single: list[str]) -> dict[str, Any]:
    """Values are JSON where they can be read so, else texts."""
    given = read_data(whole, "--params", '{"rate": 0.1}') if whole is not None else {}
    if not isinstance(given, dict):
        raise typer.BadParameter('must be an object, such as {"rate": 0.1}', param_hint="'--params'")
    _refuse_no_numbers(given, "--params")
    each = {key: _value(text) for key, text in object_arguments.pairs(single, "--param").items()}
    _refuse_no_numbers(each, "--param")
    return {**given, **each}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _refuse_no_numbers(given: dict[str, Any], option: str) -> None:
    """Python reads NaN and infinity; JSON has no word for them."""
    for name, value in given.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            why = f"'{name}' is NaN or infinite, which is no JSON; as a text it is '\"NaN\"'"
            raise typer.BadParameter(why, param_hint=f"'{option}'") from None


def _env(given: list[str]) -> dict[str, str]:
    found = object_arguments.pairs(given, "--env")
    own = next((name for name in found if name.startswith("MIZZEN_")), None)
    if own is not None:
        raise typer.BadParameter(f"'{own}': names with MIZZEN_ are the plane's own", param_hint="'--env'")
    return found


def _dataset(text: str | None) -> str | None:
    if text == "":
        raise typer.BadParameter("names no dataset", param_hint="'--dataset'")
    return text


def _replicas(text: str | None) -> int | dict[str, int] | None:
    if text is None:
        return None
    if _COUNT.fullmatch(text):
        return int(text)
    found = {}
    for pair in text.split(","):
        name, _, count = pair.partition("=")
        if name.lower() not in _TYPES or not _COUNT.fullmatch(count):
            known = ", ".join(_TYPES)
            raise typer.BadParameter(f"'{pair}' is not TYPE=N; types are {known}", param_hint="'--replicas'")
        found[_TYPES[name.lower()]] = int(count)
    return found


def _print(piece: str) -> None:
    output.say(piece, nl=False, colours=True)


def _aside(piece: str) -> None:
    output.note(piece.rstrip("\n"))
