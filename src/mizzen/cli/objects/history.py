"""`mizzen history` and `rollback`: revisions of objects, and returning to them."""

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
from mizzen.cli.parameters import option
from mizzen.cli.session import Session

Entries = list[dict[str, Any]]
MAX_SUMMARY = 60
"""Characters of an update's changes in a table; `-o json` shows all of them."""


def history(
    what: ObjectArgument,
    at: Annotated[
        str | None,
        option("Show the object as of an ISO time, or 10m, 2h, 3d ago.", metavar="TIME", callback=times.parse_option),
    ] = None,
    *,
    session: Session,
) -> None:
    """Show who changed an object, when and how. For a model, this includes its versions and servers.

    \b
    Example:
      mizzen history iris
      mizzen history mlgraph/experiment
      mizzen history iris --at 2h
    """
    kind, name = object_arguments.parse_model_or_object(what)
    is_model = kind.name == "Model"
    if at is not None:
        if is_model:
            found = session.call(lambda plane: plane.as_of(name, at))
        else:
            found = _require_spec_at(session.call(lambda plane: plane.revisions(kind.name, name)), at)
        output.write_data(found, Format.YAML if session.form is Format.TABLE else session.form)
        return
    entries = session.call(lambda plane: plane.history(name) if is_model else plane.revisions(kind.name, name))
    if session.form is not Format.TABLE:
        session.write_data({"items": entries})
        return
    keys = (*(("object",) if is_model else ()), "number", "time", "actor", "action")
    titles = ("REVISION" if key == "number" else key.upper() for key in keys)
    equal = {} if is_model else find_repeated_specs(entries)
    output.write_table(
        (*titles, "CURRENT" if is_model else "SPEC", "CHANGED"),
        (
            (
                *(str(entry.get(key, "")) for key in keys),
                _current_version(entry) if is_model else equal.get(entry["number"], ""),
                summarize_changes(entry),
            )
            for entry in entries
        ),
    )


def rollback(
    what: ObjectArgument,
    to: Annotated[str | None, option("Version of a model, or revision number of another object.", metavar="N")] = None,
    *,
    force: object_arguments.Force = False,
    session: Session,
) -> None:
    """Roll back a model or another object. History is never erased.

    A model returns to the version that was current before, another object to its previous spec.

    \b
    Example:
      mizzen rollback iris
      mizzen rollback model/iris --to 1
      mizzen rollback mlgraph/experiment --to 3
    """
    kind, name = object_arguments.parse_model_or_object(what)
    if kind.name == "Model":
        version = session.call(lambda plane: plane.rollback(name, to, force=force))
        done: dict[str, Any] = {"kind": "Model", "name": name, "version": version}
        text = f"version {version} of {name} is current"
    else:
        if to is not None and not to.isdecimal():
            raise typer.BadParameter("must be a revision number", param_hint="'--to'")
        number = int(to) if to is not None else None
        undone = session.call(lambda plane: plane.restore(kind.name, name, number))
        done = {"kind": kind.name, "name": name, "revision": undone.number, "changed": undone.changed}
        state = "has the spec of" if undone.changed else "already had the spec of"
        text = f"{kind.singular}/{name} {state} revision {undone.number}"
    session.write_outcome(done, text)


def summarize_changes(entry: Mapping[str, Any]) -> str:
    """A short summary of an update: `aliases.prod: 1 -> 2; framework: - -> sklearn`."""
    if entry.get("action") != "updated":
        return ""
    before, after = _flatten(entry.get("before") or {}), _flatten(entry.get("after") or {})
    paths = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    text = "; ".join(f"{path}: {before.get(path, '-')} -> {after.get(path, '-')}" for path in paths)
    return text if len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 1]}…"


def find_repeated_specs(entries: Entries) -> dict[int, str]:
    """`= revision N` by revision number, for specs that equal that of an earlier revision."""
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


def find_spec_at(revisions: Entries, at: datetime) -> dict[str, Any] | None:
    """The spec of an object at a time, and who wrote it. None if the object did not exist."""
    from mizzen.sdk.operations.rollback import SPEC_ACTIONS

    until = [entry for entry in revisions if datetime.fromisoformat(entry["time"]) <= at]
    spec = next((entry for entry in reversed(until) if entry["action"] in SPEC_ACTIONS), None)
    if spec is None or spec.get("after") is None:
        return None
    shown = {key: spec[key] for key in ("kind", "name", "number", "time", "actor", "action")}
    return {**shown, "spec": spec["after"]}


def _require_spec_at(revisions: Entries, at: str) -> dict[str, Any]:
    found = find_spec_at(revisions, datetime.fromisoformat(at))
    if found is None:
        first = revisions[0]
        raise errors.NotFound(
            f"{first['kind']}/{first['name']} did not exist at {at}", hint=f"its history begins at {first['time']}"
        )
    return found


def _flatten(value: Any, path: str = "") -> dict[str, str]:
    """The text of each field of a spec, by its path."""
    if isinstance(value, Mapping) and value:
        start = f"{path}." if path else ""
        inner = [_flatten(item, f"{start}{key}") for key, item in value.items()]
    elif isinstance(value, list) and value:
        inner = [_flatten(item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return {path: " ".join(text.split())} if path else {}
    return {key: text for leaves in inner for key, text in leaves.items()}


def _current_version(entry: Mapping[str, Any]) -> str:
    """The version that a promotion made current."""
    current = (entry.get("after") or {}).get("current")
    return str(current.get("version", "")) if isinstance(current, Mapping) else ""
