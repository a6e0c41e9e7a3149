"""docs/reference/cli.md, from the command tree of the typer app."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

from typer.main import get_command

from mizzen.cli.app import app
from tools.reference import markdown

INTRO = """\
Exit codes: 0 on success, 1 on failure, 2 on wrong usage, 130 when interrupted. Results go to stdout, everything else to
stderr. Commands find a plane by `MIZZEN_URL` and `MIZZEN_TOKEN`, or else by its data dir: `--data-dir`,
`MIZZEN_DATA_DIR`, `./.mizzen`. For an https address, set `SSL_CERT_FILE` to a copy of the plane's CA: `tls/ca.pem`
in its data dir. With `MIZZEN_DEBUG=1`, an unexpected error shows a traceback. Much of this also works with
[kubectl](../kubectl.md)."""

UNBROKEN = "\b"
"""Marks a paragraph of a docstring whose line breaks typer must keep."""


def page() -> str:
    blocks = [block for words, command in commands("mizzen", get_command(app)) for block in _command(words, command)]
    return markdown.page("Command line", INTRO, *blocks)


def commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that is not a group, with the words that call it, in the order of --help."""
    children: dict[str, Any] = getattr(command, "commands", {})
    if not children:
        yield words, command
    for name, child in children.items():
        if not child.hidden:
            yield from commands(f"{words} {name}", child)


def _command(words: str, command: Any) -> list[str]:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    usage = " ".join([words, *map(_placeholder, arguments), *(["[OPTIONS]"] if options else [])])
    return [
        f"## {words}",
        f"```\n{usage}\n```",
        *_help(command.help or ""),
        markdown.table(("Argument", "Meaning"), [(_name(argument), argument.help or "") for argument in arguments]),
        markdown.table(
            ("Option", "Default", "Meaning"),
            [(_flags(option), _default(option), option.help or "") for option in options],
        ),
    ]


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a help text; one that keeps its line breaks is an example and becomes code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.strip() != UNBROKEN:
            yield paragraph
            continue
        title, _, lines = rest.partition("\n")
        yield title.strip()
        yield f"```sh\n{inspect.cleandoc(lines)}\n```"


def _placeholder(argument: Any) -> str:
    return argument.metavar if argument.required else f"[{argument.metavar}]"


def _name(argument: Any) -> str:
    return markdown.code(argument.metavar)


def _flags(option: Any) -> str:
    names = ", ".join(markdown.code(name) for name in [*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    return f"{names} {markdown.code(option.metavar)}"


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag and option.secondary_opts:
        return markdown.code((option.opts if option.default else option.secondary_opts)[0])
    if option.default in (None, False, [], ()):
        return ""
    return markdown.code(_plain(option.default))


def _plain(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    return value if isinstance(value, str) else json.dumps(value, default=str)
