"""deploy, serve, undeploy, promote, predict, feedback: a model's way to its callers, and back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from mizzen import errors
from mizzen.cli import completions, interrupts, object_arguments, output
from mizzen.cli.object_arguments import (
    Force,
    ModelArgument,
    NoRequirements,
    OneRequirement,
    PythonOption,
    RequirementsFile,
    VersionArgument,
)
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.operations.deploy import Deployment

_PATIENCE: Final = 0.5
"""Seconds without an answer after which it is said why."""


def deploy(
    *,
    what: Annotated[str, typer.Argument(metavar="PATH|MODULE:OBJECT", help="A file, a folder, or Python code.")],
    name: Annotated[str, typer.Option("--name", help="The model to add a version to; created when absent.")],
    framework: Annotated[
        str | None, typer.Option(help="sklearn, xgboost, lightgbm, onnx or python; default: by the files.")
    ] = None,
    entrypoint: Annotated[
        str | None, typer.Option(help="What to load of a folder or file: module:object, or a file in it.")
    ] = None,
    requirements: RequirementsFile = None,
    requirement: OneRequirement = None,
    no_requirements: NoRequirements = False,
    python: PythonOption = None,
    promote: Annotated[bool, typer.Option("--promote/--no-promote", help="Make it the current version.")] = True,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it answers.")] = True,
    timeout: Annotated[float, typer.Option(callback=_positive, help="Seconds to wait for the model to load.")] = 120.0,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Register the next version of a model, serve it, wait until it answers, and make it current.

    \b
    Example:
      mizzen deploy model.joblib --name iris
      mizzen deploy my_module:predict --name doubler --no-promote
      mizzen deploy folder --name scorer --entrypoint scorer:predict
      mizzen deploy model.joblib --name iris --requirement scikit-learn==1.5.2 --requirement joblib
    """
    from mizzen.sdk.packaging import source

    required = object_arguments.required(requirements, requirement, none=no_requirements)
    steps = Steps(name)
    with source.opened(what, Path.cwd(), entrypoint) as found, interrupts.told(steps.left):

        async def work(plane: AsyncPlane) -> Deployment:
            steps.begun = await plane.deploy(
                name,
                found.path,
                framework=framework or found.framework,
                entrypoint=found.entrypoint,
                requirements=required,
                python=python,
                promote=promote,
                wait=False,
                progress=steps.tell,
            )
            if wait:
                await plane.finish(steps.begun, promote=promote, timeout=timeout, progress=steps.tell)
            return steps.begun

        done = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(asdict(done), form)
    elif wait:
        output.say(f"{name} version {done.version} answers at {done.url}/infer")
    else:
        later = f"; when it is ready: mizzen promote {name} {done.version}" if promote else ""
        output.say(f"{name} version {done.version} is starting as {done.server}{later}")


def serve(
    *,
    model: ModelArgument,
    version: VersionArgument,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="ID", help="This one of its checkpoints; default: the newest, if it was trained."),
    ] = None,
    replicas: Annotated[int, typer.Option(min=0, help="Processes that answer.")] = 1,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.")] = True,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Serve a registered version once more, beside what is served already; 'promote' makes it current.

    \b
    Example:
      mizzen serve iris 1
      mizzen serve iris 1 --checkpoint iris-1-x7k2p-0c29a1f0
    """

    async def work(plane: AsyncPlane) -> str:
        server = await plane.serve(model, version, replicas, checkpoint=checkpoint)
        if wait:
            await plane.wait_ready(server, progress=Steps(model).tell)
        return server

    server = call(data_dir, work, namespace)
    text = f"{model} version {version} {'answers' if wait else 'is starting'} as {server}"
    output.outcome({"model": model, "version": version, "server": server, "ready": wait}, form, text)


def undeploy(
    name: ModelArgument,
    version: Annotated[str | None, typer.Option(help="Only this version; default: all that are served.")] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also the current version while others are served: its callers get 503.")
    ] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Stop serving a model. Its versions stay registered.

    \b
    Example:
      mizzen undeploy iris --version 1
    """
    ended = call(data_dir, lambda plane: plane.undeploy(name, version, force=force), namespace)
    output.outcome({"ended": ended}, form, "\n".join(f"{server} ended" for server in ended))


def promote(
    model: ModelArgument,
    version: VersionArgument,
    *,
    force: Force = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Make a version of a model the current one.

    \b
    Example:
      mizzen promote iris 2
    """
    call(data_dir, lambda plane: plane.promote(model, version, force=force), namespace)
    output.outcome({"model": model, "current": version}, form, f"version {version} of {model} is current")


def predict(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A model; a version of it, as iris:2 or iris@prod; or what is served by a name of its own.",
            autocompletion=completions.callable_names,
        ),
    ],
    text: Annotated[
        str, typer.Option("--data", "-d", metavar="JSON|@FILE|-", help="Rows, an object of inputs, or a V2 request.")
    ],
    outputs: Annotated[list[str] | None, typer.Option("--output-name", help="Ask for this output; repeatable.")] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Ask a model.

    \b
    Example:
      mizzen predict iris --data '[[5.1,3.5,1.4,0.2]]'
      mizzen predict iris@prod --data @request.json -o json
      mizzen predict iris:2 --data '[[5.1,3.5,1.4,0.2]]'
    """
    inputs = read_data(text)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        waking = asyncio.create_task(_tell_waking(plane, name))
        try:
            return await plane.infer(name, inputs, outputs=outputs or None)
        except errors.NotFound as error:
            raise errors.NotFound(error.message, hint=error.hint or await _unserved(plane, name)) from error
        finally:
            waking.cancel()

    answer = call(data_dir, work, namespace)
    if form is not Format.TABLE:
        output.data(answer, form)
        return
    for tensor in answer["outputs"]:
        output.say(f"{tensor['name']}: {json.dumps(nested(tensor['data'], tensor['shape']), ensure_ascii=False)}")
    output.note(f"{answer.get('model_name', name)} version {answer.get('model_version')}, request {answer.get('id')}")


def feedback(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="What answered: a graph, or a model.", autocompletion=completions.callable_names
        ),
    ],
    id_: Annotated[str, typer.Argument(metavar="ID", help="Of the request: the `id` of its answer.")],
    reward: Annotated[
        float | None, typer.Option(help="How well it was answered, from 0 to 1.", show_default=False)
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE|-", help="What the answer should have been.", show_default=False),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whom it was for.", show_default=False)] = None,
    routing: Annotated[
        str | None,
        typer.Option(help="The answer's parameter `routing`: counts where its record is gone.", show_default=False),
    ] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Tell how well a request was answered.

    \b
    Example:
      mizzen feedback egreedy 0c29a1f04d --reward 1
      mizzen feedback iris 0c29a1f04d --truth '[0]'
    """
    if reward is None and truth is None:
        raise typer.BadParameter("give --reward, --truth, or both")
    known = None if truth is None else read_data(truth, "--truth", "[0]")
    answer = call(
        data_dir,
        lambda plane: plane.feedback(name, id_, reward=reward, truth=known, user=user, routing=routing),
        namespace,
    )
    said = "counted" if answer["counted"] else "had been counted before"
    output.outcome(answer, form, f"a reward of {answer['reward']:g} for request {id_} {said}")


async def _tell_waking(plane: AsyncPlane, name: str) -> None:
    """While there is no answer: why."""
    told = ""
    while True:
        await asyncio.sleep(_PATIENCE)
        with contextlib.suppress(errors.MizzenError):  # whoever waits for the answer is told what is wrong
            reason = await plane.delay(name)
            if reason and reason != told:
                output.note(f"… waking {name}: {reason}")
            told = reason


class Steps:
    """How far a deployment got: told as it goes, and once more when it is interrupted."""

    def __init__(self, model: str) -> None:
        self.begun: Deployment | None = None
        self._model = model
        self._last = ""
        self._began = time.monotonic()

    def tell(self, step: str) -> None:
        self._last = step
        if step == "starting" or step.startswith("… "):
            output.note(f"… {step.removeprefix('… ')}")
        else:
            output.note(f"✓ {step}  {time.monotonic() - self._began:.1f} s")

    def left(self) -> str:
        from mizzen.sdk.operations import deploy as operations_deploy

        if self.begun is None:
            return f"{self._last or 'nothing is known to be registered'}; see 'mizzen history {self._model}'"
        if self._last == "current":
            return f"version {self.begun.version} of {self._model} is current, as {self.begun.server}"
        return operations_deploy.goes_on(self._model, self.begun.version, self.begun.server)


def _positive(value: float) -> float:
    if not value > 0:  # nor NaN
        raise typer.BadParameter("must be more than 0")
    return value


def read_data(text: str, option: str = "--data", example: str = "[[5.1,3.5,1.4,0.2]]") -> Any:
    """What an option says: JSON, @FILE, or - for stdin. NotFound, BadRequest."""
    name = "stdin" if text == "-" else text[1:]
    try:
        if text == "-":
            stdin: TextIO | None = sys.stdin
            if stdin is None:
                raise errors.BadRequest("stdin is closed", hint="give it a file: mizzen predict NAME -d - < rows.json")
            text = stdin.read()
        elif text.startswith("@"):
            text = Path(name).read_text()
        return json.loads(text)
    except OSError as error:
        raise errors.NotFound(f"cannot read {name}: {error.strerror}") from error
    except ValueError as error:
        raise errors.BadRequest(f"{option} is no JSON: {error}", hint=f"for example {option} '{example}'") from error


async def _unserved(plane: AsyncPlane, name: str) -> str:
    """What to do about a name that nothing answers to."""
    from mizzen.sdk.packaging import references

    said = references.parse(name)
    try:
        known = [str(item["version"]) for item in await plane.list_versions(said.name)]
    except errors.MizzenError:
        return "'mizzen get models' lists models, 'mizzen get inferencemodels' what is served"
    if not known:
        return f"it is a model without versions: 'mizzen deploy PATH --name {said.name}'"
    if said.alias:
        return f"'mizzen alias list {said.name}' lists its aliases; one answers when its version is served"
    if said.version and said.version not in known:
        return f"it is not registered: 'mizzen version list {said.name}' lists what is"
    wanted = f"{said.name} {said.version or known[-1]}"
    promoted = "" if said.version else f", then 'mizzen promote {wanted}'"
    return f"it is registered but not served: 'mizzen serve {wanted}'{promoted}"


def nested(flat: list[Any], shape: list[int]) -> list[Any]:
    """Flat V2 data as lists within lists."""
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size)] if size else flat
    return flat
