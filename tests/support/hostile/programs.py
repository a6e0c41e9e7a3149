"""Hostile models, jobs and packages of every kind: each runs `attacks` as soon as its own code may run."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy

from tests.support.hostile import attacks

Targets = Mapping[str, Any]


def source(targets: Targets) -> str:
    """A program that attacks. It defines only names of its own, and works where `__name__` is anything."""
    text = Path(attacks.__file__).read_text()
    module = f"import types\n_m = types.ModuleType('attacks')\nexec({text!r}, _m.__dict__)\n"
    return f"{module}REPORT = _m.run({dict(targets)!r})\n"


class _Exec:
    def __init__(self, program: str) -> None:
        self.program = program

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (self.program,)


def pickled(path: Path, targets: Targets, model: Any) -> Path:
    """A pickle that attacks while it is read, and gives the model: the last of a list whose first is the attack."""

    class Both:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            return list.pop, ([_Exec(source(targets)), model],)

    path.write_bytes(pickle.dumps(Both()))
    return path


def python_module(folder: Path, targets: Targets) -> Path:
    """A function and a class; the attack runs when the module is imported."""
    folder.mkdir()
    (folder / "model.py").write_text(source(targets) + _MODEL)
    return folder


_MODEL = """
def predict(inputs):
    return inputs


class Model:
    def predict(self, inputs):
        return inputs
"""


def reader_in_skops(path: Path) -> Path:
    """Only plain classes of scikit-learn: it opens the files that its inputs name."""
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer

    model = CountVectorizer(input="filename", analyzer="char", vocabulary=sorted(map(chr, range(32, 127))))
    skops.io.dump(model, path)
    return path


def onnx_with_external_data(folder: Path, location: str, size: int) -> Path:
    """A graph whose constant is a file outside its folder."""
    import onnx
    from onnx import TensorProto, helper

    folder.mkdir()
    constant = TensorProto(name="stolen", data_type=TensorProto.UINT8, dims=[size])
    constant.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        constant.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["stolen"], ["y"]), helper.make_node("Identity", ["x"], ["z"])],
        "thief",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [
            helper.make_tensor_value_info("y", TensorProto.UINT8, [size]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]),
        ],
        [constant],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    assert onnx.load(folder / "model.onnx", load_external_data=False)
    return folder


def package(folder: Path, targets: Targets) -> Path:
    """A source package that attacks while it is built, and then gives a proper wheel."""
    import io
    import tarfile

    backend = source(targets) + _BACKEND
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "thing"\nversion = "1.0"\n',
        "backend.py": backend,
        "PKG-INFO": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "thing-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"thing-1.0/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


_BACKEND = """
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "thing-1.0-py3-none-any.whl"
    info = "thing-1.0.dist-info/"
    files = {
        "thing.py": f"REPORT = {REPORT!r}\\n",  # the output of a build that succeeds is not shown
        info + "METADATA": "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(info + "RECORD", "".join(path + ",,\\n" for path in [*files, info + "RECORD"]))
    return name
"""


def found_in(log: str) -> dict[str, Any]:
    """The first report in this output; empty: there is none yet."""
    line = next((line for line in log.splitlines() if attacks.MARK in line), "")
    found: dict[str, Any] = json.loads(line.partition(attacks.MARK)[2] or "{}")
    return found


def rows() -> tuple[Any, Any]:
    return numpy.eye(4), numpy.arange(4) % 2
