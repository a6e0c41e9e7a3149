"""Pages derived from the code: docs/reference/{settings,kinds,cli}.md. The same code always gives the same pages.

`python -m tools.gen` writes them; with `--check` it only says which are stale, and exits 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.reference import cli, kinds, settings

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "docs/reference/settings.md": settings.page,
    "docs/reference/kinds.md": kinds.page,
    "docs/reference/cli.md": cli.page,
}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="tools.gen", description="Write docs/reference/ from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    options = parser.parse_args(arguments)
    stale = [name for name, page in PAGES.items() if write(root / name, page(), dry=options.check)]
    if not options.check:
        print("\n".join(f"wrote {name}" for name in stale) or "All pages are current.")
        return 0
    if stale:
        print(f"Stale: {', '.join(stale)}. Run 'make gen'.", file=sys.stderr)
        return 1
    print("Generated pages are current.")
    return 0


def write(path: Path, text: str, *, dry: bool) -> bool:
    """Whether the page differed from `text`."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    if not dry:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
