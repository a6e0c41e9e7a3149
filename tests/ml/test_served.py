"""A Keras SavedModel, TorchScript, an exported program and an MLflow folder, deployed as a person does and called."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import mlflow.sklearn
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tests.ml import asking, making
from tests.support import planes

FEW = making.ROWS[:5]


def test_a_saved_model(plane: planes.TestPlane, saved_model: Path, keras_model: Any) -> None:
    plane.cli("deploy", str(saved_model), "--name", "keras")
    told = asking.metadata(plane, "keras")
    assert told["platform"] == "tensorflow"
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    expected = np.asarray(keras_model(FEW))
    for ask in (asking.v2, asking.v2_bytes):
        np.testing.assert_allclose(ask(plane, "keras", {"x": FEW})["output_0"], expected, rtol=1e-5)
    np.testing.assert_allclose(asking.v1(plane, "keras", FEW.tolist()), expected, rtol=1e-5)


def test_a_keras_file(plane: planes.TestPlane, keras_model: Any, tmp_path: Path) -> None:
    keras_model.save(tmp_path / "net.keras")
    plane.cli("deploy", "net.keras", "--name", "keras-file", cwd=tmp_path)
    given = asking.v2(plane, "keras-file", {"x": FEW})
    np.testing.assert_allclose(given["chances"], np.asarray(keras_model(FEW)), rtol=1e-5)


def test_torchscript(plane: planes.TestPlane, net: making.Net, tmp_path: Path) -> None:
    making.save_script(net, tmp_path / "net.pt")
    plane.cli("deploy", "net.pt", "--name", "script", cwd=tmp_path)
    expected = net(torch.from_numpy(FEW)).detach().numpy()
    assert asking.metadata(plane, "script")["platform"] == "pytorch"
    for ask in (asking.v2, asking.v2_bytes):
        np.testing.assert_allclose(ask(plane, "script", {"x": FEW})["output"], expected, rtol=1e-5)
    np.testing.assert_allclose(asking.v2(plane, "script", {"whatever": FEW})["output"], expected, rtol=1e-5)
    np.testing.assert_allclose(asking.v1(plane, "script", FEW.tolist()), expected, rtol=1e-5)


def test_torchscript_with_a_declared_signature(plane: planes.TestPlane, net: making.Net, tmp_path: Path) -> None:
    making.save_script(net, tmp_path / "net.pt")
    plane.cli("deploy", "net.pt", "--name", "declared", cwd=tmp_path)
    (tmp_path / "server.yaml").write_text("""
apiVersion: mizzen.dev/v1alpha1
kind: InferenceModel
metadata: {name: declared-signature}
spec:
  modelName: declared
  targetVersion: "1"
  deployToLayer: cloud
  frameworkType: pytorch
  inputs: [{name: rows, datatype: FP32, shape: [-1, 4]}]
  outputs: [{name: chances, datatype: FP32, shape: [-1, 2]}]
""")
    plane.cli("apply", "-f", "server.yaml", "--wait", cwd=tmp_path)
    told = asking.metadata(plane, "declared-signature")
    assert told["outputs"] == [{"name": "chances", "datatype": "FP32", "shape": [-1, 2]}]
    expected = net(torch.from_numpy(FEW)).detach().numpy()
    np.testing.assert_allclose(asking.v1(plane, "declared-signature", FEW.tolist()), expected, rtol=1e-5)


def test_an_exported_program(plane: planes.TestPlane, net: making.Net, tmp_path: Path) -> None:
    making.save_program(net, tmp_path / "net.pt2")
    plane.cli("deploy", "net.pt2", "--name", "program", cwd=tmp_path)
    assert asking.metadata(plane, "program")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    expected = net(torch.from_numpy(FEW)).detach().numpy()
    for ask in (asking.v2, asking.v2_bytes):
        np.testing.assert_allclose(ask(plane, "program", {"x": FEW})["output"], expected, rtol=1e-5)
    np.testing.assert_allclose(asking.v1(plane, "program", FEW.tolist()), expected, rtol=1e-5)


@pytest.mark.parametrize("form", ["cloudpickle", "skops"])
def test_a_folder_of_mlflow(plane: planes.TestPlane, tmp_path: Path, form: str) -> None:
    model = LogisticRegression().fit(making.ROWS, making.LABELS)
    mlflow.sklearn.save_model(model, tmp_path / "model", serialization_format=form, pip_requirements=["scikit-learn"])
    plane.cli("deploy", "model", "--name", f"mlflow-{form}", "--no-requirements", cwd=tmp_path)
    assert asking.metadata(plane, f"mlflow-{form}")["platform"] == "sklearn", "loaded without MLflow"
    given = asking.v2(plane, f"mlflow-{form}", {"input": making.ROWS.astype(float)})
    assert given["predict"].tolist() == model.predict(making.ROWS).tolist()


def test_weights_alone_are_refused_with_advice(plane: planes.TestPlane, net: making.Net, tmp_path: Path) -> None:
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    refused = plane.cli("deploy", "weights.pt", "--name", "weights", cwd=tmp_path, check=False)
    assert refused.returncode != 0
    assert "torch.jit.script(model).save('model.pt')" in " ".join(refused.stderr.split())


def test_a_damaged_saved_model_says_what_tensorflow_says(
    plane: planes.TestPlane, saved_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(saved_model, tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved" / "variables")
    failed = plane.cli("deploy", "saved", "--name", "damaged", cwd=tmp_path, check=False)
    assert failed.returncode == 1
    assert "TensorFlow cannot load 'saved_model.pb'" in " ".join(failed.stderr.split())
