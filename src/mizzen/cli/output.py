"""Output of commands: results on stdout as table, JSON or YAML; errors on stderr as `error:` and `hint:`.

Much of it was written by models, their authors and other planes. On a terminal it must be only text: characters that
would move the cursor, change the title or answer in the user's name are shown as `\\u001b` and the like.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TextIO

import typer

from mizzen.cli.parameters import option
from mizzen.errors import MizzenError


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class DataFormat(StrEnum):
    """Formats of files for other programs."""

    YAML = "yaml"
    JSON = "json"


class ListFormat(StrEnum):
    """Formats of a list of objects."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


_CONTROLS: Final = re.compile(r"(?!\n|\t|\r\n)[\x00-\x1f\x7f-\x9f]")
_CONTROLS_EXCEPT_COLORS: Final = re.compile(rf"(?!\x1b\[[0-9;:]*m){_CONTROLS.pattern}")


def write(text: str = "", *, nl: bool = True, colors: bool = False) -> None:
    """Print a piece of the result. If the reader has closed the pipe (`| head -1`), the command exits with 0.

    With `colors`, color codes in the text reach the terminal.
    """
    if not _echo(text, nl=nl, colors=colors):
        raise typer.Exit


def write_progress(text: str = "") -> None:
    """Print progress on stdout; the command continues even if the reader has closed the pipe."""
    _echo(text)


def note(text: str) -> None:
    """Print a message for the user on stderr; it is not part of the result."""
    _echo(text, err=True)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    note(f"warning: {text}")


def write_step(step: str, began: float) -> None:
    """Print a finished step and its duration since the monotonic time `began`."""
    write_progress(f"✓ {step:<26} {time.monotonic() - began:.1f} s")


def write_error(error: MizzenError) -> None:
    note(f"error: {error.message}")
    for fault in error.faults:
        if fault.message not in error.message:
            note(f"  {fault}")
    if error.hint:
        note(f"hint: {error.hint}")


def write_data(value: Any, form: Format | ListFormat) -> None:
    """Print `value` as JSON or YAML, without `managedFields`, which is long and only useful to programs."""
    value = _without_owners(value)
    if form == Format.YAML:
        import yaml

        write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        write(json.dumps(value, indent=2, ensure_ascii=False))


def _without_owners(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_owners(inner) for name, inner in value.items() if name != "managedFields"}
    return [_without_owners(inner) for inner in value] if isinstance(value, list | tuple) else value


def write_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns as wide as their widest value: nothing is truncated, so that other programs can read them."""
    lines = [tuple(titles), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        write("   ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())


@dataclass(frozen=True)
class Printer:
    """The output format that the user chose, and results in it: sentences and tables for people, or data."""

    form: Annotated[Format, option("Output format.", "--output", "-o")] = Format.TABLE

    def write_data(self, value: Any) -> None:
        """Print data; for people, too, it is JSON."""
        write_data(value, self.form)

    def write_outcome(self, value: Any, text: str = "") -> None:
        """Print what a command did: a sentence for people, or the same as data."""
        self.write_lines(value, [text] if text else [])

    def write_lines(self, value: Any, lines: Iterable[str]) -> None:
        """Print `value` as data, or `lines`, which show it to people."""
        if self.form is not Format.TABLE:
            write_data(value, self.form)
            return
        for line in lines:
            write(line)

    def write_list(self, items: list[dict[str, Any]], keys: tuple[str, ...], nothing: str) -> None:
        """Print items with a column for each key; without items, print `nothing` on stderr."""
        rows = (tuple(_cell_of(item.get(key)) for key in keys) for item in items)
        self.write_rows(items, tuple(_title_of(key) for key in keys), rows, nothing)

    def write_rows(
        self, items: list[dict[str, Any]], titles: Sequence[str], rows: Iterable[Sequence[str]], nothing: str
    ) -> None:
        """Print `items` as data, or `rows`, which show them to people; without items, print `nothing` on stderr."""
        if self.form is not Format.TABLE:
            write_data({"items": items}, self.form)
        elif not items:
            note(nothing)
        else:
            write_table(titles, rows)


def format_size(count: int | None) -> str:
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


def format_rate(value: float) -> str:
    """A rate per second: 12.3, 157."""
    return f"{value:.1f}" if 0 < value < 100 else f"{value:.0f}"


def format_milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def format_age(timestamp: str | None, now: datetime | None = None) -> str:
    """The time since a timestamp, in the largest unit: 12s, 5m, 3h, 8d."""
    if not timestamp:
        return ""
    seconds = int(((now or datetime.now(UTC)) - datetime.fromisoformat(timestamp)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _title_of(key: str) -> str:
    return "".join(f"-{letter}" if letter.isupper() else letter for letter in key).upper()


def _cell_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def escape_controls(text: str, *, colors: bool = False) -> str:
    """Text that is safe on a terminal. Control characters are escaped as in JSON, so that JSON stays JSON."""
    return (_CONTROLS_EXCEPT_COLORS if colors else _CONTROLS).sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _echo(text: str, *, nl: bool = True, err: bool = False, colors: bool = False) -> bool:
    """Print, and return False if the reader has closed the pipe."""
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is not None and stream.isatty():
        text = escape_controls(text, colors=colors)
    try:
        # Without `color`, typer strips colors from a log that goes to a file or a program.
        typer.echo(text, nl=nl, err=err, color=True if colors else None)
    except BrokenPipeError:
        # Otherwise flushing the rest of the buffer would fail again when Python exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2 if err else 1)
        os.close(nowhere)
        return False
    return True
