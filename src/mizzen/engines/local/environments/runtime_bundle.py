"""The runtime, laid out for interpreters that are not ours.

It arrives by PYTHONPATH. Our own folder of packages must not: all we are installed with would come along, and win over
what a version requires. So what the runtime is made of is copied to a folder that holds nothing else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import mizzen

MODULES = ("__init__.py", "frameworks.py", "plugins.py", "protocol", "runtime", "training.py")
"""Of our package, what a runtime imports, and what code that is trained with may."""


def laid_out(data_dir: Path, package: Path | None = None) -> Path:
    """The folder to put on PYTHONPATH: another one for another release, whose runtimes may still live. Blocking."""
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
        os.sync()  # once renamed it is whole, also after a power loss
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not folder.exists():  # else somebody else was faster
            raise
