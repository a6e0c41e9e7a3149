"""build/clients/: clients in other languages, made by generators of others from the two OpenAPI documents.

    python/mizzen-<name>-client   a typed package, by openapi-python-client; `pip install` takes the folder
    typescript/<name>.d.ts        types, by openapi-typescript: for openapi-fetch, or a fetch of one's own

`python -m tools.generated_clients` writes them; tools/clients.sh has set up the generators in .venvs/. A generator that
warns has left something out, so that is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mizzen

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    "control": ROOT / "src/mizzen/server/admin/openapi.json",
    "inference": ROOT / "src/mizzen/gateway/http/openapi.json",
}
PYTHON = ROOT / ".venvs/openapi-python-client/bin"
TYPESCRIPT = ROOT / ".venvs/typescript/node_modules/.bin"
WRITTEN_AS = {"application/apply-patch+yaml": "application/json"}
"""Media types that a generator does not know, and how to write them: JSON is YAML."""
_LIST = re.compile(r"isinstance\(body, list\[\w+\]\)")


class Failed(Exception):
    """What the generator said."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.generated_clients", description="Write clients in other languages.")
    parser.add_argument("--out", type=Path, default=ROOT / "build/clients", help="where to: its content is replaced")
    out: Path = parser.parse_args(arguments).out
    for name, document in DOCUMENTS.items():
        try:
            written = (write_python(name, document, out / "python"), write_types(name, document, out / "typescript"))
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
        print("\n".join(f"wrote {os.path.relpath(path)}" for path in written))
    return 0


def write_python(name: str, document: Path, folder: Path) -> Path:
    """The project that was made in the folder."""
    project = folder / f"mizzen-{name}-client"
    shutil.rmtree(project, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "project_name_override": project.name,
        "package_name_override": project.name.replace("-", "_"),
        "package_version_override": mizzen.__version__,
        "content_type_overrides": WRITTEN_AS,
    }
    with tempfile.TemporaryDirectory() as place:
        said = Path(place) / "config.json"
        said.write_text(json.dumps(config))
        _run(
            PYTHON / "openapi-python-client", "generate", "--path", document, "--config", said, "--meta", "uv",
            "--output-path", project, "--fail-on-warning",
        )  # fmt: skip
    for module in project.rglob("api/*/patch_*.py"):
        # Python has no such question: of several bodies the generator asks whether this one is a `list[Step]`.
        module.write_text(_LIST.sub("isinstance(body, list)", module.read_text()))
    return project


def write_types(name: str, document: Path, folder: Path) -> Path:
    file = folder / f"{name}.d.ts"
    _run(TYPESCRIPT / "openapi-typescript", document, "--output", file)
    return file


def _run(program: Path, *words: Any) -> None:
    if not program.exists():
        raise Failed(f"There is no {os.path.relpath(program)}: tools/clients.sh sets it up.")
    # It calls its neighbours, such as the formatter, by name.
    environ = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([program, *map(str, words)], env=environ, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise Failed(f"{program.name} exited {done.returncode}\n{done.stdout}{done.stderr}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
