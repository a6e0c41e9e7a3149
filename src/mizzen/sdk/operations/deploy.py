"""The steps of a deployment, each of which waits for its effect: register, load, serve, undeploy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import quote

from mizzen import errors
from mizzen.sdk.api.resources import condition_of
from mizzen.sdk.keywords import LoadKeywords, VersionKeywords

if TYPE_CHECKING:
    from mizzen.sdk.api.models import ModelCalls

TIMEOUT: Final = 120.0
"""Seconds to wait for a model to load."""

BUILDING: Final = "BuildingEnvironment"
UNBUILT: Final = "EnvironmentFailed"
_HOPELESS: Final = frozenset({"LoadFailed", "CrashLoop", "RequirementsUntrusted", "UnsupportedFramework", UNBUILT})
UNTRUSTED: Final = "is not marked as trusted"
"""Part of a runtime's message about untrusted code."""
UNDER_WAY: Final = "… "
"""Prefix of progress details for steps that may take long."""
_PAUSE: Final = 0.05
_LAST_LINES: Final = 15

Progress = Callable[[str], None]


def silent(_step: str) -> None:
    """Discard progress."""


@dataclass(frozen=True, slots=True)
class Deployment:
    model: str
    version: str
    server: str
    """Name of the InferenceModel; the version can be called by it, too."""
    url: str


async def register(plane: ModelCalls, model: str, path: Path, **options: Unpack[VersionKeywords]) -> dict[str, Any]:
    """Register the files at `path` as the next version of a model, which is created if absent. Returns the version."""
    try:
        await plane.create_model(model)
        created = True
    except errors.AlreadyExists:
        created = False
    try:
        return await plane.add_version(model, path, **options)
    except (errors.BadRequest, errors.Invalid, errors.Forbidden, errors.NotFound):
        # Certainly rejected; after any other error the version may exist.
        if created:
            await _delete_empty(plane, model)
        raise


async def register_code(plane: ModelCalls, model: str, path: Path, **options: Unpack[LoadKeywords]) -> dict[str, Any]:
    """Register code to be trained, for which the files to serve do not exist yet."""
    if not path.exists():  # noqa: ASYNC240 - once; the plane's own error would name a folder of another machine
        raise errors.NotFound(f"no file or folder '{path}' here")
    return await register(plane, model, path, training=True, **options)


def describe_start(model: str, version: str, server: str) -> str:
    """Describe a deployment that is no longer waited for, and what to do with it."""
    return (
        f"version {version} of {model} is registered and starting as {server}; when it is ready, "
        f"'mizzen promote {model} {version}' makes it current; 'mizzen undeploy {model} --version {version}' stops it"
    )


async def wait_loaded(
    plane: ModelCalls, server: str, seconds: float, *, keep: bool = False, progress: Progress = silent
) -> None:
    """Wait until the InferenceModel is Ready. Raises ModelFailed, with its output, if it never will be; it is then
    deleted, unless `keep`. Time spent building its environment does not count against the timeout and is reported as
    progress.

    It polls at least once, however short the timeout: the final message needs the status.
    """
    clock = asyncio.get_running_loop().time
    last_step = ""
    resource = await plane.get("inferencemodels", server)
    try:
        async with asyncio.timeout(seconds) as limit:
            while True:
                model, version = resource["spec"]["modelName"], resource["spec"]["targetVersion"]
                ready = condition_of(resource, "Ready")
                if ready.get("status") == "True":
                    return
                if broken := hopeless(resource):
                    break
                if ready.get("reason") == BUILDING:
                    limit.reschedule(clock() + seconds)
                    if (step := str(ready.get("message"))) != last_step:
                        progress(f"{UNDER_WAY}{step}")
                        last_step = step
                await asyncio.sleep(_PAUSE)
                resource = await plane.get("inferencemodels", server)
    except TimeoutError:
        hint = f"{describe_start(model, version, server)}; logs: 'mizzen logs {server}'"
        raise errors.DeadlineExceeded(f"{server} was not ready within {seconds:g} s", hint=hint) from None
    raise await _failure(plane, server, model, version, broken, keep=keep)


async def _failure(
    plane: ModelCalls, server: str, model: str, version: str, broken: Mapping[str, Any], *, keep: bool
) -> errors.ModelFailed:
    reason = broken.get("message") or broken["reason"]
    build = broken["reason"] == UNBUILT
    # Untrusted code was not run: its log says nothing else.
    printed = "" if UNTRUSTED in reason else await _last_lines(plane, server, build=build)
    hint = f"logs: 'mizzen logs {server}{' --build' if build else ''}'"
    if not keep:
        await plane.delete("inferencemodels", server)
        hint = f"it stays registered as {model} version {version}; 'mizzen serve {model} {version}' tries again"
    if UNTRUSTED in reason and "--trust " not in reason:  # the message for a checkpoint already says how
        hint = f"an admin of the model can run 'mizzen version trust {model} {version}'; {hint}"
    return errors.ModelFailed(f"{server} cannot be served ({broken['reason']}): {reason}{printed}", hint=hint)


async def wait_answering(
    plane: ModelCalls, model: str, version: str, server: str, *, current: bool, seconds: float
) -> None:
    """Wait until the inference API serves the change: the status alone is only a report."""
    name = model if current else server
    try:
        async with asyncio.timeout(seconds):
            while True:
                if await _answers(plane, name, version):
                    return
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise errors.DeadlineExceeded(
            f"{server} is ready but the inference API does not answer for '{name}' yet",
            hint="see 'mizzen logs gateway'",
        ) from None


async def undeploy(plane: ModelCalls, model: str, version: str | None, *, force: bool = False) -> list[str]:
    path = f"/model/{quote(model)}" + (f"/serve/{quote(version)}" if version else "")
    found = await plane.request("GET", path, params=plane.within())
    servers = [str(server["id"]) for server in found["items" if version else "servers"]]
    if not servers:
        what = f"version {version} of model '{model}'" if version else f"model '{model}'"
        raise errors.NotFound(f"{what} is not served", hint="'mizzen get inferencemodels' lists all servers")
    if version and not force:
        await _refuse_current(plane, model, version)
    for server in servers:
        await plane.delete("inferencemodels", server)
    await wait_gone(plane, "inferencemodels", servers)
    return servers


async def _refuse_current(plane: ModelCalls, model: str, version: str) -> None:
    """Raise Conflict if this version is current while another is served: the caller most likely meant the old one. The
    last served version may be removed, like the whole model."""
    whole = await plane.describe_model(model)
    others = sorted({str(server["version"]) for server in whole["servers"] if str(server["version"]) != version})
    if str(whole["current"]) != version or not others:
        return
    ready = [str(server["version"]) for server in whole["servers"] if server["ready"]]
    other = next((each for each in reversed(others) if each in ready), others[-1])
    raise errors.Conflict(
        f"version {version} of {model} is current: without it, requests to {model} would get a 503",
        hint=f"'mizzen promote {model} {other}' makes version {other} current first; --force stops it anyway",
    )


async def wait_gone(
    plane: ModelCalls, kind: str, names: list[str], seconds: float = 60.0, *, namespace: str | None = None
) -> None:
    """Wait until none of the objects is left, so that their processes have ended. Raises DeadlineExceeded."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                left = [name for name in names if await _exists(plane, kind, name, namespace)]
                if not left:
                    return
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise errors.DeadlineExceeded(f"not deleted within {seconds:g} s: {', '.join(sorted(left))}") from None


async def _exists(plane: ModelCalls, kind: str, name: str, namespace: str | None) -> bool:
    try:
        await plane.get(kind, name, namespace=namespace)
    except errors.NotFound:
        return False
    return True


async def _delete_empty(plane: ModelCalls, model: str) -> None:
    """Delete a model that this call created, unless another caller has used it since."""
    if not (await plane.describe_model(model))["versions"]:
        await plane.delete_model(model, cascade=False)


async def _last_lines(plane: ModelCalls, server: str, *, build: bool) -> str:
    """Return the end of a server's log to append to a message; empty if there is none or it cannot be read."""
    try:
        text = "".join([piece async for piece in plane.logs(server, tail=_LAST_LINES, build=build)])
    except errors.MizzenError:  # the model's failure is the news; this one would hide it
        return ""
    lines = text.splitlines()[-_LAST_LINES:]
    what = "the log of the build" if build else "its log"
    return "\n  | ".join([f"\n{what} ends:", *lines]) if lines else ""


async def _answers(plane: ModelCalls, name: str, version: str) -> bool:
    return {"name": name, "version": version, "ready": True} in await plane.served()


def hopeless(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition that rules out readiness; empty if waiting may help."""
    accepted, ready = condition_of(resource, "Accepted"), condition_of(resource, "Ready")
    if accepted.get("status") == "False":
        return accepted
    return ready if ready.get("reason") in _HOPELESS else {}
