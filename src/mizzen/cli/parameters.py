"""Arguments and options of commands, declared by what their help shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def argument(metavar: str, meaning: str, complete: Callable[..., list[str]] | None = None) -> Any:
    """`complete` completes the argument in a shell."""
    return typer.Argument(metavar=metavar, help=meaning, autocompletion=complete)


def option(meaning: str, *names: str, **more: Any) -> Any:
    """`names`: by default, the parameter's own name."""
    return typer.Option(*names, help=meaning, **more)
