from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mizzen.sdk.packaging import source


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("what", ["pkg.mod:Model", "pkg:Model"])
def test_a_package_is_sent_so_that_it_can_be_imported(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "code"
    write(
        folder / "pkg",
        mod_py="from pkg.near import VALUE\n\n\nclass Model:\n    value = VALUE\n",
        near_py="VALUE = 7\n",
    )
    (folder / "pkg" / "__init__.py").write_text("from pkg.mod import Model\n" if what == "pkg:Model" else "")
    (folder / "pkg" / "__pycache__").mkdir()
    (folder / "pkg" / "__pycache__" / "mod.pyc").write_bytes(b"old")
    (folder / "beside.txt").write_text("not part of the package")
    with source.open_source(what, folder) as found:
        assert (found.framework, found.entrypoint) == ("python", what)
        assert [path.name for path in found.path.iterdir()] == ["pkg"]
        assert not (found.path / "pkg" / "__pycache__").exists()
        module = what.partition(":")[0]
        code = f"import importlib; print(importlib.import_module('{module}').Model.value)"
        run = subprocess.run(
            [sys.executable, "-I", "-B", "-c", f"import sys; sys.path.insert(0, {str(found.path)!r}); {code}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.strip() == "7"
    assert not found.path.exists()
