"""What environments are made of and by: names, tools, interpreters, what they say; without building one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mizzen.engines.local.environments import interpreters, runtime_bundle


def test_a_folder_with_the_runtime_and_nothing_else_of_ours(tmp_path: Path) -> None:
    folder = runtime_bundle.lay_out_runtime(tmp_path)
    assert runtime_bundle.lay_out_runtime(tmp_path) == folder
    assert {path.name for path in (folder / "mizzen").iterdir()} == {*runtime_bundle.MODULES}
    asked = (
        "import sys, mizzen.runtime.process, mizzen.runtime.frameworks.python\n"
        "found = {name.partition('.')[0] for name in sys.modules} & {'pydantic', 'starlette', 'msgspec', 'rich'}\n"
        "assert not found, found\n"
        "try:\n    import mizzen.sdk\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    # Only numpy of all that is installed here, as in an environment that requires nothing.
    numpy = Path(sys.modules["numpy"].__file__ or "").parent if "numpy" in sys.modules else _numpy()
    only = tmp_path / "only"
    only.mkdir()
    for name in ("numpy", "numpy.libs"):
        if (numpy.parent / name).exists():
            (only / name).symlink_to(numpy.parent / name)
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", asked], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": f"{folder}{os.pathsep}{only}"},
    )  # fmt: skip
    assert done.stdout == "No module named 'mizzen.sdk'\n", done.stderr


def _numpy() -> Path:
    import numpy

    return Path(numpy.__file__).parent


def test_others_are_looked_for_on_the_path_and_among_those_that_pyenv_has(tmp_path: Path) -> None:
    shims, pyenv = tmp_path / "shims", tmp_path / "pyenv"
    _interpreter(shims / "python3.98", "exit 127")  # a shim of what is not there
    _interpreter(pyenv / "versions" / "3.98.1" / "bin" / "python3", "echo 3.98.1")
    _interpreter(pyenv / "versions" / "3.97.2" / "bin" / "python3", "echo 3.97.2")
    environ = {"PATH": str(shims), "PYENV_ROOT": str(pyenv), "HOME": str(tmp_path)}
    found = interpreters.find("3.98", environ)
    assert (found.version, found.path) == ("3.98.1", str(pyenv / "versions" / "3.98.1" / "bin" / "python3"))
    assert interpreters.find("3.97.2", environ).version == "3.97.2"
    ours = ".".join(map(str, sys.version_info[:3]))
    with pytest.raises(interpreters.NoInterpreter, match=rf"no Python 3.96 .* it has {ours}, 3.97.2, 3.98, 3.98.1\."):
        interpreters.find("3.96", environ)


def _interpreter(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
