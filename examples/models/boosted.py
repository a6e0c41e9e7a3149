"""Train iris with XGBoost and LightGBM and write iris.json and iris.txt to the current folder."""

from __future__ import annotations

import lightgbm
import xgboost
from sklearn.datasets import load_iris

X, y = load_iris(return_X_y=True)
xgboost.XGBClassifier(n_estimators=20).fit(X, y).save_model("iris.json")
lightgbm.LGBMClassifier(n_estimators=20, verbosity=-1).fit(X, y).booster_.save_model("iris.txt")
print("iris.json and iris.txt")
