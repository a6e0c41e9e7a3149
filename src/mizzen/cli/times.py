"""Times as users write them in options; see `sdk.connection.times`."""

from __future__ import annotations

import typer

from mizzen.sdk.connection import times


def parse_option(text: str | None) -> str | None:
    """Callback of a time option: the time in the form that the API takes."""
    if text is None:
        return None
    try:
        return times.parse(text).isoformat().replace("+00:00", "Z")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
