"""Runs a program with the Python of its client: each of its functions, which gets a namespace of its own.

`python -m tests.conformance.programs.each <module>` exits with 1 when one of them fails, or when there is none, and
shows why, with the values that it had.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

LONGEST = 63
"""Characters of a namespace's name."""


def main(name: str) -> int:
    steps = steps_of(importlib.import_module(name))
    failed = [step.__name__ for step in steps if not _passes(step)]
    sys.stdout.write(f"{name}: {len(steps)} steps, failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed or not steps else 0


def steps_of(program: ModuleType) -> list[Callable[[str], Any]]:
    """Its public functions, in their order."""
    own = (value for value in vars(program).values() if inspect.isfunction(value))
    return [value for value in own if value.__module__ == program.__name__ and not value.__name__.startswith("_")]


def _passes(step: Callable[[str], Any]) -> bool:
    namespace = f"{step.__module__.rpartition('.')[2]}-{step.__name__.replace('_', '-')}"[:LONGEST].strip("-")
    try:
        done = step(namespace)
        if inspect.iscoroutine(done):
            asyncio.run(done)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the others have their turn
        told = traceback.TracebackException.from_exception(error, capture_locals=True)
        sys.stdout.write(f"---- {step.__name__}\n{''.join(told.format())}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
