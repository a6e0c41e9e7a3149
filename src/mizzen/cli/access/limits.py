"""limit: how much somebody may predict."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, output
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

_COLUMNS = ("subject", "perSecond", "burst", "perDay", "perMonth", "used", "updated", "updatedBy")


def limit(
    *,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="USER",
            help="A user, group:NAME, '*' for each who has a token, or anonymous; without: show all limits.",
            autocompletion=completions.users,
        ),
    ] = None,
    per_second: Annotated[float | None, typer.Option(help="Predictions a second.")] = None,
    burst: Annotated[int | None, typer.Option(help="So many at once [default: those of a second].")] = None,
    per_day: Annotated[int | None, typer.Option(help="Predictions in a day of UTC.")] = None,
    per_month: Annotated[int | None, typer.Option(help="Predictions in a month of UTC.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the limit away.")] = False,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Limit how much somebody may predict, or show the limits and what is used of them.

    What is given is all that holds from now on. All tokens of a user share one limit. Beyond it: 429.

    \b
    Example:
      mizzen limit ann --per-second 50 --burst 100 --per-day 100000
      mizzen limit '*' --per-second 20
      mizzen limit
      mizzen limit ann --remove
    """
    wanted: dict[str, Any] = {"per_second": per_second, "burst": burst, "per_day": per_day, "per_month": per_month}
    given = {name: value for name, value in wanted.items() if value is not None}
    if (given or remove) and subject is None:
        raise errors.Invalid("whom is the limit for?", hint="write mizzen limit ann --per-second 50, say")
    if not math.isfinite(per_second or 0.0):
        raise errors.Invalid(f"{per_second:g} times a second is no limit", hint="--remove takes one away")
    if given and remove:
        raise errors.Invalid("a limit is set or taken away, not both", hint="leave --remove out, or all the others")
    if subject is not None and remove:
        call(data_dir, lambda plane: plane.unlimit(subject))
        output.outcome({"subject": subject, "removed": True}, form, f"{subject} may predict as much as they like")
    elif subject is not None and given:
        made = call(data_dir, lambda plane: plane.limit(subject, **given))
        output.outcome(made, form, f"{subject} may predict {_words(made)}")
    else:
        _show(subject, data_dir, form)


def _show(subject: str | None, data_dir: Path | None, form: Format) -> None:
    async def work(plane: AsyncPlane) -> list[dict[str, Any]]:
        return await plane.limits() if subject is None else [await plane.limit_of(subject)]

    found = call(data_dir, work)
    if form is Format.TABLE:
        found = [{**each, "used": _used(each["used"])} for each in found]
    output.listing(found, _COLUMNS, "nobody is limited", form)


def _words(limit: dict[str, Any]) -> str:
    rate = f"{limit['perSecond']:g} times a second ({limit['burst']} at once)" if limit["perSecond"] else ""
    words = [rate, *(f"{limit[key]} times a {word}" for key, word in (("perDay", "day"), ("perMonth", "month")))]
    given = [bool(rate), bool(limit["perDay"]), bool(limit["perMonth"])]
    return ", ".join(word for word, there in zip(words, given, strict=True) if there)


def _used(used: dict[str, int]) -> str:
    return ", ".join(f"{count} this {period}" for period, count in used.items())
