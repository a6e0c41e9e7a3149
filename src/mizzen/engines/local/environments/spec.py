"""The requirements of an environment, the key derived from them, and the paths of its files."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.confinement.files.untrusted_files import read_beginning
from mizzen.kinds.text import requirements
from mizzen.supervisor.data_dir import read_json

if TYPE_CHECKING:
    from mizzen.kinds.workload import Environment  # with pydantic, which would be half of a builder's start

FORM = 1
"""Increased when existing environments must be rebuilt."""
PREFIX = "env-"
"""The prefix of the keys of build processes."""
_MOST_STAMP = 4 << 20
_GOING = ".going"
"""The suffix of folders that are being removed."""


@dataclass(frozen=True, slots=True)
class Recipe:
    requirements: tuple[str, ...]
    python: str
    """Such as 3.12."""

    @classmethod
    def of(cls, wanted: Environment) -> Self:
        """The runtime needs numpy, so it is added if it is missing."""
        lines = requirements.normal(wanted.requirements)
        if "numpy" not in map(requirements.package, lines):
            lines = tuple(sorted((*lines, "numpy")))
        return cls(lines, wanted.python or f"{sys.version_info.major}.{sys.version_info.minor}")

    @property
    def key(self) -> str:
        """Equal for environments that can be shared: the same packages, Python and platform."""
        made_of = [FORM, self.requirements, self.python, platform.python_implementation(), sysconfig.get_platform()]
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class EnvironmentStamp:
    """The content of the stamp of a complete environment."""

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
class EnvironmentPaths:
    """The paths of one environment. It is built in place, because it cannot be moved. It is complete only with its
    stamp, which is written last."""

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
    def next_stamp(self) -> Path:
        """The stamp while it is written, outside the folder that packages can write to while they are built."""
        return self.root / f"{self.key}.stamp.json"

    @property
    def used(self) -> Path:
        """Its modification time says when a workload last wanted the environment."""
        return self.folder / ".used"

    @property
    def order(self) -> Path:
        """The order for the builder."""
        return self.root / f"{self.key}.order.json"

    @property
    def step(self) -> Path:
        """The progress of the build."""
        return self.root / f"{self.key}.step.json"

    @property
    def failure(self) -> Path:
        """Why the build failed."""
        return self.root / f"{self.key}.failure.json"

    @property
    def process(self) -> str:
        return f"{PREFIX}{self.key}"

    def set_aside(self) -> Path | None:
        """Make it disappear atomically, however long its files take to delete, and even if the process is killed.

        Returns the folder to delete; None: there was nothing.
        """
        going = self.root / f".{self.key}.{secrets.token_hex(4)}{_GOING}"
        try:
            self.folder.rename(going)
        except FileNotFoundError:
            return None
        except OSError:  # not even room for a new name: its files are deleted in place
            self.stamp.unlink(missing_ok=True)
            return self.folder
        return going

    def remove(self) -> None:
        """Blocking, until all its files are deleted."""
        going = self.set_aside()
        if going is not None:
            with suppress(OSError):
                remove_tree(going)


def list_removing(root: Path) -> list[Path]:
    """Folders that were set aside and still have to be deleted, including those of killed processes."""
    return list(root.glob(f".*{_GOING}"))


def root_of(data_dir: Path) -> Path:
    return data_dir / "envs"


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """One environment of a data dir, for listings."""

    key: str
    requirements: tuple[str, ...]
    python: str
    tool: str
    packages: tuple[str, ...]
    size: int
    used: float
    """When a workload last wanted it, in seconds since 1970, accurate to some minutes."""


def list_stored(data_dir: Path) -> list[StoredEnvironment]:
    """Complete environments, most recently used first. Blocking."""
    found = []
    for stamp in root_of(data_dir).glob("[!.]*/.complete"):
        paths = EnvironmentPaths(root_of(data_dir), stamp.parent.name)
        whole, order = read_stamp(paths), read_json(paths.order) or {}
        if whole is not None:
            lines = tuple(order.get("requirements", ()))
            found.append(
                StoredEnvironment(
                    paths.key, lines, whole.python, whole.tool, whole.packages, whole.size, last_used(paths)
                )
            )
    return sorted(found, key=lambda one: one.used, reverse=True)


def read_stamp(paths: EnvironmentPaths) -> EnvironmentStamp | None:
    """None if there is none. The code of packages could have written anything there while it was built."""
    try:
        return EnvironmentStamp.of(json.loads(read_beginning(paths.stamp, _MOST_STAMP)))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def last_used(paths: EnvironmentPaths) -> float:
    for file in (paths.used, paths.stamp):
        with suppress(FileNotFoundError):
            return file.lstat().st_mtime
    return 0.0
