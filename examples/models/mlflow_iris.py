"""Write iris-mlflow/, an MLflow model folder, to the current folder. For `pip install 'mizzen[mlflow,sklearn]'`."""

from __future__ import annotations

import mlflow.sklearn
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

rows, labels = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=500).fit(rows, labels)
mlflow.sklearn.save_model(model, "iris-mlflow", serialization_format="cloudpickle", pip_requirements=["scikit-learn"])
print("iris-mlflow")
