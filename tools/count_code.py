"""Count lines of code in `src`, or in the folders named: without blank lines, comments, docstrings and imports.

`python -m tools.count_code [FOLDER ...]` prints one number per package and the total.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LAYOUT = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
})  # fmt: skip


def code_lines(text: str) -> int:
    """Lines with at least one token of code on them."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) and not _is_code(node):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_code(node: ast.stmt) -> bool:
    """Neither an import nor a string that stands alone: the docstring of a module, class, function or attribute."""
    return isinstance(node, ast.Expr) and not (
        isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def main(arguments: list[str] | None = None) -> int:
    folders = [Path(name) for name in (sys.argv[1:] if arguments is None else arguments)] or [ROOT / "src" / "mizzen"]
    for folder in folders:
        counts: Counter[str] = Counter()
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).parts
            counts[parts[0] if len(parts) > 1 else "."] += code_lines(file.read_text("utf-8"))
        for name, count in sorted(counts.items()):
            print(f"{count:7}  {name}")
        print(f"{counts.total():7}  {folder.name} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
