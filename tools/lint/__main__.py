"""`python -m tools.lint`: checks the repository that this file is part of."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.lint import imports, layout, names, words
from tools.lint.files import File, Finding, repository_files

FILE_RULES = (*layout.RULES, *names.RULES, *words.RULES)
"""Each takes one file."""
TREE_RULES = (layout.crowded_folders, names.shared_class_names, imports.cycles)
"""Each takes all files."""


def main(root: Path | None = None) -> int:
    root = root or Path(__file__).resolve().parents[2]
    files = repository_files(root)
    findings = list(check(files, str(root)))
    for finding in sorted(findings, key=lambda finding: (not finding.warning, str(finding))):
        print(finding)
    broken = sum(not finding.warning for finding in findings)
    print(f"Own lints: {len(files)} files, {broken or 'no'} broken rule{'' if broken == 1 else 's'}.")
    return 1 if broken else 0


def check(files: Sequence[File], checkout: str) -> Iterator[Finding]:
    """All findings about these files; `checkout` is the folder they lie in."""
    for file in files:
        yield from layout.machine_paths(file, checkout)
        for rule in FILE_RULES:
            yield from rule(file)
    for tree_rule in TREE_RULES:
        yield from tree_rule(files)


if __name__ == "__main__":
    sys.exit(main())
