"""Train a classifier of iris flowers in rounds, and save it as it gets better.

    mizzen train start iris --code examples/training/iris --param rounds=30 --serve

It needs no plane: `python train.py` works as well, and leaves its checkpoints in the folder `checkpoints`. `plain.py`
does the same without importing anything of Mizzen.
"""

from __future__ import annotations

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

from mizzen import training

params = training.params(rounds=20, rate=0.05, seed=0)
X, y = load_iris(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=params["seed"], stratify=y)

done, best = 0, 0.0
model = SGDClassifier(
    loss="log_loss", learning_rate="constant", eta0=params["rate"], average=True, random_state=params["seed"]
)
last = training.latest_checkpoint()
if last is not None:  # saved by an attempt before this one: after a restart, or suspend and resume
    done, model = int(last.stem.rpartition("-")[2]), joblib.load(last)
    print(f"going on after round {done}")

for number in range(done + 1, params["rounds"] + 1):
    model.partial_fit(X, y, classes=[0, 1, 2])
    accuracy = model.score(X_test, y_test)
    print(f"round {number}: accuracy {accuracy:.3f}")
    training.report(number, total=params["rounds"], accuracy=accuracy)
    if accuracy > best or number == params["rounds"]:
        best = max(accuracy, best)
        training.save_checkpoint(lambda path: joblib.dump(model, path), "model.joblib", step=number)
