"""MLflow: `mlflow_models.py FOLDER` writes FOLDER/mlflow/<name> for each <name>.joblib in it, and a no-op."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import joblib
import mlflow
import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
from mlflow.models import infer_signature


class Noop(mlflow.pyfunc.PythonModel):
    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> np.ndarray:
        return model_input


def main(folder: Path) -> None:
    for file in folder.glob("*.joblib"):
        model = joblib.load(file)
        rows = np.zeros((2, model.n_features_in_))
        mlflow.sklearn.save_model(
            model,
            folder / "mlflow" / file.stem,
            signature=infer_signature(rows, model.predict(rows)),
            pip_requirements=[],
            serialization_format="cloudpickle",
        )
    rows = np.zeros((2, 4))
    mlflow.pyfunc.save_model(
        folder / "mlflow" / "noop", python_model=Noop(), signature=infer_signature(rows, rows), pip_requirements=[]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
