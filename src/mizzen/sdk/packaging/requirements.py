"""The packages that a version requires: a list of requirements, or a file of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from mizzen import errors

Required: TypeAlias = Sequence[str] | str | Path
"""Requirements as for pip, or the path of a file that holds them."""


def to_list(given: Required | None) -> list[str] | None:
    """Return the list; None if none was given, so that a requirements.txt among the files applies. Raises NotFound,
    Invalid."""
    if given is None or not isinstance(given, str | Path):
        return None if given is None else list(given)
    from mizzen.kinds.text import requirements

    try:
        return list(requirements.read(Path(given).read_text("utf-8")))
    except OSError as error:
        raise errors.NotFound(
            f"cannot read {given}: {error.strerror}", hint="put a single requirement into a list: ['numpy>=2']"
        ) from error
    except ValueError as error:
        raise errors.Invalid(f"{given}: {error}") from error


def with_pickler(given: Required | None, framework: str | None, path: Path) -> Required | None:
    """Add cloudpickle if the object was pickled with it and needs it for unpickling."""
    lines = to_list(given)
    if lines is None or framework != "python" or path.suffix != ".cloudpickle":
        return lines
    from mizzen.kinds.text import requirements

    named = "cloudpickle" in map(requirements.package, lines)
    return lines if named else [*lines, "cloudpickle"]


def describe(answer: dict[str, object]) -> str:
    """Describe a version's requirements, to be appended to its number; empty if there are none."""
    lines = answer.get("requirements")
    if not isinstance(lines, list) or not lines:
        return ""
    more = f" and {len(lines) - 2} more" if len(lines) > 2 else ""
    return f", which requires {', '.join(map(str, lines[:2]))}{more}"
