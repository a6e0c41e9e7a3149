"""completion: what a shell needs to complete our words."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Final

import typer

from mizzen.cli import output

VARIABLE: Final = "_MIZZEN_COMPLETE"
"""How a shell tells the command that it is asked for words."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell it is for.")]) -> None:
    """Print a script that lets a shell complete commands, options, kinds and the names of objects.

    \b
    Example:
      mizzen completion bash >> ~/.bashrc
      mizzen completion zsh > ~/.zfunc/_mizzen
      mizzen completion fish > ~/.config/fish/completions/mizzen.fish
    """
    from typer._completion_shared import get_completion_script

    output.say(get_completion_script(prog_name="mizzen", complete_var=VARIABLE, shell=shell.value))


def prepare() -> None:
    """When a shell asks for words: let typer know how shells want them. It does so by itself only for its own flags."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
