"""Apply, diff and lint of manifests: a file, a folder, a YAML text, or plain data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from mizzen import errors
from mizzen.kinds import catalog
from mizzen.manifests import canonical, reader
from mizzen.manifests import lint as linting
from mizzen.manifests.lint import CAPABILITIES, Checked
from mizzen.manifests.reader import Document
from mizzen.sdk.connection.warnings import Warned

if TYPE_CHECKING:
    from mizzen.sdk.api.resources import ResourceCalls

Manifests = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""A path, `-` for stdin, a text (it has a line break, or begins with a brace), one object, or several."""

_TRIES: Final = 5
_MOST_ASSUMED: Final = 200
_KINDS: Final = [kind.name for kind in catalog.KINDS]


_MOST_NAMED: Final = 20

_REFUSALS: Final = (
    errors.Invalid, errors.Forbidden, errors.NotFound, errors.AlreadyExists, errors.Conflict, errors.TooLarge,
)  # fmt: skip
"""Errors of a single object; all others concern the plane or the connection to it."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome for one object."""

    kind: str
    namespace: str
    name: str
    outcome: Literal["created", "configured", "unchanged", "refused", "unsent", "unknown"]
    """unknown: it was sent, and no response came."""
    object: Mapping[str, Any]
    """The object as stored; after a dry run, as it would be stored. If it was rejected or not sent, the object as
    written."""
    faults: tuple[errors.Fault, ...] = ()
    """Why it was rejected."""

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name} {self.outcome}"


Tell: TypeAlias = Callable[[Applied], None]
"""Called with each object when its outcome is known."""


def documents(manifests: Manifests) -> list[Document]:
    """Read the documents. Raises BadRequest, NotFound."""
    if isinstance(manifests, str) and ("\n" in manifests or manifests.lstrip().startswith("{")):
        return reader.read_text(manifests)
    if isinstance(manifests, str | os.PathLike):
        return reader.read(manifests)
    return reader.read_data(manifests)


def lint(manifests: Manifests, home: str = "embedded") -> list[Checked]:
    return linting.lint(documents(manifests), CAPABILITIES[home])


async def apply(
    plane: ResourceCalls,
    found: Sequence[Document],
    *,
    dry_run: bool = False,
    namespace: str | None = None,
    tell: Tell = lambda applied: None,
) -> list[Applied]:
    """Dry-run all documents, then send them; if any is invalid, send none and raise one error with the faults of all.

    They are sent by kind in the order of the catalog, models before the kinds that name a model. Documents of one kind
    keep their order. If one still fails, because of a concurrent write, the error says how far the apply got.
    """
    tried = await _try_all(plane, found, namespace)
    refused = [one for one in tried if one.error is not None]
    for one in tried if dry_run or refused else ():
        tell(one.applied if dry_run or one.error else replace(one.applied, outcome="unsent"))
    if refused:
        raise _join_refusals([(one.document, one.error) for one in refused if one.error is not None])
    return [one.applied for one in tried] if dry_run else await _send_all(plane, tried, tell)


async def diff(plane: ResourceCalls, found: Sequence[Document], *, namespace: str | None = None) -> str:
    checked = _check_documents(found, namespace, plane.namespace)
    for one in checked:
        _warn(plane, one.document, map(str, one.warnings))
    if faulty := [(one.document, _to_error(one)) for one in checked if one.faults]:
        raise _join_refusals(faulty)
    pieces = []
    for document in found:
        wanted = _with_namespace(document.data, namespace or plane.namespace)
        pieces.append(canonical.difference(await _fetch_live(plane, wanted), wanted, source=Path(document.source).name))
    return "".join(pieces)


def _check_documents(found: Sequence[Document], namespace: str | None, default: str) -> list[Checked]:
    """Return each document's local errors, and the warnings that the plane does not send."""
    # The plane, which has the engine, reports what the engine lacks.
    everything = frozenset().union(*CAPABILITIES.values())
    space = namespace or default
    checked = []
    for one, again in zip(linting.lint(found, everything, space), linting.repeat_warnings(found, space), strict=True):
        faults = (*one.faults, *_check_namespace(one.document, namespace))
        checked.append(Checked(one.document, faults, one.warnings if faults else (*one.document.warnings, *again)))
    return checked


@dataclass(frozen=True, slots=True)
class _Tried:
    document: Document
    applied: Applied
    """The outcome of the dry run."""
    wanted: Mapping[str, Any]
    live: Mapping[str, Any] | None = None
    error: errors.MizzenError | None = None


async def _try_all(plane: ResourceCalls, found: Sequence[Document], namespace: str | None) -> list[_Tried]:
    """Dry-run all documents; the result is in the order for sending."""
    checked = _check_documents(found, namespace, plane.namespace)
    tried: list[_Tried] = []
    for one in sorted(checked, key=lambda one: _KINDS.index(one.document.kind.name) if one.document.kind else -1):
        odd = [*map(str, one.warnings)]
        before = [other.document for other in tried]
        tried.append(await _try(plane, one, before, namespace or plane.namespace, odd.append))
        _warn(plane, one.document, odd)
    return tried


async def _try(
    plane: ResourceCalls, checked: Checked, before: Sequence[Document], space: str, on_warning: Warned
) -> _Tried:
    document = checked.document
    if checked.faults:
        return _refuse(document, document.data, space, _to_error(checked))
    wanted = _with_namespace(document.data, space)
    try:
        live = await _fetch_live(plane, wanted)
        assume = _list_assumptions(before, wanted, space)
        applied = await _apply_one(plane, wanted, live, on_warning, dry_run=True, assume=assume)
    except _REFUSALS as error:
        return _refuse(document, wanted, space, error)
    return _Tried(document, applied, wanted, live)


async def _send_all(plane: ResourceCalls, tried: Sequence[_Tried], tell: Tell) -> list[Applied]:
    done: list[Applied] = []
    for one in tried:
        try:
            applied = await _apply_one(plane, one.wanted, one.live, _ignore_repeated)
        except errors.MizzenError as error:
            left = tried[len(done) + 1 :]
            refused = isinstance(error, _REFUSALS)
            outcome: Literal["refused", "unknown"] = "refused" if refused else "unknown"
            tell(replace(one.applied, outcome=outcome, object=one.wanted, faults=_faults_of(error)))
            for other in left:
                tell(replace(other.applied, outcome="unsent", object=other.wanted))
            raise _with_progress(error, one.document, done, left) from error
        done.append(applied)
        tell(applied)
    return done


async def _apply_one(
    plane: ResourceCalls,
    wanted: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    on_warning: Warned,
    *,
    dry_run: bool = False,
    assume: Sequence[str] = (),
) -> Applied:
    """Apply one object. A conflict with a concurrent write is retried: the file is the desired state. `live`: the
    stored object."""
    kind, metadata = str(wanted["kind"]), wanted["metadata"]
    how: dict[str, Any] = {"dry_run": dry_run, "assume": assume, "on_warning": on_warning}
    for left in reversed(range(_TRIES)):
        try:
            if live is None:
                stored, outcome = await plane.create(wanted, **how), "created"
            else:
                stored = await plane.replace(_merge_over(live, wanted), **how)
                outcome = "unchanged" if _is_same(live, stored) else "configured"
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            before, live = live, await _fetch_live(plane, wanted)
            if not left or _version_of(before) == _version_of(live):
                raise  # no concurrent write: the object itself is rejected
            continue
        return Applied(kind, metadata["namespace"], metadata["name"], outcome, stored)  # type: ignore[arg-type]
    raise AssertionError("the last try returns or raises")


def _refuse(document: Document, wanted: Mapping[str, Any], space: str, error: errors.MizzenError) -> _Tried:
    kind = document.kind.name if document.kind else str(document.data.get("kind") or "")
    namespace = str(document.metadata.get("namespace") or space)
    applied = Applied(kind, namespace, document.name, "refused", wanted, _faults_of(error))
    return _Tried(document, applied, wanted, error=error)


def _to_error(checked: Checked) -> errors.Invalid:
    return errors.Invalid.of(str(checked.document), checked.faults)


def _faults_of(error: errors.MizzenError) -> tuple[errors.Fault, ...]:
    return error.faults or (errors.Fault("", error.message),)


def _join_refusals(refused: Sequence[tuple[Document, errors.MizzenError]]) -> errors.MizzenError:
    """Return one error with the faults of all objects, each with its file and object."""
    faults = tuple(
        errors.Fault(f"{document.place}: {fault.path}".removesuffix(": "), fault.message)
        for document, error in refused
        for fault in _faults_of(error)
    )
    sorts = {type(error) for _, error in refused}
    sort = sorts.pop() if len(sorts) == 1 else errors.Invalid
    hint = "; ".join(dict.fromkeys(error.hint for _, error in refused if error.hint))
    return sort(f"{len(faults)} fault{'s' if len(faults) > 1 else ''}; nothing was sent", hint=hint, faults=faults)


def _with_progress(
    error: errors.MizzenError, document: Document, done: Sequence[Applied], left: Sequence[_Tried]
) -> errors.MizzenError:
    """Return the same error, with how far the apply got."""
    applied = _join_names([f"{one.kind}/{one.name}" for one in done])
    unsent = _join_names([str(one.document) for one in left])
    message = f"{document.place}: {error.message}; applied before it: {applied}; not sent: {unsent}"
    return type(error)(message, hint=error.hint, faults=error.faults)


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more or "nothing"


def _warn(plane: ResourceCalls, document: Document, odd: Iterable[str]) -> None:
    for text in odd:
        plane.warn(f"{document.place}: {text}")


def _ignore_repeated(_text: str) -> None:
    """The dry run already emitted these warnings."""


def _list_assumptions(before: Iterable[Document], wanted: Mapping[str, Any], space: str) -> list[str]:
    """Return the earlier objects that this one may refer to. Others are left out: a batch can be large, a query
    cannot."""
    spec, here = json.dumps(wanted["spec"], ensure_ascii=False), wanted["metadata"]["namespace"]
    there = [
        str(one)
        for one in before
        if one.kind and one.name and (one.metadata.get("namespace") or space) == here
        if one.name.partition(".")[0] in spec
    ]
    return there[:_MOST_ASSUMED]


def _check_namespace(document: Document, namespace: str | None) -> Iterator[errors.Fault]:
    """Yield a fault if the document names another namespace than the requested one."""
    own = document.metadata.get("namespace")
    if namespace is not None and own not in (None, namespace):
        yield errors.Fault("metadata.namespace", f"is '{own}', but the request is for '{namespace}'")


def _with_namespace(data: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = data["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key) is not None}
    return {**data, "metadata": {**kept, "namespace": metadata.get("namespace") or namespace}}


def _merge_over(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's object to replace `live`, guarded by its resourceVersion. Annotations and finalizers that files
    omit are kept."""
    annotations_before = live["metadata"].get("annotations") or {}
    kept = {key: annotations_before[key] for key in canonical.NOT_WRITTEN if key in annotations_before}
    annotations = {**kept, **(wanted["metadata"].get("annotations") or {})}
    guard = {"annotations": annotations, "resourceVersion": live["metadata"]["resourceVersion"]}
    held = {"finalizers": live["metadata"].get("finalizers") or []}
    return {**wanted, "metadata": {**held, **wanted["metadata"], **guard}}


async def _fetch_live(plane: ResourceCalls, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = wanted["metadata"]
    try:
        return await plane.get(wanted["kind"], metadata["name"], namespace=metadata["namespace"])
    except errors.NotFound:
        return None


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compare as JSON: Python's own comparison would take true for 1."""
    first, second = (json.dumps(canonical.user_fields(each), sort_keys=True) for each in (one, other))
    return first == second


def _version_of(live: Mapping[str, Any] | None) -> str:
    return str(live["metadata"]["resourceVersion"]) if live else ""
