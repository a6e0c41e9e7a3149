"""`mizzen completion`: shell completion scripts."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Final

import typer

from mizzen.cli import output

VARIABLE: Final = "_MIZZEN_COMPLETE"
"""Environment variable that a shell sets when it asks for completions."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell to complete in.")]) -> None:
    """Print a script for shell completion. It completes commands, options, kinds and object names.

    \b
    Example:
      mizzen completion bash >> ~/.bashrc
      mizzen completion zsh > ~/.zfunc/_mizzen
      mizzen completion fish > ~/.config/fish/completions/mizzen.fish
    """
    from typer._completion_shared import get_completion_script

    output.write(get_completion_script(prog_name="mizzen", complete_var=VARIABLE, shell=shell.value))


def prepare() -> None:
    """Register typer's completion classes if a shell asks for completions. Typer does so only for its own flags."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
