"""What a version requires beside its files: as said, else as its own requirements.txt says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mizzen.blobs.file_store import Entry
from mizzen.errors import Fault, Invalid
from mizzen.kinds.text import requirements
from mizzen.server.versions.sources import Said

LARGEST = 1 << 20
"""Bytes of a requirements file: beyond it, somebody meant something else."""


def completed(said: Said, entries: Sequence[Entry], content: Callable[[str], Path]) -> Said:
    """With the requirements of the file in its root, unless others were said, or that there are none. Blocking.

    `content` says where the content of a digest is. Raises Invalid when the file cannot be followed.
    """
    found = next((entry for entry in entries if entry.path == requirements.FILE), None)
    if found is None or said.options.get("requirements") is not None:
        return said
    try:
        if found.size > LARGEST:
            raise ValueError(f"has {found.size} bytes; {LARGEST} are possible")  # noqa: TRY301
        lines = requirements.read(content(found.digest).read_text("utf-8"))
    except ValueError as error:  # nor is it text, then
        instead = "say which packages it needs instead, or that it needs none (requirements: [], --no-requirements)"
        raise Invalid.of("the version", (Fault("requirements", f"{requirements.FILE}: {error}; {instead}"),)) from error
    return Said({**said.options, "requirements": list(lines)}) if lines else said
