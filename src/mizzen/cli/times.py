"""Times as people write them in options; see `sdk.times`."""

from __future__ import annotations

import typer

from mizzen.sdk.connection import times


def option(text: str | None) -> str | None:
    """For an option: the time as the plane takes it."""
    if text is None:
        return None
    try:
        return times.parse(text).isoformat().replace("+00:00", "Z")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
