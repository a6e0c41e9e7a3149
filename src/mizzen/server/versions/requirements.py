"""Python requirements of a version: as the caller gives them, else from its own requirements.txt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mizzen.blobs.file_store import Entry
from mizzen.errors import Fault, Invalid
from mizzen.kinds.text import requirements
from mizzen.server.versions.sources import VersionOptions

MAX_FILE_BYTES = 1 << 20
"""A larger file is probably not a requirements file."""


def complete(options: VersionOptions, entries: Sequence[Entry], content: Callable[[str], Path]) -> VersionOptions:
    """Adds the requirements of the file in its root, unless the caller gave a list, even an empty one. Blocking.

    `content` maps a digest to the path of its content. Raises Invalid if the file cannot be used.
    """
    found = next((entry for entry in entries if entry.path == requirements.FILE), None)
    if found is None or options.values.get("requirements") is not None:
        return options
    try:
        if found.size > MAX_FILE_BYTES:
            raise ValueError(f"has {found.size} bytes; at most {MAX_FILE_BYTES} are allowed")  # noqa: TRY301
        lines = requirements.read(content(found.digest).read_text("utf-8"))
    except ValueError as error:  # also if it is not UTF-8
        instead = "list the packages instead, or none at all (requirements: [], --no-requirements)"
        raise Invalid.of("the version", (Fault("requirements", f"{requirements.FILE}: {error}; {instead}"),)) from error
    return VersionOptions({**options.values, "requirements": list(lines)}) if lines else options
