"""Train a classifier of iris flowers and write it to model.joblib in the current folder."""

from __future__ import annotations

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

X, y = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(X, y)
joblib.dump(model, "model.joblib")
print(f"model.joblib: accuracy on its own data {model.score(X, y):.2f}")
