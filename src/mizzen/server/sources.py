"""What a new version is made of: files on this machine, their framework, and what to load of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mizzen.errors import Fault, Invalid
from mizzen.kinds.model import FRAMEWORKS
from mizzen.server.fields import suggestion, text_fault, unknown

PICKLES = frozenset({".joblib", ".pkl", ".pickle"})
_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class Source:
    """What the caller said; None where it is ours to find out."""

    path: Path
    framework: str | None
    entrypoint: str | None


def decode(body: Mapping[str, Any]) -> Source:
    """Raises Invalid with all faults of the body."""
    faults = [*unknown(body, ("path", "framework", "entrypoint"))]
    for name in ("path", "framework", "entrypoint"):
        faults += text_fault(body, name, required=name == "path")
    path, framework, entrypoint = (body.get(name) or None for name in ("path", "framework", "entrypoint"))
    if isinstance(path, str) and (not Path(path).is_absolute() or "\0" in path):
        faults.append(Fault("path", f"{path!r} is no absolute path on the plane's machine"))
    if isinstance(framework, str) and framework not in FRAMEWORKS:
        faults.append(Fault("framework", f"unknown framework '{framework}', {suggestion(framework, FRAMEWORKS)}"))
    if faults:
        raise Invalid.of("the version", tuple(faults))
    return Source(Path(str(path)), framework, entrypoint)


def recognised(source: Source, files: Sequence[str], default_framework: str | None) -> tuple[str, str | None]:
    """Framework and entrypoint of these files: what was said, else what the model says, else what they look like."""
    framework = source.framework or default_framework or _detected(source, files)
    if framework is None:
        known = ", ".join(FRAMEWORKS)
        raise Invalid.of("the version", (Fault("framework", f"cannot be told from the files; name it: {known}"),))
    entrypoint = source.entrypoint or _default_entrypoint(framework, files)
    fault = _entrypoint_fault(framework, entrypoint, files)
    if fault:
        raise Invalid.of("the version", (Fault("entrypoint", fault),))
    return framework, entrypoint


def _detected(source: Source, files: Sequence[str]) -> str | None:
    # Code beside a pickle is likely to be what loads it.
    if ":" in (source.entrypoint or "") or any(file.endswith(".py") for file in files):
        return "python"
    return "sklearn" if len(_pickles(files)) == 1 else None


def _default_entrypoint(framework: str, files: Sequence[str]) -> str | None:
    if framework == "python":
        return None
    if len(files) == 1:
        return files[0]
    pickles = _pickles(files)
    return pickles[0] if len(pickles) == 1 else None


def _entrypoint_fault(framework: str, entrypoint: str | None, files: Sequence[str]) -> str | None:
    if framework == "python":
        if entrypoint is None:
            return "required for Python code: module:object, such as model:predict"
        pickled = entrypoint in files and not entrypoint.endswith(".py")
        if pickled or _OBJECT.fullmatch(entrypoint):
            return None
        return f"'{entrypoint}' is neither module:object, such as model:predict, nor a pickled object of this version"
    if entrypoint is None:
        return "required, because there are several files: the one to load"
    return (
        None
        if entrypoint in files
        else f"'{entrypoint}' is no file of this version, {suggestion(entrypoint, files[:20])}"
    )


def _pickles(files: Sequence[str]) -> list[str]:
    return [file for file in files if PurePosixPath(file).suffix in PICKLES]
