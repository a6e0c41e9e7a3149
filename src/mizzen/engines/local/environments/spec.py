"""What an environment is made of, what it is called after that, and where its files are."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mizzen.kinds.text import requirements
from mizzen.supervisor.data_dir import read_json

if TYPE_CHECKING:
    from mizzen.kinds.workload import Environment  # with pydantic, which would be half of a builder's start

FORM = 1
"""Goes up when environments of old are to be built anew."""
PREFIX = "env-"
"""What the keys of processes that build one start with."""
_GOING = ".going"
"""What the names of folders that are being removed end with."""


@dataclass(frozen=True, slots=True)
class Recipe:
    requirements: tuple[str, ...]
    python: str
    """Such as 3.12."""

    @classmethod
    def of(cls, wanted: Environment) -> Self:
        """The runtime needs numpy, so it is added where it is not named."""
        lines = requirements.normal(wanted.requirements)
        if "numpy" not in map(requirements.package, lines):
            lines = tuple(sorted((*lines, "numpy")))
        return cls(lines, wanted.python or f"{sys.version_info.major}.{sys.version_info.minor}")

    @property
    def key(self) -> str:
        """Equal for what can be shared: the same packages for the same Python on the same kind of machine."""
        made_of = [FORM, self.requirements, self.python, platform.python_implementation(), sysconfig.get_platform()]
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Whole:
    """What is known of an environment that is there: the content of its stamp."""

    python: str
    """Its full version."""
    tool: str
    packages: tuple[str, ...]
    size: int
    seconds: float

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "packages": tuple(data["packages"])})


@dataclass(frozen=True, slots=True)
class EnvironmentPlace:
    """Where everything about one environment is. It is built where it is used, because it cannot be moved: only with
    its stamp, which is written last, is it whole."""

    root: Path
    key: str

    @property
    def folder(self) -> Path:
        return self.root / self.key

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.folder / ".complete"

    @property
    def used(self) -> Path:
        """Its time of change says when somebody last wanted the environment."""
        return self.folder / ".used"

    @property
    def order(self) -> Path:
        """What the builder is to do."""
        return self.root / f"{self.key}.order.json"

    @property
    def step(self) -> Path:
        """How far it is."""
        return self.root / f"{self.key}.step.json"

    @property
    def failure(self) -> Path:
        """Why it gave up."""
        return self.root / f"{self.key}.failure.json"

    @property
    def process(self) -> str:
        return f"{PREFIX}{self.key}"

    def set_aside(self) -> Path | None:
        """From one moment to the next it is not there, however long its files take, and whoever is killed over it.

        What is to be removed; None: there was nothing.
        """
        going = self.root / f".{self.key}.{secrets.token_hex(4)}{_GOING}"
        try:
            self.folder.rename(going)
        except FileNotFoundError:
            return None
        except OSError:  # not even room for a name: its files go from where they are
            self.stamp.unlink(missing_ok=True)
            return self.folder
        return going

    def remove(self) -> None:
        """Blocking, for as long as its files take."""
        going = self.set_aside()
        if going is not None:
            shutil.rmtree(going, ignore_errors=True)


def still_going(root: Path) -> list[Path]:
    """What was set aside and is still to be removed, also by those who were killed over it."""
    return list(root.glob(f".*{_GOING}"))


def root_of(data_dir: Path) -> Path:
    return data_dir / "envs"


@dataclass(frozen=True, slots=True)
class Kept:
    """One environment of a data dir, for whoever looks at what there is."""

    key: str
    requirements: tuple[str, ...]
    python: str
    tool: str
    packages: tuple[str, ...]
    size: int
    used: float
    """When somebody last wanted it, in seconds since 1970, give or take some minutes."""


def kept(data_dir: Path) -> list[Kept]:
    """Those that are whole, the one that was used last first. Blocking."""
    found = []
    for stamp in root_of(data_dir).glob("[!.]*/.complete"):
        place = EnvironmentPlace(root_of(data_dir), stamp.parent.name)
        whole, order = read_json(stamp), read_json(place.order) or {}
        if whole is not None:
            told = Whole.of(whole)
            lines = tuple(order.get("requirements", ()))
            found.append(Kept(place.key, lines, told.python, told.tool, told.packages, told.size, last_used(place)))
    return sorted(found, key=lambda one: one.used, reverse=True)


def last_used(place: EnvironmentPlace) -> float:
    for file in (place.used, place.stamp):
        with suppress(FileNotFoundError):
            return file.stat().st_mtime
    return 0.0
