"""`mizzen deploy`, `serve`, `undeploy`, `promote`, `predict` and `feedback`."""

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
from mizzen.cli import completions, interrupts, output
from mizzen.cli.object_arguments import (
    Force,
    ModelArgument,
    PackageOptions,
    VersionArgument,
)
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.keywords import LoadKeywords
    from mizzen.sdk.operations.deploy import Deployment

DataOption = Annotated[
    str, option("Rows, an object of inputs, or a V2 request.", "--data", "-d", metavar="JSON|@FILE|-")
]
_PATIENCE: Final = 0.5
"""Seconds without a response after which the reason is shown."""


def deploy(
    *,
    what: Annotated[str, argument("PATH|MODULE:OBJECT", "File, folder or Python object to deploy.")],
    name: Annotated[str, option("Model to add a version to; created if it does not exist.")],
    framework: Annotated[
        str | None, option("Framework: sklearn, xgboost, lightgbm, onnx or python [default: by the files].")
    ] = None,
    entrypoint: Annotated[str | None, option("Object or file to load: module:object, or a file in the folder.")] = None,
    packages: PackageOptions,
    promote: Annotated[bool, option("Make it the current version.", "--promote/--no-promote")] = True,
    wait: Annotated[bool, option("Wait until it answers.", "--wait/--no-wait")] = True,
    timeout: Annotated[float, option("Seconds to wait for the model to load.", callback=_require_positive)] = 120.0,
    session: Session,
) -> None:
    """Deploy a model: register, serve and promote a version. It becomes current once it answers.

    \b
    Example:
      mizzen deploy model.joblib --name iris
      mizzen deploy my_module:predict --name doubler --no-promote
      mizzen deploy folder --name scorer --entrypoint scorer:predict
      mizzen deploy model.joblib --name iris --requirement scikit-learn==1.5.2 --requirement joblib
    """
    from mizzen.sdk.packaging import source

    environment = packages.keywords()
    steps = Steps(name)
    with source.open_source(what, Path.cwd(), entrypoint) as found, interrupts.report_interrupt(steps.summary):
        loading: LoadKeywords = {
            "framework": framework or found.framework, "entrypoint": found.entrypoint, **environment,
        }  # fmt: skip

        async def work(plane: AsyncPlane) -> Deployment:
            steps.deployment = await plane.deploy(
                name, found.path, promote=promote, wait=False, progress=steps.tell, **loading
            )
            if wait:
                await plane.finish(steps.deployment, promote=promote, timeout=timeout, progress=steps.tell)
            return steps.deployment

        done = session.call(work)
    if session.form is not Format.TABLE:
        session.write_data(asdict(done))
    elif wait:
        output.write(f"{name} version {done.version} answers at {done.url}/infer")
    else:
        later = f"; once it is ready: mizzen promote {name} {done.version}" if promote else ""
        output.write(f"{name} version {done.version} is starting as {done.server}{later}")


def serve(
    *,
    model: ModelArgument,
    version: VersionArgument,
    checkpoint: Annotated[
        str | None, option("Checkpoint to serve [default: the newest, if the version was trained].", metavar="ID")
    ] = None,
    replicas: Annotated[int, option("Number of replicas.", min=0)] = 1,
    wait: Annotated[bool, option("Wait until it is ready.", "--wait/--no-wait")] = True,
    session: Session,
) -> None:
    """Start another server for a registered version. Existing servers keep running.

    'mizzen promote' makes the version current.

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

    server = session.call(work)
    text = f"{model} version {version} {'answers' if wait else 'is starting'} as {server}"
    session.write_outcome({"model": model, "version": version, "server": server, "ready": wait}, text)


def undeploy(
    name: ModelArgument,
    version: Annotated[str | None, option("Version to stop serving [default: all].")] = None,
    *,
    force: Annotated[
        bool, option("Stop the current version even while others are served; its callers get 503.", "--force")
    ] = False,
    session: Session,
) -> None:
    """Stop serving a model. Its versions stay registered.

    \b
    Example:
      mizzen undeploy iris --version 1
    """
    ended = session.call(lambda plane: plane.undeploy(name, version, force=force))
    session.write_outcome({"ended": ended}, "\n".join(f"{server} stopped" for server in ended))


def promote(model: ModelArgument, version: VersionArgument, *, force: Force = False, session: Session) -> None:
    """Make a version of a model the current one.

    \b
    Example:
      mizzen promote iris 2
    """
    session.call(lambda plane: plane.promote(model, version, force=force))
    session.write_outcome({"model": model, "current": version}, f"version {version} of {model} is current")


def predict(
    *,
    name: Annotated[
        str,
        argument(
            "NAME",
            "Model, a version of it such as iris:2 or iris@prod, InferenceModel or MLGraph.",
            completions.callable_names,
        ),
    ],
    text: DataOption,
    outputs: Annotated[list[str] | None, option("Output to request; repeatable.", "--output-name")] = None,
    session: Session,
) -> None:
    """Send a prediction request to a model.

    \b
    Example:
      mizzen predict iris --data '[[5.1,3.5,1.4,0.2]]'
      mizzen predict iris@prod --data @request.json -o json
      mizzen predict iris:2 --data '[[5.1,3.5,1.4,0.2]]'
    """
    inputs = read_data(text)

    async def work(plane: AsyncPlane) -> dict[str, Any]:
        waking = asyncio.create_task(_note_waking(plane, name))
        try:
            return await plane.infer(name, inputs, outputs=outputs or None)
        except errors.NotFound as error:
            raise errors.NotFound(error.message, hint=error.hint or await _hint_unserved(plane, name)) from error
        finally:
            waking.cancel()

    answer = session.call(work)
    if session.form is not Format.TABLE:
        session.write_data(answer)
        return
    for tensor in answer["outputs"]:
        output.write(f"{tensor['name']}: {json.dumps(nest(tensor['data'], tensor['shape']), ensure_ascii=False)}")
    output.note(f"{answer.get('model_name', name)} version {answer.get('model_version')}, request {answer.get('id')}")


def feedback(
    *,
    name: Annotated[str, argument("NAME", "Graph or model that answered.", completions.callable_names)],
    id_: Annotated[str, argument("ID", "Request id: the `id` in the response.")],
    reward: Annotated[float | None, option("Reward for the response, from 0 to 1.", show_default=False)] = None,
    truth: Annotated[
        str | None, option("Correct outputs for the request.", metavar="JSON|@FILE|-", show_default=False)
    ] = None,
    user: Annotated[str | None, option("User that the request was for.", show_default=False)] = None,
    routing: Annotated[
        str | None, option("The `routing` parameter of the response; used if its record is gone.", show_default=False)
    ] = None,
    session: Session,
) -> None:
    """Report how well a request was answered.

    \b
    Example:
      mizzen feedback egreedy 0c29a1f04d --reward 1
      mizzen feedback iris 0c29a1f04d --truth '[0]'
    """
    if reward is None and truth is None:
        raise typer.BadParameter("give --reward, --truth, or both")
    labels = None if truth is None else read_data(truth, "--truth", "[0]")
    answer = session.call(
        lambda plane: plane.feedback(name, id_, reward=reward, truth=labels, user=user, routing=routing),
    )
    state = "was counted" if answer["counted"] else "had already been counted"
    session.write_outcome(answer, f"a reward of {answer['reward']:g} for request {id_} {state}")


async def _note_waking(plane: AsyncPlane, name: str) -> None:
    """Print why there is no response yet, each time the reason changes."""
    last = ""
    while True:
        await asyncio.sleep(_PATIENCE)
        with contextlib.suppress(errors.MizzenError):  # the request itself reports what is wrong
            reason = await plane.delay(name)
            if reason and reason != last:
                output.note(f"… waking {name}: {reason}")
            last = reason


class Steps:
    """Progress of a deployment: printed step by step, and summed up if it is interrupted."""

    def __init__(self, model: str) -> None:
        self.deployment: Deployment | None = None
        self._model = model
        self._last = ""
        self._began = time.monotonic()

    def tell(self, step: str) -> None:
        self._last = step
        if step == "starting" or step.startswith("… "):
            output.note(f"… {step.removeprefix('… ')}")
        else:
            output.note(f"✓ {step}  {time.monotonic() - self._began:.1f} s")

    def summary(self) -> str:
        from mizzen.sdk.operations import deploy as operations_deploy

        if self.deployment is None:
            return f"{self._last or 'no version is known to be registered'}; see 'mizzen history {self._model}'"
        if self._last == "current":
            return f"version {self.deployment.version} of {self._model} is current, as {self.deployment.server}"
        return operations_deploy.describe_start(self._model, self.deployment.version, self.deployment.server)


def _require_positive(value: float) -> float:
    if not value > 0:  # rejects NaN, too
        raise typer.BadParameter("must be more than 0")
    return value


def read_data(text: str, option: str = "--data", example: str = "[[5.1,3.5,1.4,0.2]]") -> Any:
    """Parse the value of an option: JSON, @FILE, or - for stdin. Raises NotFound or BadRequest."""
    name = "stdin" if text == "-" else text[1:]
    try:
        if text == "-":
            stdin: TextIO | None = sys.stdin
            if stdin is None:
                raise errors.BadRequest("stdin is closed", hint="redirect a file: mizzen predict NAME -d - < rows.json")
            text = stdin.read()
        elif text.startswith("@"):
            text = Path(name).read_text()
        return json.loads(text)
    except OSError as error:
        raise errors.NotFound(f"cannot read {name}: {error.strerror}") from error
    except ValueError as error:
        raise errors.BadRequest(
            f"{option} is not valid JSON: {error}", hint=f"for example {option} '{example}'"
        ) from error


async def _hint_unserved(plane: AsyncPlane, name: str) -> str:
    """A hint for a name that no server answers to."""
    from mizzen.sdk.packaging import references

    ref = references.parse(name)
    try:
        known = [str(item["version"]) for item in await plane.list_versions(ref.name)]
    except errors.MizzenError:
        return "'mizzen get models' lists models, 'mizzen get inferencemodels' their servers"
    if not known:
        return f"the model has no versions: 'mizzen deploy PATH --name {ref.name}' adds one"
    if ref.alias:
        return f"'mizzen alias list {ref.name}' lists its aliases; an alias answers while its version is served"
    if ref.version and ref.version not in known:
        return f"it is not registered: 'mizzen version list {ref.name}' lists the registered versions"
    arguments = f"{ref.name} {ref.version or known[-1]}"
    promotion = "" if ref.version else f", then 'mizzen promote {arguments}'"
    return f"it is registered but not served: 'mizzen serve {arguments}'{promotion}"


def nest(flat: list[Any], shape: list[int]) -> list[Any]:
    """Flat V2 data as nested lists."""
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size)] if size else flat
    return flat
