"""The group `mizzen secret`: write-only values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions
from mizzen.cli.help_format import Group
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

secret = Group("secret", "Secrets, which are write-only: set, list, delete.", "mizzen secret set db PASSWORD")

NameArgument = Annotated[str, argument("NAME", "Name of the secret.", completions.secrets)]


@secret.command("set")
def set_secret(
    *,
    name: NameArgument,
    values: Annotated[
        list[str] | None,
        argument(
            "KEY=VALUE|KEY=@FILE|KEY…", "Values; KEY alone prompts for one, and '-' reads KEY=VALUE lines from stdin."
        ),
    ] = None,
    replace: Annotated[bool, option("Remove all other values of the secret.", "--replace")] = False,
    session: Session,
) -> None:
    """Set values of a secret; its other values are kept. Values are encrypted and cannot be read back.

    \b
    Example:
      mizzen secret set s3 ACCESS_KEY SECRET_KEY
      mizzen secret set tls key=@server.key
      mizzen secret set db --replace - < db.env
    """
    given = _parse_values(values or [])

    async def work(plane: AsyncPlane) -> tuple[dict[str, Any], list[str]]:
        before = [key for found in await plane.secrets() if found["name"] == name for key in found["keys"]]
        result = await plane.set_secret(name, given, replace=replace)
        return result, [key for key in before if key not in given]

    result, others = session.call(work)
    rest = f"; {'removed' if replace else 'kept'}: {', '.join(others)}" if others else ""
    session.write_outcome(
        {**result, "removed": others if replace else []},
        f"secret {name} set: {', '.join(sorted(given))}{rest}",
    )


@secret.command("list")
def list_secrets(session: Session) -> None:
    """List secrets by name and keys.

    \b
    Example:
      mizzen secret list
    """
    found = session.call(lambda plane: plane.secrets())
    session.write_list(found, ("name", "keys", "updated", "updatedBy"), "no secrets")


@secret.command("delete")
def delete_secret(name: NameArgument, session: Session) -> None:
    """Delete a secret.

    \b
    Example:
      mizzen secret delete s3
    """
    session.call(lambda plane: plane.delete_secret(name))
    session.write_outcome({"name": name, "deleted": True}, f"secret {name} deleted")


def _parse_values(given: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for item in given or ["-"]:
        values |= _read_lines() if item == "-" else dict([_parse_value(item)])
    if not values:
        raise typer.BadParameter("no values: give KEY=VALUE, KEY=@FILE, KEY, or '-' with lines on stdin")
    return values


def _parse_value(item: str) -> tuple[str, str]:
    key, sign, value = item.partition("=")
    if not key:
        raise typer.BadParameter("a value has no key before '='")  # do not print it: it may be secret
    if not sign and not (sys.stdin and sys.stdin.isatty()):
        raise typer.BadParameter(f"{key} needs a value: {key}=VALUE, {key}=@FILE or '-'")
    if not sign:
        return key, str(typer.prompt(key, hide_input=True, err=True))
    if not value.startswith("@"):
        return key, value
    try:
        return key, Path(value[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.NotFound(
            f"cannot read {value[1:]}: {getattr(error, 'strerror', None) or 'it is not a text file'}"
        ) from error


def _read_lines() -> dict[str, str]:
    """KEY=VALUE lines from stdin, as in env files; empty lines and comments are skipped."""
    if sys.stdin is None:
        raise errors.BadRequest("stdin is closed", hint="redirect a file: … < db.env")
    lines = [line for line in sys.stdin.read().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any("=" not in line for line in lines):
        raise errors.BadRequest("a line on stdin is not KEY=VALUE")
    return {key.strip(): value for key, _, value in (line.partition("=") for line in lines)}
