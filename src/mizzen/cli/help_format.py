"""Commands whose --help names values as users type them: MODEL and NUMBER, not `{model}` and `<float range>`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from mizzen.cli.option_bundles import expand_bundles

_METAVARS: Final = {int: "INTEGER", float: "NUMBER", Path: "PATH"}


class Group(typer.Typer):
    """A typer app whose commands take option bundles, and whose help ends with examples."""

    def __init__(self, name: str, about: str, *examples: str, **more: Any) -> None:
        shown = "\n".join(f"  {example}" for example in examples)
        super().__init__(name=name, help=f"{about}\n\n\b\nExample:\n{shown}", no_args_is_help=True, **more)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **more: Any
    ) -> Callable[[Any], Any]:
        register = super().command(name, cls=cls or HelpCommand, **more)

        def add(function: Callable[..., None]) -> Callable[..., None]:
            register(expand_bundles(function))
            return function

        return add


class HelpCommand(TyperCommand):
    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        for parameter in self.params:
            if isinstance(parameter, TyperArgument | TyperOption) and parameter.metavar is None:
                parameter.metavar = _metavar_of(parameter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, TyperArgument)]
        shown = [str(each.metavar) if each.required else f"[{each.metavar}]" for each in arguments]
        return [str(self.options_metavar), *shown]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        parameters = self.get_params(ctx)
        arguments = [(str(each.metavar), each.help or "") for each in parameters if isinstance(each, TyperArgument)]
        options = [each.get_help_record(ctx) for each in parameters if not isinstance(each, TyperArgument)]
        for title, records in (("Arguments", arguments), ("Options", [record for record in options if record])):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class PassthroughCommand(HelpCommand):
    """A command that passes everything after `--` to its parameter `command`, options included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        own, other = args[:at], args[at + 1 :]
        rest = super().parse_args(ctx, own)
        if ctx.params.get("command"):
            words = " ".join(ctx.params["command"])
            raise typer.BadParameter(f"the command to run comes after --: … -- {words}", ctx=ctx)
        ctx.params["command"] = other
        return rest


def _metavar_of(parameter: TyperArgument | TyperOption) -> str | None:
    """The placeholder of the value; None for a flag, which has no value."""
    if isinstance(parameter, TyperArgument):
        return parameter.name.upper()
    if parameter.is_flag:
        return None
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return _METAVARS.get(kind, "TEXT")
