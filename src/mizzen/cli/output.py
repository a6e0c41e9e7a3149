"""What commands print: results on stdout as table, JSON or YAML; errors on stderr as `error:` and `hint:`.

Much of it was written by models, their authors and other planes. On a terminal it is only text: what would move the
cursor, change the title or answer in the person's name is shown as `\\u001b` and the like.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TextIO

import typer

from mizzen.errors import MizzenError


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Listed(StrEnum):
    """Formats of a list of objects."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


_CONTROLS: Final = re.compile(r"(?!\n|\t|\r\n)[\x00-\x1f\x7f-\x9f]")
_UNCOLOURED: Final = re.compile(rf"(?!\x1b\[[0-9;:]*m){_CONTROLS.pattern}")
"""Without what begins a colour."""


def say(text: str = "", *, nl: bool = True, colours: bool = False) -> None:
    """A piece of the result. When nobody reads it any more (`| head -1`), the command has done its work and ends.

    With `colours`, those that are in it are shown.
    """
    if not _echo(text, nl=nl, colours=colours):
        raise typer.Exit


def tell(text: str = "") -> None:
    """What happens, on stdout; it goes on happening when nobody reads."""
    _echo(text)


def note(text: str) -> None:
    """For the person watching, not part of the result."""
    _echo(text, err=True)


def warn(text: str) -> None:
    """Something odd that changes nothing."""
    note(f"warning: {text}")


def tick(step: str, began: float) -> None:
    """A step that is done, and how long it took since the monotonic time `began`."""
    tell(f"✓ {step:<26} {time.monotonic() - began:.1f} s")


def fail(error: MizzenError) -> None:
    note(f"error: {error.message}")
    for fault in error.faults:
        if fault.message not in error.message:
            note(f"  {fault}")
    if error.hint:
        note(f"hint: {error.hint}")


def data(value: Any, form: Format | Listed) -> None:
    """`value` as JSON or YAML. Of objects without who owns which field, which is long, and for programs."""
    value = _without_owners(value)
    if form == Format.YAML:
        import yaml

        say(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        say(json.dumps(value, indent=2, ensure_ascii=False))


def _without_owners(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_owners(inner) for name, inner in value.items() if name != "managedFields"}
    return [_without_owners(inner) for inner in value] if isinstance(value, list | tuple) else value


def outcome(value: Any, form: Format, text: str = "") -> None:
    """What a command did: a sentence for people, or the same as data."""
    if form is not Format.TABLE:
        data(value, form)
    elif text:
        say(text)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their widest value: nothing is cut, so that other programs can read them."""
    lines = [tuple(titles), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        say("   ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())


def listing(items: list[dict[str, Any]], keys: tuple[str, ...], nothing: str, form: Format) -> None:
    """Items with a column for each key; `nothing`, on stderr, when there are none."""
    if form is not Format.TABLE:
        data({"items": items}, form)
    elif not items:
        note(nothing)
    else:
        table(tuple(_title(key) for key in keys), (tuple(_shown(item.get(key)) for key in keys) for item in items))


def size(count: int | None) -> str:
    """Bytes, in the largest unit: 512 B, 3.4 KB, 1.2 GB."""
    if count is None:
        return ""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("KB", "MB", "GB", "TB"):
        value /= 1000
        if value < 1000 or unit == "TB":
            break
    return f"{value:.1f} {unit}"


def rate(value: float) -> str:
    """How much in a second: 12.3, 157."""
    return f"{value:.1f}" if 0 < value < 100 else f"{value:.0f}"


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """How long ago, in the largest unit: 12s, 5m, 3h, 8d."""
    if not timestamp:
        return ""
    seconds = int(((now or datetime.now(UTC)) - datetime.fromisoformat(timestamp)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _title(key: str) -> str:
    return "".join(f"-{letter}" if letter.isupper() else letter for letter in key).upper()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def shown(text: str, *, colours: bool = False) -> str:
    """As it may reach a terminal. What is escaped is so as in JSON, which stays JSON."""
    return (_UNCOLOURED if colours else _CONTROLS).sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _echo(text: str, *, nl: bool = True, err: bool = False, colours: bool = False) -> bool:
    """Whether somebody reads."""
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is not None and stream.isatty():
        text = shown(text, colours=colours)
    try:
        # Without `color`, colours would be taken out of a log that goes to a file or a program.
        typer.echo(text, nl=nl, err=err, color=True if colours else None)
    except BrokenPipeError:
        # What is still in the buffer would fail again when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2 if err else 1)
        os.close(nowhere)
        return False
    return True
