"""Files of the real frameworks are known by their content, whatever they are called, and none is unpickled."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import lightgbm
import numpy as np
import onnx
import pytest
import xgboost
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mizzen.blobs import model_formats
from mizzen.blobs.ingest import archives

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)


class Local:
    """Stands for a class of the user's own module."""


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("exploded"),)


def look(file: Path) -> str | None:
    found = model_formats.look(file, file.name)
    return found.framework if found else None


@pytest.mark.parametrize("name", ["model", "model.json", "model.ubj", "m.model", "weights.bin"])
def test_xgboost(tmp_path: Path, name: str) -> None:
    model = xgboost.XGBClassifier(n_estimators=2).fit(ROWS, LABELS)
    for form in ("json", "ubj"):
        (tmp_path / name).write_bytes(model.get_booster().save_raw(form))
        assert look(tmp_path / name) == "xgboost"
    model.save_model(tmp_path / "m.json")
    (tmp_path / name).write_text(json.dumps(json.loads((tmp_path / "m.json").read_text()), indent=1))
    assert look(tmp_path / name) == "xgboost"


def test_lightgbm(tmp_path: Path) -> None:
    model = lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1).fit(ROWS, LABELS)
    for name in ("model.txt", "model", "model.lgb"):
        model.booster_.save_model(tmp_path / name)
        assert look(tmp_path / name) == "lightgbm"
    (tmp_path / "notes.txt").write_text("tree\nhouse")
    assert look(tmp_path / "notes.txt") is None


@pytest.mark.parametrize("named", [True, False])
def test_onnx(tmp_path: Path, named: bool) -> None:
    tensor = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])
    other = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", [tensor], [other])
    model = onnx.helper.make_model(graph, **({"producer_name": "somebody"} if named else {}))
    onnx.save(model, tmp_path / "model")
    assert look(tmp_path / "model") == "onnx"


def test_skops_and_other_zips(tmp_path: Path) -> None:
    import skops.io  # a second of all those who collect tests

    skops.io.dump(LinearRegression().fit(ROWS, LABELS), tmp_path / "model.zip")
    assert look(tmp_path / "model.zip") == "sklearn"


@pytest.mark.parametrize("compress", [0, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3)])
@pytest.mark.parametrize(
    ("model", "framework"),
    [
        (LinearRegression(), "sklearn"),
        (xgboost.XGBRegressor(n_estimators=2), "xgboost"),
        (lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1), "lightgbm"),
        (make_pipeline(StandardScaler(), lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1)), "sklearn"),
    ],
    ids=["sklearn", "xgboost", "lightgbm", "pipeline"],
)
def test_pickles_by_what_they_import(tmp_path: Path, model: Any, framework: str, compress: Any) -> None:
    joblib.dump(model.fit(ROWS, LABELS), tmp_path / "model.joblib", compress=compress)
    assert look(tmp_path / "model.joblib") == framework
    for protocol in (2, 4, 5):
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(model, protocol))
        assert look(tmp_path / "model.pkl") == framework


def test_a_function_by_cloudpickle_is_python(tmp_path: Path) -> None:
    offset = 3
    (tmp_path / "model.pkl").write_bytes(cloudpickle.dumps(lambda inputs: inputs["x"] + offset))
    assert look(tmp_path / "model.pkl") == "python"


def test_a_class_of_a_script_is_told_what_to_do(tmp_path: Path) -> None:
    script = "import pickle, sys\nclass Model:\n    pass\npickle.dump(Model(), open(sys.argv[1], 'wb'))\n"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "m.pkl")], check=True)
    found = model_formats.look(tmp_path / "m.pkl", "m.pkl")
    assert found is not None
    assert found.framework is None
    assert "move them to a module" in found.advice


def test_what_is_no_pickle_is_what_its_name_says(tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(b"c\\\xae\nx\n")
    assert look(tmp_path / "m.pkl") == "sklearn"


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Explosive()))
    assert look(tmp_path / "m.pkl") == "sklearn"
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("m.joblib", b"", "sklearn"), ("m.pkl", b"\x80\x04", "sklearn"), ("m.pkl", b"\x1f\x8b broken", "sklearn"),
        ("m.onnx", b"", "onnx"), ("m.ubj", b"", "xgboost"), ("m.pt", b"", "pytorch"), ("data.csv", b"1,2", None),
        ("settings.json", b'{"version": 3}', None), ("notes.txt", b"text", None), ("m.joblib", b"\x78\x9c", "sklearn"),
    ],
)  # fmt: skip
def test_the_name_may_tell_what_the_content_does_not(
    tmp_path: Path, name: str, data: bytes, wanted: str | None
) -> None:
    (tmp_path / name).write_bytes(data)
    assert look(tmp_path / name) == wanted


@pytest.mark.parametrize(
    ("names", "framework"),
    [
        (["net/data.pkl", "net/code/__torch__.py", "net/constants.pkl"], "pytorch"),
        (["net/models/model.json", "net/archive_format", "net/data/weights/weight_0"], "pytorch"),
        (["version", "serialized_exported_program.json"], "pytorch"),
        (["metadata.json", "config.json", "model.weights.h5"], "tensorflow"),
    ],
)
def test_programs_of_pytorch_and_keras(tmp_path: Path, names: list[str], framework: str) -> None:
    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    assert look(tmp_path / "model") == framework


def test_weights_of_pytorch_are_no_model_and_say_what_to_do(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as archive:
        archive.writestr("weights/data.pkl", pickle.dumps({}))
    (tmp_path / "old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.")
    for name in ("weights.pt", "old.pt"):
        found = model_formats.look(tmp_path / name, name)
        assert found is not None
        assert found.framework is None
        assert "torch.export.save(" in found.advice


def test_of_a_zip_no_more_than_a_directory_of_some_size_is_read(tmp_path: Path) -> None:
    """The plane reads it: each name costs it some hundred bytes, and strangers send them by the million."""
    with zipfile.ZipFile(tmp_path / "many", "w") as archive:
        for at in range(archives.MOST_DIRECTORY // 60_000 + 1):
            archive.writestr(f"net/code/{at:060000}", b"")
    assert look(tmp_path / "many") is None


def test_a_zip_of_a_later_release_is_nothing_we_know(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "later", "w") as archive:
        archive.writestr("net/code/model.py", b"")
    data = bytearray((tmp_path / "later").read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 99
    (tmp_path / "later").write_bytes(data)
    assert look(tmp_path / "later") is None
