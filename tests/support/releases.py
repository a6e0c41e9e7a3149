"""Mizzen as another release has it: the same code, laid out elsewhere, that speaks other versions of frames."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mizzen"
SAID = "VERSION, OLDEST = 2, 2"


def lay_out(folder: Path, version: int, oldest: int) -> Path:
    """What PYTHONPATH has to name for it."""
    shutil.copytree(SOURCE, folder / "mizzen", ignore=shutil.ignore_patterns("__pycache__"))
    frames = folder / "mizzen" / "protocol" / "frames" / "framing.py"
    text = frames.read_text()
    assert SAID in text
    frames.write_text(text.replace(SAID, f"VERSION, OLDEST = {version}, {oldest}"))
    package = folder / "mizzen" / "__init__.py"
    package.write_text(package.read_text() + '\n__version__ = "0.0.older"\n')
    return folder
