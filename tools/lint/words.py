"""Plain English in what people read: the documentation, and the texts that the package shows (errors, help, logs)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from tools.lint.files import File, Finding

WORDS = re.compile(r"\b(?:told|anew|nobody|somebody|whoever|of\s+late)\b", re.IGNORECASE)
IS_NO = re.compile(r"(?P<there>\bthere\s+)?\b(?:is|are|was|were)\s+no\s+(?!longer\b|more\b)\w+", re.IGNORECASE)
"""'X is no Y' in place of 'X is not a Y'. 'There is no Y' is plain."""
PAGES = frozenset({"README.md", "CHANGELOG.md", "CONTRIBUTING.md"})
VALUE = "x"
"""Stands for what an f-string fills in: any one word."""


def plain_pages(file: File) -> Iterator[Finding]:
    if file.path.suffix == ".md" and (str(file.path) in PAGES or file.path.parts[0] == "docs"):
        yield from _findings(file.path, file.text, 1)


def plain_texts(file: File) -> Iterator[Finding]:
    """Of the package's strings, those with a space: others are keys, paths and names. Docstrings may use any word."""
    if not file.module:
        return
    for text, line in _texts(file.tree):
        if " " in text:
            yield from _findings(file.path, text, line)


def _findings(path: PurePosixPath, text: str, first_line: int) -> Iterator[Finding]:
    for pattern in (WORDS, IS_NO):
        for match in pattern.finditer(text):
            if match.groupdict().get("there"):
                continue
            phrase = " ".join(match[0].split())
            line = first_line + text.count("\n", 0, match.start())
            yield Finding(path, f"'{phrase}' is not plain English: say who does what", line)


def _texts(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Every string below this node that is an expression's part, with its line."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, node.lineno
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values), node.lineno
    for child in ast.iter_child_nodes(node):
        docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        piece = isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)
        if not (docstring or piece):
            yield from _texts(child)


RULES: tuple[Callable[[File], Iterator[Finding]], ...] = (plain_pages, plain_texts)
