"""The same as `train.py`, by environment variables and files only: what any language can do.

mizzen train start iris --code examples/training/iris -- python plain.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier

params = {"rounds": 20, **json.loads(os.environ.get("MIZZEN_PARAMS", "{}"))}
folder = Path(os.environ.get("MIZZEN_CHECKPOINT_DIR", "."))
X, y = load_iris(return_X_y=True)

model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, average=True, random_state=0)
for number in range(1, params["rounds"] + 1):
    model.partial_fit(X, y, classes=[0, 1, 2])
    told = {"step": number, "total": params["rounds"], "metrics": {"accuracy": model.score(X, y)}}
    print(told, flush=True)
    if "MIZZEN_PROGRESS" in os.environ:
        Path(os.environ["MIZZEN_PROGRESS"]).write_text(json.dumps(told))

joblib.dump(model, folder / ".model.joblib")  # a name that is never taken for a checkpoint
os.rename(folder / ".model.joblib", folder / "model.joblib")  # and now it is one, whole
