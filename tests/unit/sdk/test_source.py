from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.errors import Invalid, MizzenError, NotFound
from mizzen.sdk.packaging import source


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.joblib").write_bytes(b"x")
    with source.open_source("model.joblib", tmp_path) as found:
        assert found == source.Source((tmp_path / "model.joblib").resolve())


def test_a_single_module_is_sent_as_its_file(tmp_path: Path) -> None:
    write(tmp_path, double_py="def predict(inputs):\n    return inputs\n")
    for what in ("double:predict", "double.py:predict"):
        with source.open_source(what, tmp_path) as found:
            assert found == source.Source((tmp_path / "double.py").resolve(), "python", "double:predict")


def test_nothing_is_imported(tmp_path: Path) -> None:
    write(tmp_path, loud_py="raise SystemExit('imported')\n\n\ndef predict(inputs):\n    return 1\n")
    with source.open_source("loud:predict", tmp_path) as found:
        assert found.entrypoint == "loud:predict"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x",
        "async def f(x): return x",
        "class f: pass",
        "f = lambda x: x",
        "f: object = 1",
        "(f, g) = 1, 2",
        "from os import path as f",
        "import f.g",
        "if True:\n    f = 1",
        "try:\n    pass\nexcept ImportError:\n    f = 1",
        "with open('x') as y:\n    f = 1",
        "from os import *",
        "def __getattr__(name): return 1",
    ],
)
def test_ways_to_define_an_object(tmp_path: Path, text: str) -> None:
    write(tmp_path, m_py=text)
    source.check_defines(tmp_path / "m.py", "f")
    source.check_defines(tmp_path / "m.py", "f.method")


@pytest.mark.parametrize(
    ("what", "kind", "says", "hint"),
    [
        ("nowhere.joblib", NotFound, "nowhere.joblib", "module:object"),
        ("nowhere:predict", NotFound, "no module 'nowhere'", "folder that contains it"),
        ("doubel:predict", NotFound, "no module 'doubel'", "did you mean 'double'?"),
        ("pkg.modd:f", NotFound, "no module 'pkg.modd'", "did you mean 'pkg.mod'?"),
        ("double:predct", NotFound, "double.py does not define 'predct'", "did you mean 'predict'?"),
        ("double:zzz", NotFound, "double.py does not define 'zzz'", "it defines predict"),
        ("double.py", Invalid, "name the object", "double:predict"),
        ("broken:predict", Invalid, "broken.py, line 1", ""),
        ("../double:predict", NotFound, "../double:predict", "module:object"),
    ],
)
def test_what_is_not_there_is_said_clearly(
    tmp_path: Path, what: str, kind: type[MizzenError], says: str, hint: str
) -> None:
    write(tmp_path, double_py="def predict(inputs):\n    return 1\n", broken_py="def (:\n", pkg__mod_py="f = 1\n")
    with pytest.raises(kind) as caught, source.open_source(what, tmp_path):
        pass
    assert says in caught.value.message
    assert hint in caught.value.hint
