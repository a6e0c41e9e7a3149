"""What was probably meant by a name that is not there: one more question to the plane, asked only when it failed."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from mizzen import errors
from mizzen.kinds import called

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

_SAID: Final = re.compile(r"(?P<kind>[A-Z]\w+)/(?:(?P<namespace>[^/\s]+)/)?(?P<name>\S+) does not exist")
"""As a plane says it of an object."""
_MOST: Final = 20


async def explained(plane: AsyncPlane, error: errors.NotFound) -> errors.NotFound:
    """The same with a hint at what there is, where that can be known."""
    said = _SAID.match(error.message)
    if said is None or said["kind"] not in called.BY_NAME:
        return error
    kind = called.BY_NAME[said["kind"]]
    try:
        if kind.name == "ModelVersion":
            model, _, version = said["name"].partition(".")
            text = f"model '{model}' has no version {version}"
            return errors.NotFound(text, hint=await versions(plane, model))
        close = await _close(plane, kind.plural, said["name"], said["namespace"])
    except errors.MizzenError:  # the first failure is the news; this one would hide it
        return error
    hint = f"did you mean '{close}'?" if close else error.hint or f"'mizzen get {kind.plural}' lists what there is"
    return errors.NotFound(error.message, hint=hint, faults=error.faults)


async def versions(plane: AsyncPlane, model: str) -> str:
    """A hint: the versions that a model has, or how to give it one."""
    try:
        found = [str(item["version"]) for item in await plane.list_versions(model)]
    except errors.NotFound:
        return f"there is no model '{model}'; 'mizzen get models' lists those there are"
    if not found:
        return f"it has none yet: 'mizzen version add {model} PATH' registers one"
    more = f"… {len(found)} in all: " if len(found) > _MOST else ""
    return f"its versions are {more}{', '.join(found[-_MOST:])}"


async def _close(plane: AsyncPlane, plural: str, name: str, namespace: str | None) -> str | None:
    there = [str(item["metadata"]["name"]) for item in (await plane.list(plural, namespace=namespace))["items"]]
    return next(iter(difflib.get_close_matches(name, there, n=1, cutoff=called.CLOSE)), None)
