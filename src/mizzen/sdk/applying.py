"""apply, diff and lint of what people wrote: a file, a folder, a YAML text, or plain data."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from mizzen import errors
from mizzen.kinds import catalog
from mizzen.manifests import canonical, reader
from mizzen.manifests import lint as linting
from mizzen.manifests.lint import CAPABILITIES, Checked
from mizzen.manifests.reader import Document

if TYPE_CHECKING:
    from mizzen.sdk.resources import Resources

Manifests = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""A path, `-` for stdin, a text (it has a line break, or begins with a brace), one object, or several."""

_TRIES: Final = 5
_MOST_ASSUMED: Final = 200
_KINDS: Final = [kind.name for kind in catalog.KINDS]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one object."""

    kind: str
    namespace: str
    name: str
    outcome: Literal["created", "configured", "unchanged"]
    object: Mapping[str, Any]
    """As the plane has it now; after a dry run, as it would."""

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name} {self.outcome}"


def documents(manifests: Manifests) -> list[Document]:
    """BadRequest, NotFound."""
    if isinstance(manifests, str) and ("\n" in manifests or manifests.lstrip().startswith("{")):
        return reader.read_text(manifests)
    if isinstance(manifests, str | os.PathLike):
        return reader.read(manifests)
    return reader.read_data(manifests)


def lint(manifests: Manifests, home: str = "embedded") -> list[Checked]:
    return linting.lint(documents(manifests), CAPABILITIES[home])


async def apply(
    plane: Resources, manifests: Manifests, *, dry_run: bool = False, namespace: str | None = None
) -> list[Applied]:
    wanted = good(plane, documents(manifests), namespace)
    return [applied async for applied in apply_each(plane, wanted, dry_run=dry_run, namespace=namespace)]


def good(plane: Resources, found: list[Document], namespace: str | None = None) -> list[Document]:
    """The documents, when all of them are; else Invalid with all faults."""
    # What an engine lacks is for the plane to say, which has one.
    everything = frozenset().union(*CAPABILITIES.values())
    space = namespace or plane.namespace
    checked = [*linting.lint(found, everything, space), *_elsewhere(found, namespace)]
    # Of good ones, what is odd is told when they are sent, by us or by the plane; all but what no single one can tell.
    faulty = any(one.faults for one in checked)
    odd = [one.warnings for one in checked] if faulty else linting.repeated(found, space)
    for warning in (warning for warnings in odd for warning in warnings):
        plane.warn(str(warning))
    linting.demand_good(checked)
    return found


async def apply_each(
    plane: Resources, found: Iterable[Document], *, dry_run: bool = False, namespace: str | None = None
) -> AsyncIterator[Applied]:
    """Documents that were found good, each when it is done: kind by kind as the catalog has them, models before what
    names a model; those of one kind as they were written."""
    before: list[Mapping[str, Any]] = []
    for document in sorted(found, key=lambda one: _KINDS.index(one.data["kind"])):
        for warning in document.warnings:
            plane.warn(str(warning))
        wanted = _placed(document.data, namespace or plane.namespace)
        yield await _apply_one(plane, wanted, dry_run=dry_run, assume=_assumed(before, wanted) if dry_run else ())
        before.append(wanted)


async def _apply_one(plane: Resources, wanted: Mapping[str, Any], *, dry_run: bool, assume: Sequence[str]) -> Applied:
    """A conflict with somebody else's write is tried again: the file says what is wanted."""
    kind, metadata = str(wanted["kind"]), wanted["metadata"]
    for left in reversed(range(_TRIES)):
        live = await _live(plane, wanted)
        try:
            if live is None:
                stored, outcome = await plane.create(wanted, dry_run=dry_run, assume=assume), "created"
            else:
                stored = await plane.replace(_over(live, wanted), dry_run=dry_run, assume=assume)
                outcome = "unchanged" if _same(live, stored) else "configured"
        except (errors.Conflict, errors.AlreadyExists):
            if not left or _version(live) == _version(await _live(plane, wanted)):
                raise  # nobody wrote meanwhile: this is refused for what it says
            continue
        return Applied(kind, metadata["namespace"], metadata["name"], outcome, stored)  # type: ignore[arg-type]
    raise AssertionError("the last try returns or raises")


async def diff(plane: Resources, found: list[Document], *, namespace: str | None = None) -> str:
    pieces = []
    for document in good(plane, found, namespace):
        wanted = _placed(document.data, namespace or plane.namespace)
        pieces.append(canonical.difference(await _live(plane, wanted), wanted, source=Path(document.source).name))
    return "".join(pieces)


def _assumed(before: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> list[str]:
    """What would be there by now, of all that this object may speak of: a batch can be large, a query cannot."""
    said, space = json.dumps(wanted["spec"], ensure_ascii=False), wanted["metadata"]["namespace"]
    there = [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in before
        if one["metadata"]["namespace"] == space and one["metadata"]["name"].partition(".")[0] in said
    ]
    return there[:_MOST_ASSUMED]


def _elsewhere(found: list[Document], namespace: str | None) -> Iterable[Checked]:
    """Documents of another namespace than the one that was asked for."""
    for document in found:
        said = document.metadata.get("namespace")
        if namespace is not None and said not in (None, namespace):
            fault = errors.Fault("metadata.namespace", f"is '{said}', but '{namespace}' was asked for")
            yield Checked(document, (fault,), ())


def _placed(data: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = data["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key) is not None}
    return {**data, "metadata": {**kept, "namespace": metadata.get("namespace") or namespace}}


def _over(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What to put in the place of `live`: what the file says, guarded, with what no file says kept."""
    said = live["metadata"].get("annotations") or {}
    kept = {key: said[key] for key in canonical.NOT_WRITTEN if key in said}
    annotations = {**kept, **(wanted["metadata"].get("annotations") or {})}
    guard = {"annotations": annotations, "resourceVersion": live["metadata"]["resourceVersion"]}
    return {**wanted, "metadata": {**wanted["metadata"], **guard}}


async def _live(plane: Resources, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = wanted["metadata"]
    try:
        return await plane.get(wanted["kind"], metadata["name"], namespace=metadata["namespace"])
    except errors.NotFound:
        return None


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Equal as JSON: Python's own comparison would take true for 1."""
    first, second = (json.dumps(canonical.written(each), sort_keys=True) for each in (one, other))
    return first == second


def _version(live: Mapping[str, Any] | None) -> str:
    return str(live["metadata"]["resourceVersion"]) if live else ""
