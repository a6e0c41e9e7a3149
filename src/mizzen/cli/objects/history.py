"""history, rollback: what was, and going back to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import object_arguments, output, times
from mizzen.cli.object_arguments import ObjectArgument
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

Entries = list[dict[str, Any]]
MOST_WORDS = 60
"""Characters that a table has for what an update changed; `-o json` shows it all."""


def history(
    what: ObjectArgument,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            callback=times.option,
            help="The object as it was then: an ISO time, 10m, 2h, 3d.",
        ),
    ] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show who changed an object and when; of a model, also its versions and servers.

    \b
    Example:
      mizzen history iris
      mizzen history mlgraph/experiment
      mizzen history iris --at 2h
    """
    kind, name = object_arguments.model_or_object(what)
    if at is not None:
        if kind.name == "Model":
            found = call(data_dir, lambda plane: plane.as_of(name, at), namespace)
        else:
            found = _past(call(data_dir, lambda plane: plane.revisions(kind.name, name), namespace), at)
        output.data(found, Format.YAML if form is Format.TABLE else form)
        return
    if kind.name == "Model":
        entries = call(data_dir, lambda plane: plane.history(name), namespace)
    else:
        entries = call(data_dir, lambda plane: plane.revisions(kind.name, name), namespace)
    if form is not Format.TABLE:
        output.data({"items": entries}, form)
    elif kind.name == "Model":
        output.table(
            ("OBJECT", "REVISION", "TIME", "ACTOR", "ACTION", "CURRENT", "CHANGED"),
            (
                (*_words(entry, "object", "number", "time", "actor", "action"), _current(entry), changed(entry))
                for entry in entries
            ),
        )
    else:
        equal = repeated(entries)
        output.table(
            ("REVISION", "TIME", "ACTOR", "ACTION", "SPEC", "CHANGED"),
            (
                (*_words(entry, "number", "time", "actor", "action"), equal.get(entry["number"], ""), changed(entry))
                for entry in entries
            ),
        )


def rollback(
    what: ObjectArgument,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="N", help="A version of a model; of others the number of a revision."),
    ] = None,
    *,
    force: object_arguments.Force = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Go back: a model to the version that was current before, anything else to its spec before. Nothing is erased.

    \b
    Example:
      mizzen rollback iris
      mizzen rollback model/iris --to 1
      mizzen rollback mlgraph/experiment --to 3
    """
    kind, name = object_arguments.model_or_object(what)
    if kind.name == "Model":
        version = call(data_dir, lambda plane: plane.rollback(name, to, force=force), namespace)
        done: dict[str, Any] = {"kind": "Model", "name": name, "version": version}
        text = f"version {version} of {name} is current"
    else:
        if to is not None and not to.isdecimal():
            raise typer.BadParameter("must be the number of a revision", param_hint="'--to'")
        number = int(to) if to is not None else None
        undone = call(data_dir, lambda plane: plane.restore(kind.name, name, number), namespace)
        done = {"kind": kind.name, "name": name, "revision": undone.number, "changed": undone.changed}
        state = "has the spec of" if undone.changed else "had already the spec of"
        text = f"{kind.singular}/{name} {state} revision {undone.number}"
    output.outcome(done, form, text)


def changed(entry: Mapping[str, Any]) -> str:
    """What an update changed, in a few words: `aliases.prod: 1 -> 2; framework: - -> sklearn`."""
    if entry.get("action") != "updated":
        return ""
    before, after = _leaves(entry.get("before") or {}), _leaves(entry.get("after") or {})
    paths = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    text = "; ".join(f"{path}: {before.get(path, '-')} -> {after.get(path, '-')}" for path in paths)
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 1]}…"


def repeated(entries: Entries) -> dict[int, str]:
    """By revision, `= revision N` where a spec is the same as in an earlier one."""
    first: dict[str, int] = {}
    equal = {}
    for entry in entries:
        if entry.get("after") is None:
            continue
        mark = entry.get("hash") or json.dumps(entry["after"], sort_keys=True)
        earlier = first.setdefault(mark, entry["number"])
        if earlier != entry["number"]:
            equal[entry["number"]] = f"= revision {earlier}"
    return equal


def as_of(revisions: Entries, at: datetime) -> dict[str, Any] | None:
    """The spec that an object had at a time, and from whom. None when it was not there."""
    from mizzen.sdk.operations.rollback import SPEC_ACTIONS

    until = [entry for entry in revisions if datetime.fromisoformat(entry["time"]) <= at]
    spec = next((entry for entry in reversed(until) if entry["action"] in SPEC_ACTIONS), None)
    if spec is None or spec.get("after") is None:
        return None
    shown = {key: spec[key] for key in ("kind", "name", "number", "time", "actor", "action")}
    return {**shown, "spec": spec["after"]}


def _past(revisions: Entries, at: str) -> dict[str, Any]:
    found = as_of(revisions, datetime.fromisoformat(at))
    if found is None:
        first = revisions[0]
        raise errors.NotFound(
            f"{first['kind']}/{first['name']} did not exist at {at}", hint=f"its history begins at {first['time']}"
        )
    return found


def _leaves(value: Any, path: str = "") -> dict[str, str]:
    """The text of each field of a spec, by its path."""
    if isinstance(value, Mapping) and value:
        start = f"{path}." if path else ""
        inner = [_leaves(item, f"{start}{key}") for key, item in value.items()]
    elif isinstance(value, list) and value:
        inner = [_leaves(item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return {path: " ".join(text.split())} if path else {}
    return {key: text for leaves in inner for key, text in leaves.items()}


def _words(entry: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in keys)


def _current(entry: Mapping[str, Any]) -> str:
    """The version that a decision made current."""
    current = (entry.get("after") or {}).get("current")
    return str(current.get("version", "")) if isinstance(current, Mapping) else ""
