"""`mizzen limit`: rate limits and quotas of users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from mizzen import errors
from mizzen.cli import completions
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import PlaneSession

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

_COLUMNS = ("subject", "perSecond", "burst", "perDay", "perMonth", "used", "updated", "updatedBy")


def limit(
    *,
    subject: Annotated[
        str | None,
        argument(
            "USER",
            "User, group:NAME, '*' for each user with a token, or anonymous; omit to show all limits.",
            completions.users,
        ),
    ] = None,
    per_second: Annotated[float | None, option("Predictions per second.")] = None,
    burst: Annotated[int | None, option("Predictions at once [default: as many as per second].")] = None,
    per_day: Annotated[int | None, option("Predictions per UTC day.")] = None,
    per_month: Annotated[int | None, option("Predictions per UTC month.")] = None,
    remove: Annotated[bool, option("Remove the limit.", "--remove")] = False,
    session: PlaneSession,
) -> None:
    """Limit the predictions of a user, or show limits and usage.

    The given options replace the whole limit. All tokens of a user share it. Requests beyond it get a 429.

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
        raise errors.Invalid("a limit needs a USER", hint="for example: mizzen limit ann --per-second 50")
    if not math.isfinite(per_second or 0.0):
        raise errors.Invalid(
            f"--per-second must be a finite number, not {per_second:g}", hint="--remove removes a limit"
        )
    if given and remove:
        raise errors.Invalid("--remove cannot be combined with limits", hint="leave out --remove, or all other options")
    if subject is not None and remove:
        session.call(lambda plane: plane.unlimit(subject))
        session.write_outcome({"subject": subject, "removed": True}, f"{subject} may predict without limit")
    elif subject is not None and given:
        new = session.call(lambda plane: plane.limit(subject, **given))
        session.write_outcome(new, f"{subject} may predict {_describe(new)}")
    else:
        _show(subject, session)


def _show(subject: str | None, session: PlaneSession) -> None:
    async def work(plane: AsyncPlane) -> list[dict[str, Any]]:
        return await plane.limits() if subject is None else [await plane.limit_of(subject)]

    found = session.call(work)
    if session.form is Format.TABLE:
        found = [{**each, "used": _format_usage(each["used"])} for each in found]
    session.write_list(found, _COLUMNS, "no limits")


def _describe(limit: dict[str, Any]) -> str:
    rate = f"{limit['perSecond']:g} times a second ({limit['burst']} at once)" if limit["perSecond"] else ""
    words = [rate, *(f"{limit[key]} times a {word}" for key, word in (("perDay", "day"), ("perMonth", "month")))]
    given = [bool(rate), bool(limit["perDay"]), bool(limit["perMonth"])]
    return ", ".join(word for word, there in zip(words, given, strict=True) if there)


def _format_usage(used: dict[str, int]) -> str:
    return ", ".join(f"{count} this {period}" for period, count in used.items())
