"""The files of the repository, and what a rule reports about one of them."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

GENERATED_FOLDERS = frozenset({"__pycache__", "build", "dist", "results"})


@dataclass(frozen=True)
class File:
    """One file of the repository; `path` is relative to its root, with forward slashes."""

    path: PurePosixPath
    text: str

    @property
    def python(self) -> bool:
        return self.path.suffix == ".py"

    @property
    def module(self) -> str | None:
        """Its dotted name, if it is part of the package `mizzen`."""
        if not self.python or self.path.parts[:2] != ("src", "mizzen"):
            return None
        parts = self.path.with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


@dataclass(frozen=True, slots=True)
class Finding:
    path: PurePosixPath
    message: str
    line: int = 1
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'warning: ' if self.warning else ''}{self.message}"


def repository_files(root: Path) -> list[File]:
    """Text files that are tracked or would be added. Without git: every file outside generated folders."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        paths = [root / name for name in listing.stdout.split("\0") if name]
    else:
        paths = [path for path in root.rglob("*") if not any(map(_is_generated, path.relative_to(root).parent.parts))]
    return [file for path in sorted(paths) if (file := _read(root, path))]


def _is_generated(folder: str) -> bool:
    return folder in GENERATED_FOLDERS or (folder.startswith(".") and folder != ".ci")


def _read(root: Path, path: Path) -> File | None:
    if path.is_symlink() or not path.is_file():  # deleted, but still in git's index
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    return File(PurePosixPath(path.relative_to(root).as_posix()), text)
