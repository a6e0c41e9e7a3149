"""Models in plain Python: functions, classes, instances and cloudpickle files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import cloudpickle
import numpy as np
import pytest

from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec

X = {"x": np.array([1.0, 2.0])}


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def load(folder: Path, code: str, entrypoint: str, batch: bool = False, trusted: bool = True) -> LoadedModel:
    (folder / "user_model.py").write_text(dedent(code))
    return registry.load("python", entrypoint, folder, trusted=trusted, batch=batch)


def test_a_function(tmp_path: Path) -> None:
    model = load(tmp_path, "def predict(inputs): return inputs['x'] * 2", "user_model:predict")
    assert (model.framework, model.inputs, model.outputs, model.strict, model.batch) == ("python", (), (), False, False)
    assert model.call(X, ())["predict"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [("[1, 2]", [1, 2]), ("3", [3]), ("'a'", ["a"]), ("[[1.5]]", [[1.5]]), ("inputs['x'] > 1", [False, True])],
)
def test_answers_that_become_arrays(tmp_path: Path, answer: str, wanted: list[object]) -> None:
    model = load(tmp_path, f"def predict(inputs): return {answer}", "user_model:predict")
    assert model.call(X, ())["predict"].tolist() == wanted


def test_a_dict_names_its_outputs(tmp_path: Path) -> None:
    model = load(tmp_path, "def predict(inputs): return {'a': 1, 'b': [2]}", "user_model:predict")
    assert {name: array.tolist() for name, array in model.call(X, ()).items()} == {"a": [1], "b": [2]}


def test_none_is_no_answer(tmp_path: Path) -> None:
    model = load(tmp_path, "def predict(inputs): pass", "user_model:predict")
    with pytest.raises(TypeError, match="predict returned None"):
        model.call(X, ())


CLASS = """
    class Model:
        inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]
        outputs = [{"name": "predict", "datatype": "FP64", "shape": [-1]}]
        closed = False

        def load(self, path):
            with open(path + "/factor.txt") as file:
                self.factor = float(file.read())

        def predict(self, inputs):
            return inputs["x"] * self.factor

        def close(self):
            Model.closed = True

    instance = Model()
"""


@pytest.mark.parametrize("name", ["Model", "instance"])
def test_a_class_or_an_instance(tmp_path: Path, name: str) -> None:
    (tmp_path / "factor.txt").write_text("3")
    model = load(tmp_path, CLASS, f"user_model:{name}", batch=True)
    spec = (TensorSpec("x", "FP64", (-1,)),)
    assert (model.inputs, model.strict, model.batch) == (spec, True, True)
    assert model.call(X, ())["predict"].tolist() == [3.0, 6.0]
    model.close()
    assert sys.modules["user_model"].Model.closed


def test_code_only_when_trusted(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"'user_model:predict' is code, and is not marked as trusted"):
        load(tmp_path, "raise AssertionError('it ran')", "user_model:predict", trusted=False)


@pytest.mark.parametrize(
    "entrypoint",
    [
        "subprocess:check_output", "os.path:join", "builtins:eval", "sys:exit", "..user_model:predict",
        ".user_model:predict", "../user_model:predict", "user_model/x:predict",
    ],
)  # fmt: skip
def test_only_what_the_version_brings_is_a_model(tmp_path: Path, entrypoint: str) -> None:
    with pytest.raises(LoadError, match="is not among the files of this version"):
        load(tmp_path, "def predict(inputs): return 1", entrypoint)


def test_a_cloudpickle_only_when_trusted(tmp_path: Path) -> None:
    factor = 5.0
    (tmp_path / "f.cloudpickle").write_bytes(cloudpickle.dumps(lambda inputs: inputs["x"] * factor))
    with pytest.raises(LoadError, match="not marked as trusted"):
        registry.load("python", "f.cloudpickle", tmp_path, trusted=False, batch=False)
    model = registry.load("python", "f.cloudpickle", tmp_path, trusted=True, batch=False)
    assert model.call(X, ())["predict"].tolist() == [5.0, 10.0]


@pytest.mark.parametrize(
    ("code", "entrypoint", "wanted"),
    [
        ("x = 1", "user_model:x", "'user_model:x' is a int, neither callable nor with a predict method"),
        ("x = 1", "user_model:y", "has no attribute 'y'"),
        ("x = 1", "user_model", "must be 'module:object' or a file ending in .pkl"),
        (
            "def f(i): ...\nf.inputs = 3",
            "user_model:f",
            "'inputs' of 'user_model:f' must be a list of tensors, not int",
        ),
        ("def f(i): ...\nf.inputs = ['x']", "user_model:f", "a tensor is declared as {'name', 'datatype', 'shape'}"),
        (
            "def f(i): ...\nf.inputs = [{'name': 'x', 'datatype': 'FLOAT', 'shape': [1]}]",
            "user_model:f",
            "'FLOAT' is not a valid datatype",
        ),
        (
            "def f(i): ...\nf.inputs = [{'name': 'x', 'datatype': 'FP64', 'shape': [4]}]",
            "user_model:f",
            "batching merges rows: input 'x' must have shape [-1, ...], not [4]",
        ),
    ],
)
def test_what_cannot_be_served_says_why(tmp_path: Path, code: str, entrypoint: str, wanted: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(tmp_path, code, entrypoint, batch=True)
    assert wanted in str(caught.value)


def test_a_module_with_a_name_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def predict(inputs): return 1")
    with pytest.raises(
        LoadError, match="module 'json' of this version has the same name as one that is already imported"
    ):
        load(tmp_path, "", "json:predict")


@pytest.mark.parametrize("entrypoint", ["wave:open", "xmlrpc.client:dumps"])
def test_a_folder_does_not_lend_its_name_to_an_installed_module(tmp_path: Path, entrypoint: str) -> None:
    """Without __init__.py it gives way to whatever is installed under its name."""
    name = entrypoint.partition(":")[0].partition(".")[0]
    sys.modules.pop(name, None)
    (tmp_path / name).mkdir()
    (tmp_path / name / "own.py").write_text("")
    with pytest.raises(LoadError, match="an installed module"):
        load(tmp_path, "", entrypoint)


def test_packages_with_and_without_an_init(tmp_path: Path) -> None:
    for package, files in {"whole": ("__init__", "part"), "spread": ("part",)}.items():
        (tmp_path / package).mkdir()
        for file in files:
            (tmp_path / package / f"{file}.py").write_text(
                "from math import fsum\ndef predict(i): return fsum(i['x'])\n"
            )
    for entrypoint in ("whole:predict", "whole.part:predict", "spread.part:predict"):
        model = load(tmp_path, "", entrypoint)
        assert model.call(X, ())["predict"].tolist() == [3.0]
        for name in [name for name in sys.modules if name.startswith(("whole", "spread"))]:
            del sys.modules[name]


def test_what_a_module_of_the_version_takes_from_elsewhere_is_its_own(tmp_path: Path) -> None:
    model = load(
        tmp_path, "import numpy.linalg as elsewhere\nfrom numpy import negative", "user_model:negative.__call__"
    )
    assert model.framework == "python"


def test_errors_of_the_users_code_pass_through(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load(tmp_path, "import no_such_package", "user_model:predict")
