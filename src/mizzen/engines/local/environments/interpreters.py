"""Which Python interpreters there are on this machine. None is ever fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mizzen.kinds.text.requirements import OLDEST

_ASK = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_PATIENCE = 20.0
_NAMED = re.compile(r"python(3\.\d+)")
_VERSION = re.compile(r"(?:cpython-)?(3\.\d+\.\d+)\b")


class NotHere(Exception):
    """There is no such Python; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    version: str
    """In full, such as 3.12.4."""


def find(wanted: str, environ: Mapping[str, str]) -> Interpreter:
    """One of this version: ours, else one on the PATH, else one that pyenv or uv has installed. Raises NotHere."""
    ours = ".".join(map(str, sys.version_info[:3]))
    if _fits(ours, wanted):
        return Interpreter(sys.executable, ours)
    there = [*_on_path(environ), *_installed(environ)]
    for version, path in there:
        if not _fits(version, wanted) and not _fits(wanted, version):
            continue
        found = _asked(path)  # a shim may be there without what it stands for
        if found is not None and _fits(found, wanted):
            return Interpreter(str(path), found)
    known = sorted({version for version, _ in there} | {ours}, key=_order)
    listed = ", ".join(version for version in known if _order(version)[:2] >= OLDEST)
    raise NotHere(
        f"there is no Python {wanted} on the plane's machine; found were {listed}. Install it there, for instance with "
        f"'pyenv install {wanted}', or ask for one of those"
    )


def _fits(version: str, wanted: str) -> bool:
    return version == wanted or version.startswith(f"{wanted}.")


def _on_path(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
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


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
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


def _asked(path: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(path), "-I", "-c", _ASK], capture_output=True, text=True, timeout=_PATIENCE, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
