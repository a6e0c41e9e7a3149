"""Framework and entrypoint of a version: as the caller gives them, else from the names and content of its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mizzen import frameworks
from mizzen.blobs import model_formats
from mizzen.blobs.file_store import Entry
from mizzen.blobs.model_formats import MOST_LOOKED_AT, Look, find_marker_files
from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.findings import suggestion
from mizzen.server.versions.sources import VersionOptions

_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def detect(
    options: VersionOptions,
    entries: Sequence[Entry],
    content: Callable[[str], Path],
    model_framework: str | None,
    default: str,
) -> tuple[str, str | None]:
    """Framework and entrypoint: the caller's, else the model's, else detected from the files, else the plane's default.

    `content` maps a digest to the path of its content. Blocking. Raises Invalid.
    """
    files = [entry.path for entry in entries]
    looks = {} if _has_code(options, files) or find_marker_files(files) else _inspect_files(options, entries, content)
    framework = options.framework or model_framework or _detect_framework(options, files, looks) or default
    if not framework:
        raise _unknown_framework_error(looks)
    entrypoint = options.entrypoint or _default_entrypoint(framework, files, looks)
    known = bool(files) and (entrypoint is not None or not _is_to_be_trained(options, framework, files))
    fault = _entrypoint_fault(framework, entrypoint, files, looks) if known else None
    if fault:
        raise Invalid.of("the version", (Fault("entrypoint", fault),))
    return framework, entrypoint


def _is_to_be_trained(options: VersionOptions, framework: str, files: Sequence[str]) -> bool:
    """A training job may still have to create the file to load."""
    return options.training or frameworks.trainer(framework) in files


def _has_code(options: VersionOptions, files: Sequence[str]) -> bool:
    """Code next to a pickle probably loads it."""
    return ":" in (options.entrypoint or "") or any(file.endswith(".py") for file in files)


def _inspect_files(
    options: VersionOptions, entries: Sequence[Entry], content: Callable[[str], Path]
) -> dict[str, Look]:
    chosen = [entry for entry in entries if entry.path == options.entrypoint] or entries
    if len(chosen) > MOST_LOOKED_AT:
        return {}
    found = {entry.path: model_formats.look(content(entry.digest), entry.path) for entry in chosen}
    return {path: look for path, look in found.items() if look is not None}


def _detect_framework(options: VersionOptions, files: Sequence[str], looks: dict[str, Look]) -> str | None:
    marks = {} if ":" in (options.entrypoint or "") else find_marker_files(files)
    if len(set(marks.values())) == 1:
        return next(iter(marks.values()))
    if _has_code(options, files):
        return "python"
    kinds = {look.framework for look in looks.values() if look.framework}
    if len(kinds) > 1:
        raise Invalid.of("the version", (Fault("entrypoint", _ambiguous_entrypoint(looks)),))
    return kinds.pop() if kinds else None


def _unknown_framework_error(looks: dict[str, Look]) -> Invalid:
    for path, look in looks.items():
        if look.advice:
            return Invalid.of("the version", (Fault("framework", f"'{path}' is {look.advice}"),))
    known = ", ".join(frameworks.known())
    return Invalid.of("the version", (Fault("framework", f"cannot be detected from the files; give one of {known}"),))


def _default_entrypoint(framework: str, files: Sequence[str], looks: dict[str, Look]) -> str | None:
    fitting = [path for path, name in find_marker_files(files).items() if name == framework]
    if len(fitting) == 1:
        return fitting[0]
    fitting = [path for path, look in looks.items() if look.framework == framework]
    if framework == "python":
        return fitting[0] if len(fitting) == 1 else None
    if len(files) == 1:
        return files[0]
    return fitting[0] if len(fitting) == 1 else None


def _entrypoint_fault(
    framework: str, entrypoint: str | None, files: Sequence[str], looks: dict[str, Look]
) -> str | None:
    if framework == "python":
        if entrypoint is None:
            return "required for Python code: module:object, such as model:predict"
        pickled = entrypoint in files and not entrypoint.endswith(".py")
        if pickled or _OBJECT.fullmatch(entrypoint):
            return None
        return f"'{entrypoint}' is neither module:object, such as model:predict, nor a pickled object of this version"
    if entrypoint is None:
        return _ambiguous_entrypoint(looks) if frameworks.find(framework) is not None else None
    if entrypoint in files or any(file.startswith(f"{entrypoint.rstrip('/')}/") for file in files):
        return None
    return f"'{entrypoint}' is not a file of this version; {suggestion(entrypoint, files[:20])}"


def _ambiguous_entrypoint(looks: dict[str, Look]) -> str:
    could = [f"'{path}' ({look.framework})" for path, look in looks.items() if look.framework]
    if not could:
        return "required, because there are several files: give the one to load"
    return f"required, because several files could be the model: {', '.join(could[:10])}; give the one to load"
