"""Wheels made on the fly, so that environments can be built without any index: small ones, and numpy as it is here."""

from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path

_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make(folder: Path, name: str, version: str = "1.0", *, code: str = "", requires: tuple[str, ...] = ()) -> Path:
    """A wheel with one module, called as the package is, which knows its own version."""
    needed = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{name}.py": f"__version__ = {version!r}\n{code}\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{name}-{version}.dist-info/WHEEL": _WHEEL,
    }
    record = f"{name}-{version}.dist-info/RECORD"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(record, "".join(f"{path},,\n" for path in (*files, record)))
    return wheel


def of_installed(folder: Path, name: str) -> Path:
    """A package that is installed here, packed again as it came: but for its tests and what was compiled since."""
    found = metadata.distribution(name)
    tag = next(line.split()[1] for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag:"))
    files = [
        path
        for path in found.files or ()
        if "tests" not in path.parts and path.suffix != ".pyc" and ".." not in path.parts and path.name != "RECORD"
    ]
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{found.version}-{tag}.whl"
    record = f"{name}-{found.version}.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in files:
            archive.write(str(found.locate_file(path)), str(path))
        archive.writestr(record, "".join(f"{path},,\n" for path in (*files, record)))
    return wheel
