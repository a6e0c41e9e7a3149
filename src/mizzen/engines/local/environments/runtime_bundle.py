"""A copy of the runtime's modules for interpreters other than our own.

PYTHONPATH names the copy. It must not name our own site-packages: all packages installed there would become importable
and override those that a version requires. So the modules of the runtime are copied to a separate folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import mizzen

MODULES = (
    "__init__.py", "frameworks.py", "plugins.py", "protobuf_wire.py", "protocol", "runtime", "training.py",
    "version.py",
)  # fmt: skip
"""The parts of our package that a runtime imports, and that training code may import."""


def lay_out_runtime(data_dir: Path, package: Path | None = None) -> Path:
    """The folder for PYTHONPATH. Each release has its own, because runtimes of others may still run. Blocking."""
    package = package or Path(mizzen.__file__).parent
    files = sorted(file for name in MODULES for file in _files(package / name))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    folder = data_dir / "runtime" / digest.hexdigest()[:16]
    if not folder.exists():
        _copy(files, package, folder)
    return folder


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [*path.rglob("*.py")]


def _copy(files: list[Path], package: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for file in files:
            target = made / "mizzen" / file.relative_to(package)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        os.sync()  # once renamed, it is complete, even after a power loss
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not folder.exists():  # otherwise another process was faster
            raise
