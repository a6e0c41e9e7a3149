"""No import cycles in the package, counting type-only imports and imports inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tools.lint.files import File, Finding


def cycles(files: Sequence[File]) -> Iterator[Finding]:
    """The first cycle that is found; breaking it may reveal another."""
    modules = {file.module: file for file in files if file.module}
    graph = {name: _imports(file, modules) for name, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        yield Finding(modules[cycle[0]].path, f"import cycle: {' <- '.join(cycle)}")


def _imports(file: File, modules: Mapping[str, File]) -> set[str]:
    imported = {name for node in ast.walk(file.tree) for name in _modules_of(node, modules)}
    return {name for name in imported if name != file.module}


def _modules_of(node: ast.AST, modules: Mapping[str, File]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if full in modules:
                yield full
            elif node.module in modules:
                yield node.module
