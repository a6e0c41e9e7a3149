"""Generates files from the code: docs/reference/, deploy/crds/, deploy/grafana/, OpenAPI documents, gRPC descriptors.

The same code always produces the same files. `python -m tools.gen` writes them; with `--check` it only lists the stale
ones and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.derived import crds, dashboard, descriptors, inference, kubernetes_openapi, openapi
from tools.reference import cli, conditions, errors, http, kinds, modules, sdk, settings

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "docs/reference/settings.md": settings.page,
    "docs/reference/cli.md": cli.page,
    "docs/reference/conditions.md": conditions.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/http.md": http.page,
    "docs/reference/sdk.md": sdk.page,
}
FOLDERS = (
    "docs/reference/**/*.md",
    "deploy/crds/*.yaml",
    "deploy/grafana/*.json",
    "src/mizzen/server/kubernetes/openapi/**/*.json",
)
"""Folders with generated files only."""


def files() -> dict[str, str | bytes]:
    """All generated files, path to content."""
    pages = {name: page() for name, page in PAGES.items()} | kinds.pages() | modules.pages()
    pages |= crds.pages() | openapi.pages() | inference.pages() | kubernetes_openapi.pages() | dashboard.pages()
    return {**pages, **descriptors.files()}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="tools.gen", description="Generate files from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    wanted = files()
    stale = [name for name, content in wanted.items() if write(root / name, content, dry=options.check)]
    stale += [name for name in _left_over(root, wanted) if remove(root / name, dry=options.check)]
    if not options.check:
        print("\n".join(f"wrote {name}" for name in stale) or "Generated files are current.")
        return 0
    if stale:
        print(f"Stale: {', '.join(stale)}. Run 'make gen'.", file=sys.stderr)
        return 1
    print("Generated files are current.")
    return 0


def write(path: Path, content: str | bytes, *, dry: bool) -> bool:
    """Whether the file differed from `content`."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data:
        return False
    if not dry:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return True


def remove(path: Path, *, dry: bool) -> bool:
    if not dry:
        path.unlink()
    return True


def _left_over(root: Path, wanted: Mapping[str, str | bytes]) -> list[str]:
    """Files of kinds and types that no longer exist."""
    there = {path.relative_to(root).as_posix() for pattern in FOLDERS for path in root.glob(pattern)}
    return sorted(there - set(wanted))


if __name__ == "__main__":
    sys.exit(main())
