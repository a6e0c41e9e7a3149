"""Markdown helpers for reference pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Generated from the code by `make gen`. Do not edit. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([NOTICE, f"# {title}", *(block for block in blocks if block)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Empty if there are no rows."""
    lines = [_row(cells) for cells in rows]
    return "\n".join([_row(header), "|---" * len(header) + "|", *lines]) if lines else ""


def code(text: str) -> str:
    return f"`{text}`"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """The text on one line. A bar would end the cell, even in code; `<` would start a tag, except in code."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if odd % 2 else part.replace("<", "&lt;") for odd, part in enumerate(parts))
