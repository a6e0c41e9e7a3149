"""The confinement of one process: data that travels in process specs and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a process may reach in addition to the programs and libraries of the machine. Everything else is denied."""

    read: tuple[str, ...] = ()
    """Files and folders to read and execute."""
    write: tuple[str, ...] = ()
    """Folders and files to read, write and remove things in."""
    outside: tuple[str, ...] = ()
    """More to read that users name, except the parts of it that are protected."""
    protected: tuple[str, ...] = ()
    """Paths that stay out of reach even where they lie inside a folder that every process may read, such as `/opt`.
    `read` and `write` name exceptions from this."""
    home: str = ""
    """Its HOME and TMPDIR, one of `write`. Empty: as in the environment."""
    user: str = ""
    """The user to run as; empty: the same as the plane."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, data: Any) -> Self | None:
        """Raises ValueError if it is neither None nor a confinement."""
        if data is None or isinstance(data, cls):
            return data
        if not isinstance(data, Mapping) or data.keys() - {each.name for each in fields(cls)}:
            raise ValueError(f"a confinement is an object of {', '.join(each.name for each in fields(cls))}")
        listed = {name: tuple(map(str, data.get(name, ()))) for name in ("read", "write", "outside", "protected")}
        return cls(**listed, home=str(data.get("home", "")), user=str(data.get("user", "")))
