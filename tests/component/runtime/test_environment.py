"""What a runtime finds in its environment: frameworks that are missing or broken, and the number of threads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.component.runtime.test_process import Runtime, blocking

THREADS = """
import os, threadpoolctl
print("threads", sorted({pool["num_threads"] for pool in threadpoolctl.threadpool_info()}))
print("set", os.environ.get("OMP_NUM_THREADS"), os.environ.get("MKL_NUM_THREADS"))
def predict(inputs):
    return inputs["x"]
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of a unix socket has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="mz"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Runtime]]:
    started: list[Runtime] = []

    def start(framework: str, entrypoint: str, **env: str) -> Runtime:
        started.append(Runtime(folder, "--framework", framework, "--entrypoint", entrypoint, "--trusted", **env))
        return started[-1]

    yield start
    for runtime in started:
        runtime.end()


@pytest.mark.parametrize(
    ("framework", "module", "extra"),
    [("xgboost", "xgboost", "xgboost"), ("lightgbm", "lightgbm", "lightgbm"), ("onnx", "onnxruntime", "onnx")],
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    start: Callable[..., Runtime], folder: Path, framework: str, module: str, extra: str
) -> None:
    runtime = start(framework, "m", PYTHONPATH=blocking(folder, module))
    assert runtime.exit_code() == 78
    wanted = f"framework '{framework}' needs {module}, which is not installed: pip install 'mizzen[{extra}]'\n"
    assert runtime.last_words.read_text() == wanted


def test_what_is_broken_tells_the_import_error(start: Callable[..., Runtime], folder: Path) -> None:
    (folder / "shim" / "lightgbm").mkdir(parents=True)
    (folder / "shim" / "lightgbm" / "__init__.py").write_text("raise OSError('libgomp.so.1: no such file')")
    runtime = start("lightgbm", "m.txt", PYTHONPATH=str(folder / "shim"))
    assert runtime.exit_code() == 78
    wanted = "framework 'lightgbm' is installed but cannot be imported: OSError: libgomp.so.1: no such file\n"
    assert runtime.last_words.read_text() == wanted


def test_the_number_of_threads_is_set_before_numpy_is_loaded(start: Callable[..., Runtime], folder: Path) -> None:
    (folder / "user_model.py").write_text(THREADS)
    runtime = start("python", "user_model:predict", MIZZEN_THREADS="1", MKL_NUM_THREADS="3")
    runtime.peer().hello()
    assert "threads [1]\nset 1 3\n" in runtime.log.read_text()
