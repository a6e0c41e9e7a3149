"""Which framework loads the files of a version, and which of them: as said, else by their names and content."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mizzen import frameworks
from mizzen.blobs import model_formats
from mizzen.blobs.file_store import Entry
from mizzen.blobs.model_formats import MOST_LOOKED_AT, Look, marked
from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.findings import suggestion
from mizzen.server.versions.sources import Said

_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def recognised(
    said: Said, entries: Sequence[Entry], content: Callable[[str], Path], of_the_model: str | None, default: str
) -> tuple[str, str | None]:
    """Framework and entrypoint: what was said, else what the model says, else what the files are, else the plane's
    default. `content` says where the content of a digest is. Blocking. Raises Invalid.
    """
    files = [entry.path for entry in entries]
    looks = {} if _code(said, files) or marked(files) else _looks(said, entries, content)
    framework = said.framework or of_the_model or _detected(said, files, looks) or default
    if not framework:
        raise _unknown(looks)
    entrypoint = said.entrypoint or _default_entrypoint(framework, files, looks)
    known = bool(files) and (entrypoint is not None or not _to_be_trained(said, framework, files))
    fault = _entrypoint_fault(framework, entrypoint, files, looks) if known else None
    if fault:
        raise Invalid.of("the version", (Fault("entrypoint", fault),))
    return framework, entrypoint


def _to_be_trained(said: Said, framework: str, files: Sequence[str]) -> bool:
    """Then what to load may be what a training job is still to make."""
    return said.training or frameworks.trainer(framework) in files


def _code(said: Said, files: Sequence[str]) -> bool:
    """Code beside a pickle is likely to be what loads it."""
    return ":" in (said.entrypoint or "") or any(file.endswith(".py") for file in files)


def _looks(said: Said, entries: Sequence[Entry], content: Callable[[str], Path]) -> dict[str, Look]:
    chosen = [entry for entry in entries if entry.path == said.entrypoint] or entries
    if len(chosen) > MOST_LOOKED_AT:
        return {}
    found = {entry.path: model_formats.look(content(entry.digest), entry.path) for entry in chosen}
    return {path: look for path, look in found.items() if look is not None}


def _detected(said: Said, files: Sequence[str], looks: dict[str, Look]) -> str | None:
    marks = {} if ":" in (said.entrypoint or "") else marked(files)
    if len(set(marks.values())) == 1:
        return next(iter(marks.values()))
    if _code(said, files):
        return "python"
    kinds = {look.framework for look in looks.values() if look.framework}
    if len(kinds) > 1:
        raise Invalid.of("the version", (Fault("entrypoint", _which(looks)),))
    return kinds.pop() if kinds else None


def _unknown(looks: dict[str, Look]) -> Invalid:
    for path, look in looks.items():
        if look.advice:
            return Invalid.of("the version", (Fault("framework", f"'{path}' is {look.advice}"),))
    known = ", ".join(frameworks.known())
    return Invalid.of("the version", (Fault("framework", f"cannot be told from the files; name it: {known}"),))


def _default_entrypoint(framework: str, files: Sequence[str], looks: dict[str, Look]) -> str | None:
    fitting = [path for path, name in marked(files).items() if name == framework]
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
        return _which(looks) if frameworks.find(framework) is not None else None
    if entrypoint in files or any(file.startswith(f"{entrypoint.rstrip('/')}/") for file in files):
        return None
    return f"'{entrypoint}' is no file of this version; {suggestion(entrypoint, files[:20])}"


def _which(looks: dict[str, Look]) -> str:
    could = [f"'{path}' ({look.framework})" for path, look in looks.items() if look.framework]
    if not could:
        return "required, because there are several files: the one to load"
    return f"required, because several files could be the model: {', '.join(could[:10])}; name the one to load"
