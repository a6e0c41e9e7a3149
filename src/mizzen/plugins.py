"""What other packages bring by Python's entry points: frameworks, and stores of blobs.

A package that cannot be imported, hangs or crashes is told as broken, and harms nobody: the plane has declarations of
frameworks, which are data, read by a process of its own (`declaration`). A runtime imports what it is to load itself.

Standard library only, like the table of frameworks. Run as a program it is that process: see `main`.
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
PATIENCE: Final = 60.0
"""Seconds that a declaration may take to be read: that imports a package, on a machine that may be busy."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A plug-in that is installed and cannot be used."""

    group: str
    name: str
    package: str
    error: str

    def __str__(self) -> str:
        return f"'{self.name}' of the package {self.package} is broken: {self.error}"


@functools.cache
def entries(group: str) -> tuple[EntryPoint, ...]:
    """Those that are installed, by name. What is installed later is seen by the next process."""
    return tuple(sorted(importlib.metadata.entry_points(group=group), key=lambda entry: entry.name))


def entry(group: str, name: str) -> EntryPoint | None:
    return next((one for one in entries(group) if one.name == name), None)


def package_of(one: EntryPoint) -> str:
    return one.dist.name if one.dist is not None else one.value


def broken(one: EntryPoint, error: str) -> Broken:
    return Broken(one.group, one.name, package_of(one), " ".join(error.split())[:500])


def declaration(one: EntryPoint) -> dict[str, Any] | Broken:
    """What it declares, as JSON can carry it, read by another process. Blocking."""
    command = [sys.executable, "-m", "mizzen.plugins", one.group, one.name]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return broken(one, f"it could not be imported within {PATIENCE:.0f} seconds")
    except OSError as error:
        return broken(one, f"it could not be looked at: {error}")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return broken(one, said[-1] if said else f"its import ended the process, with code {done.returncode}")
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return broken(one, "its import ended the process without a word")
    return told if isinstance(told, dict) else broken(one, "it declares nothing")


def main(arguments: Sequence[str]) -> int:
    """`python -m mizzen.plugins GROUP NAME`: its declaration on stdout; else why not, in the last line of stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what it prints while it is imported is no answer
    group, name = arguments
    try:
        found = entry(group, name)
        if found is None:
            raise LookupError(f"no plug-in '{name}' of {group}")  # noqa: TRY301
        declared = found.load()
        told = declared.told()
    except BaseException as error:  # noqa: BLE001 - it may raise anything, SystemExit too
        sys.stderr.write(f"\n{type(error).__name__}: {' '.join(str(error).split())}\n")
        return 1
    os.write(answer, json.dumps(told).encode())
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a thread that it has begun must not keep us
