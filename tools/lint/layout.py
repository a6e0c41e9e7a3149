"""Rules about files, functions and folders: sizes, vague names, charters, tiers of tests, paths of one machine."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tools.lint.files import File, Finding

LINES_WARNED = 400
LINES_REFUSED = 600
FUNCTION_LINES_REFUSED = 60
MODULES_REFUSED = 13
VAGUE_NAMES = frozenset({
    "util", "utils", "helper", "helpers", "common", "misc", "base", "manager", "managers",
})  # fmt: skip
TIERS = (
    "unit",
    "component",
    "contract",
    "scenario",
    "faults",
    "attack",
    "docs",
    "conformance",
    "browser",
    "kube",
    "ml",
)
MACHINE_PATH = re.compile(r"(?<![\w.>-])/(?:root/|home/[\w.-]+)")
REGISTRY = re.compile(r"\b(?:https?|file)://|--(?:extra-)?index-url|--find-links|--trusted-host", re.IGNORECASE)


def size(file: File) -> Iterator[Finding]:
    lines = file.text.count("\n")
    if file.python and lines > LINES_REFUSED:
        yield Finding(file.path, f"{lines} lines; {LINES_REFUSED} is the limit: split it by what it does")
    elif file.python and lines > LINES_WARNED:
        yield Finding(file.path, f"{lines} lines; over {LINES_WARNED} is a reason to split", warning=True)


def function_size(file: File) -> Iterator[Finding]:
    """Functions of the package that do not fit on a screen; the signature counts, decorators do not."""
    if not file.module:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_REFUSED:
                message = f"'{node.name}' has {lines} lines; {FUNCTION_LINES_REFUSED} is the limit: split it"
                yield Finding(file.path, message, node.lineno)


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


def crowded_folders(files: Sequence[File]) -> Iterator[Finding]:
    """A folder of the package with more modules than a reader can take in; `__init__.py` does not count."""
    modules = Counter(file.path.parent for file in files if file.module and file.path.name != "__init__.py")
    for folder, count in sorted(modules.items()):
        if count > MODULES_REFUSED:
            message = f"{count} modules in one folder; {MODULES_REFUSED} is the limit: group them by responsibility"
            yield Finding(folder, message)


RULES: tuple[Callable[[File], Iterator[Finding]], ...] = (
    size,
    function_size,
    vague_name,
    package_docstring,
    future_annotations,
    test_tier,
    registry,
)
