"""Rules of this repository that no ready-made linter knows. Exit 1 when one is broken; warnings only speak.

Each rule is a function from one file to what is wrong with it. `python -m tools.lint` checks each file git would track.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

LINES_WARNED = 400
LINES_REFUSED = 600
VAGUE_NAMES = frozenset({
    "util", "utils", "helper", "helpers", "common", "misc", "base", "manager", "managers",
})  # fmt: skip
TIERS = ("unit", "contract", "scenario", "faults", "docs", "conformance", "browser", "kube", "ml")
MACHINE_PATH = re.compile(r"(?<![\w.>-])/(?:root/|home/[\w.-]+)")
REGISTRY = re.compile(r"\b(?:https?|file)://|--(?:extra-)?index-url|--find-links|--trusted-host", re.IGNORECASE)
MADE_FOLDERS = frozenset({"__pycache__", "build", "dist", "results"})


@dataclass(frozen=True)
class File:
    """One file of the repository; `path` is relative to its root, with forward slashes."""

    path: PurePosixPath
    text: str

    @property
    def python(self) -> bool:
        return self.path.suffix == ".py"

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


def main(root: Path | None = None) -> int:
    root = root or Path(__file__).resolve().parent.parent
    files = repository_files(root)
    findings = [finding for file in files for finding in check(file, str(root))]
    for finding in sorted(findings, key=lambda finding: (not finding.warning, str(finding))):
        print(finding)
    broken = sum(not finding.warning for finding in findings)
    print(f"Own lints: {len(files)} files, {broken or 'no'} broken rule{'' if broken == 1 else 's'}.")
    return 1 if broken else 0


def check(file: File, checkout: str) -> Iterator[Finding]:
    """All that is wrong with one file."""
    yield from machine_paths(file, checkout)
    for rule in RULES:
        yield from rule(file)


def size(file: File) -> Iterator[Finding]:
    lines = file.text.count("\n")
    if file.python and lines > LINES_REFUSED:
        yield Finding(file.path, f"{lines} lines; {LINES_REFUSED} is the limit: split it by what it does")
    elif file.python and lines > LINES_WARNED:
        yield Finding(file.path, f"{lines} lines; over {LINES_WARNED} is a reason to split", warning=True)


def vague_name(file: File) -> Iterator[Finding]:
    if not file.python:
        return
    for part in file.path.with_suffix("").parts:
        if part in VAGUE_NAMES:
            yield Finding(file.path, f"'{part}' says nothing: name the module after what it does, or after its noun")


def package_docstring(file: File) -> Iterator[Finding]:
    if file.path.name == "__init__.py" and file.path.parts[0] == "src" and not ast.get_docstring(file.tree):
        yield Finding(file.path, "a package opens with its charter: a docstring on what lives here and what must not")


def future_annotations(file: File) -> Iterator[Finding]:
    """Of modules with code: a package that is only a docstring needs none."""
    if not file.python:
        return
    code = [
        node for node in file.tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    imported = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(name.name == "annotations" for name in node.names)
        for node in code
    )
    if code and not imported:
        yield Finding(file.path, "`from __future__ import annotations` is missing")


def test_tier(file: File) -> Iterator[Finding]:
    if not (file.python and file.path.parts[0] == "tests" and file.path.name.startswith("test_")):
        return
    if len(file.path.parts) < 3 or file.path.parts[1] not in TIERS:
        yield Finding(file.path, f"a test lives in a folder of its tier: tests/<{'|'.join(TIERS)}>/")


def registry(file: File) -> Iterator[Finding]:
    if file.path.parts[0] != "requirements":
        return
    for number, line in enumerate(file.text.splitlines(), 1):
        if REGISTRY.search(line):
            yield Finding(file.path, "a lock names packages and hashes, not where this machine gets them from", number)


def machine_paths(file: File, checkout: str) -> Iterator[Finding]:
    for number, line in enumerate(file.text.splitlines(), 1):
        found = MACHINE_PATH.search(line)
        if found or checkout in line:
            what = found[0] if found else checkout
            yield Finding(file.path, f"'{what}' is a path of one machine", number)


RULES: tuple[Callable[[File], Iterator[Finding]], ...] = (
    size,
    vague_name,
    package_docstring,
    future_annotations,
    test_tier,
    registry,
)


def repository_files(root: Path) -> list[File]:
    """Text files that are tracked or would be added; where git cannot say, all but what is known to be made."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [root / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in root.rglob("*") if not any(map(_made, path.relative_to(root).parent.parts))]
    return [file for path in sorted(paths) if (file := _read(root, path))]


def _made(folder: str) -> bool:
    return folder in MADE_FOLDERS or (folder.startswith(".") and folder != ".ci")


def _read(root: Path, path: Path) -> File | None:
    if path.is_symlink() or not path.is_file():  # deleted, but still in git's index
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    return File(PurePosixPath(path.relative_to(root).as_posix()), text)


if __name__ == "__main__":
    sys.exit(main())
