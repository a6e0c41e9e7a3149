"""Small real models that tests serve."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests.support.caller import COEFFICIENTS


def save_weigher(path: Path) -> Path:
    """A model that answers row · COEFFICIENTS: from an answer one can tell whose row it was."""
    model = LinearRegression(fit_intercept=False)
    model.fit(numpy.eye(4), numpy.array(COEFFICIENTS))
    joblib.dump(model, path)
    return path


def save_iris(path: Path) -> Path:
    rows, labels = load_iris(return_X_y=True)
    joblib.dump(LogisticRegression(max_iter=1000).fit(rows, labels), path)
    return path
