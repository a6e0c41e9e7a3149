"""The Python interpreters of this machine. None is ever downloaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mizzen.kinds.text.requirements import OLDEST

_VERSION_SCRIPT = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_TIMEOUT = 20.0
_NAMED = re.compile(r"python(3\.\d+)")
_VERSION = re.compile(r"(?:cpython-)?(3\.\d+\.\d+)\b")


class NoInterpreter(Exception):
    """There is no such Python; the message lists the available versions."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    version: str
    """In full, such as 3.12.4."""


def find(wanted: str, environ: Mapping[str, str]) -> Interpreter:
    """An interpreter of this version: ours, else one on the PATH, else one that pyenv or uv installed. Raises
    NoInterpreter."""
    ours = ".".join(map(str, sys.version_info[:3]))
    if _fits(ours, wanted):
        return Interpreter(sys.executable, ours)
    there = [*_find_on_path(environ), *_find_installed(environ)]
    for version, path in there:
        if not _fits(version, wanted) and not _fits(wanted, version):
            continue
        found = _query_version(path)  # a shim may exist without its interpreter
        if found is not None and _fits(found, wanted):
            return Interpreter(str(path), found)
    known = sorted({version for version, _ in there} | {ours}, key=_order)
    listed = ", ".join(version for version in known if _order(version)[:2] >= OLDEST)
    raise NoInterpreter(
        f"there is no Python {wanted} on the plane's machine; it has {listed}. Install it there, for example with "
        f"'pyenv install {wanted}', or use one of those"
    )


def _fits(version: str, wanted: str) -> bool:
    return version == wanted or version.startswith(f"{wanted}.")


def _find_on_path(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for folder in map(Path, dict.fromkeys(environ.get("PATH", os.defpath).split(os.pathsep))):
        if not folder.is_absolute():
            continue
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            found = _NAMED.fullmatch(name)
            if found:
                yield found[1], folder / name


def _find_installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = Path(environ.get("HOME", "/nonexistent"))
    folders = (
        Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        Path(environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python"),
    )
    for folder in folders:
        for place in sorted(folder.glob("*"), reverse=True):
            found = _VERSION.match(place.name)
            python = place / "bin" / "python3"
            if found and python.exists():
                yield found[1], python


def _query_version(path: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(path), "-I", "-c", _VERSION_SCRIPT],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
