"""Plug-ins as they are installed: the example package by pip, broken ones as packages of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mizzen import frameworks, plugins
from mizzen.frameworks import Framework

ROOT = Path(__file__).resolve().parents[2]
DECLARES = "from mizzen.frameworks import Framework\nDECLARED = Framework("
EXAMPLE = ROOT / "examples" / "plugins" / "lookup"
LOOKS = """
import json, sys
from pathlib import Path
from mizzen import frameworks
from mizzen.blobs import model_formats
looks = [model_formats.look(Path(file), file) for file in sys.argv[1:]]
broken = {one.name: str(one) for one in frameworks.broken()}
print(json.dumps([[look.framework if look else None for look in looks], list(frameworks.known()), broken]))
"""
LOADS = """
import sys
import numpy as np
from pathlib import Path
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadError
file = Path(sys.argv[1])
try:
    model = registry.load(sys.argv[2], file.name, file.parent, trusted=False, batch=False)
    print(model.call({"key": np.array([b"Rome", "Paris"], object)}, ())["value"].tolist())
except LoadError as error:
    print(error)
"""


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "missing": ("import surely_not_installed", "ModuleNotFoundError: No module named 'surely_not_installed'"),
    "leaves": ("raise SystemExit(3)", "SystemExit: 3"),
    "crashes": ("import os; os._exit(0)", "its import ended the process without output"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "its import ended the process with code -9"),
    "nothing": ("pass", "AttributeError: module 'broken_nothing' has no attribute 'DECLARED'"),
    "other": ("DECLARED = 7", "AttributeError: 'int' object has no attribute 'to_json'"),
    "loaderless": (f"{DECLARES} 'loaderless')", "loader must name the module"),
    "renamed": (f"{DECLARES} 'x', loader='y')", "it declares the name 'x'"),
    "chatty": (
        f"print('hello')\n{DECLARES} 'chatty', suffixes=('odd',), loader='y')",
        "a suffix must begin with a dot",
    ),
}
"""By name: the code of a package, and what is said of it."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    named = {"by name": tmp_path / "table.lookup", "by content": tmp_path / "anything.txt", "ours": tmp_path / "m.onnx"}
    for name in ("by name", "by content"):
        named[name].write_text('{"lookup": {"Rome": 1.5}, "default": 7}')
    named["ours"].write_bytes(b"\x08\x07\x12\x00")
    return named


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, put there by pip without any network."""
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-index",
         "--no-build-isolation", "--no-deps", "--target", str(target), str(EXAMPLE)],
        check=True, env=os.environ | {"PIP_NO_INPUT": "1"},
    )  # fmt: skip
    return target


def package(folder: Path, name: str, code: str, group: str = plugins.FRAMEWORKS, value: str = "") -> Path:
    """A package that is installed there, with one plug-in."""
    module = f"broken_{name}"
    (folder / f"{module}.py").write_text(code)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: broken-{name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{value or name} = {module}:DECLARED\n")
    return folder


def run(code: str, path: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=os.environ | {"PYTHONPATH": str(path)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_all_that_is_installed_is_known_and_what_is_broken_harms_nobody(
    installed: Path, tmp_path: Path, files: dict[str, Path]
) -> None:
    for name, (code, _) in BROKEN.items():
        package(installed, name, code)
    package(installed, "thief", "raise AssertionError", value="onnx")
    looks, known, broken = json.loads(run(LOOKS, installed, *map(str, files.values())))
    assert looks == ["lookup", "lookup", "onnx"]
    assert known == [*frameworks.NAMES, "lookup"]
    assert broken.keys() == {*BROKEN, "onnx"}
    assert (
        broken.pop("onnx")
        == "'onnx' of the package broken-thief is broken: Mizzen itself already has a framework of that name"
    )
    for name, told in broken.items():
        assert told.startswith(f"'{name}' of the package broken-{name} is broken: ")
        assert BROKEN[name][1] in told


def test_a_runtime_loads_what_a_plugin_brings_or_says_why_not(
    installed: Path, tmp_path: Path, files: dict[str, Path]
) -> None:
    assert run(LOADS, installed, str(files["by name"]), "lookup") == "[1.5, 7.0]"
    assert "framework 'lookup' is not supported; supported are sklearn" in run(
        LOADS, tmp_path, str(files["by name"]), "lookup"
    )
    package(tmp_path, "raises", BROKEN["raises"][0])
    said = run(LOADS, tmp_path, str(files["by name"]), "raises")
    assert said == "the plug-in 'raises' of the package broken-raises is broken: RuntimeError: no licence"


def test_a_declaration_survives_being_told() -> None:
    given = Framework("x", (".x",), ("X",), "a.b", ("c",), begins=(b"\x00\xff",), command="go").to_json()
    found = Framework.of(json.loads(json.dumps(given)), "x", "pack")
    assert (found.begins, found.package, found.install) == ((b"\x00\xff",), "pack", "go")
