"""Plug-ins of other packages, found by Python entry points: frameworks and blob stores.

A package that cannot be imported, hangs or crashes is reported as broken and does no harm: a separate process reads the
declarations of frameworks, which are data (`declaration`). Only a runtime imports the loader that it needs.

Standard library only, like the table of frameworks. This module is also the program of that process: see `main`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Final

FRAMEWORKS: Final = "mizzen.frameworks"
BLOBS: Final = "mizzen.blobs"
IMPORT_TIMEOUT: Final = 60.0
"""Seconds to read a declaration, which imports a package, perhaps on a busy machine."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A plug-in that is installed but cannot be used."""

    group: str
    name: str
    package: str
    error: str

    def __str__(self) -> str:
        return f"'{self.name}' of the package {self.package} is broken: {self.error}"


@functools.cache
def entries(group: str) -> tuple[EntryPoint, ...]:
    """The installed entry points of a group, sorted by name. Later installations are seen by the next process only."""
    return tuple(sorted(importlib.metadata.entry_points(group=group), key=lambda entry: entry.name))


def entry(group: str, name: str) -> EntryPoint | None:
    return next((one for one in entries(group) if one.name == name), None)


def package_of(one: EntryPoint) -> str:
    return one.dist.name if one.dist is not None else one.value


def broken(one: EntryPoint, error: str) -> Broken:
    return Broken(one.group, one.name, package_of(one), " ".join(error.split())[:500])


def declaration(one: EntryPoint) -> dict[str, Any] | Broken:
    """The declaration of a plug-in as JSON data, read by another process. Blocking."""
    command = [sys.executable, "-m", "mizzen.plugins", one.group, one.name]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=IMPORT_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return broken(one, f"it could not be imported within {IMPORT_TIMEOUT:.0f} seconds")
    except OSError as error:
        return broken(one, f"it could not be examined: {error}")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return broken(one, lines[-1] if lines else f"its import ended the process with code {done.returncode}")
    try:
        declared = json.loads(done.stdout)
    except ValueError:
        return broken(one, "its import ended the process without output")
    return declared if isinstance(declared, dict) else broken(one, "it declares nothing")


def main(arguments: Sequence[str]) -> int:
    """`python -m mizzen.plugins GROUP NAME`: prints the declaration to stdout, or an error as last line to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)  # output during the import is not part of the answer
    group, name = arguments
    try:
        found = entry(group, name)
        if found is None:
            raise LookupError(f"no plug-in '{name}' of {group}")  # noqa: TRY301
        declared = found.load().to_json()
    except BaseException as error:  # noqa: BLE001 - it may raise anything, SystemExit too
        sys.stderr.write(f"\n{type(error).__name__}: {' '.join(str(error).split())}\n")
        return 1
    os.write(answer, json.dumps(declared).encode())
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a thread that the plug-in started must not keep the process alive
