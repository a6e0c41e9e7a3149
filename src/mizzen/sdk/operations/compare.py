"""Comparing two model versions: their specs, and their files by digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from mizzen import errors
from mizzen.sdk.packaging import references

if TYPE_CHECKING:
    from mizzen.sdk.api.models import ModelCalls

Change = Literal["same", "changed", "added", "removed"]

_FILES: Final = "artifacts"
_OF_EACH: Final = frozenset({"modelName", "version", _FILES})
"""Fields of the spec that are compared separately, or always differ."""


@dataclass(frozen=True, slots=True)
class FileChange:
    path: str
    change: Change
    before: int | None
    """Sizes are in bytes; None if only one version has the file."""
    after: int | None


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Comparison:
    before: str
    """`model:version`"""
    after: str
    fields: tuple[FieldChange, ...]
    files: tuple[FileChange, ...]
    halves: tuple[str, ...]
    """Which of `code` and `data` changed."""

    @property
    def equal(self) -> bool:
        return not self.fields and all(file.change == "same" for file in self.files)


async def compare(plane: ModelCalls, before: str, after: str) -> Comparison:
    """Compare two versions: `model:version`, `model@alias`, or `model` for its current one. Raises NotFound,
    Invalid."""
    one, other = await _fetch_version(plane, before), await _fetch_version(plane, after)
    fields, files = _compare_fields(one, other), _compare_files(one, other)
    return Comparison(_name_of(one), _name_of(other), fields, files, _find_halves(fields, files))


async def _fetch_version(plane: ModelCalls, reference: str) -> dict[str, Any]:
    named = references.parse(reference)
    version = named.version or await _resolve_version(plane, named.name, named.alias)
    described = await plane.describe_version(named.name, version)
    return await plane.get("modelversions", str(described["name"]))


async def _resolve_version(plane: ModelCalls, model: str, alias: str | None) -> str:
    resource = await plane.get("models", model)
    if alias is None:
        current = (resource.get("status", {}).get("current") or {}).get("version")
        if current is None:
            raise errors.NotFound(f"model '{model}' has no current version", hint=f"name a version, such as {model}:1")
        return str(current)
    aliases = resource["spec"].get("aliases") or {}
    if alias not in aliases:
        known = ", ".join(sorted(aliases)) or "none"
        raise errors.NotFound(f"model '{model}' has no alias '{alias}'", hint=f"aliases: {known}")
    return str(aliases[alias])


def _name_of(version: Mapping[str, Any]) -> str:
    return f"{version['spec']['modelName']}:{version['spec']['version']}"


def _compare_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    before, after = _facts_of(one), _facts_of(other)
    return tuple(
        FieldChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if json.dumps(before.get(name), sort_keys=True) != json.dumps(after.get(name), sort_keys=True)
    )


def _facts_of(version: Mapping[str, Any]) -> dict[str, Any]:
    labels = version["metadata"].get("labels") or {}
    spec = {name: value for name, value in version["spec"].items() if name not in _OF_EACH}
    return {**spec, **{f"labels.{key}": value for key, value in labels.items()}}


def _compare_files(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[FileChange, ...]:
    before, after = _index_by_path(one), _index_by_path(other)
    return tuple(
        FileChange(path, _classify(before.get(path), after.get(path)), _size_of(before, path), _size_of(after, path))
        for path in sorted(before.keys() | after.keys())
    )


def _index_by_path(version: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {artifact["path"]: artifact for artifact in version["spec"].get(_FILES) or ()}


def _classify(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Change:
    if one is None:
        return "added"
    if other is None:
        return "removed"
    return "same" if one["digest"] == other["digest"] else "changed"


def _size_of(files: Mapping[str, Mapping[str, Any]], path: str) -> int | None:
    return files[path].get("size") if path in files else None


def _find_halves(fields: tuple[FieldChange, ...], files: tuple[FileChange, ...]) -> tuple[str, ...]:
    """Decide by the version's code fields and by the files: Python files are code, all others data."""
    changed = [file.path for file in files if file.change != "same"]
    changed_fields = {change.field for change in fields} & {"code", "requirements", "python", "entrypoint", "image"}
    code = bool(changed_fields) or any(path.endswith(_CODE) for path in changed)
    data = any(not path.endswith(_CODE) for path in changed)
    return tuple(half for half, moved in (("code", code), ("data", data)) if moved)


_CODE: Final = (".py", ".pyi", ".ipynb", ".toml", ".txt", ".cfg")
