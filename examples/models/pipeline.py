"""Fit a pipeline on a DataFrame with columns of several types and write it to tickets.joblib in the current folder."""

from __future__ import annotations

import joblib
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

tickets = pd.DataFrame({
    "city": ["Oslo", "Rome", "Rome", "Bonn", "Oslo", "Bonn", "Rome", "Oslo"],
    "age": [25.0, 61.0, 35.0, 44.0, 70.0, 19.0, 52.0, 31.0],
    "late": ["no", "yes", "yes", "no", "no", "no", "yes", "no"],
})  # fmt: skip
columns = ColumnTransformer([("city", OneHotEncoder(), ["city"]), ("age", StandardScaler(), ["age"])])
model = make_pipeline(columns, LogisticRegression()).fit(tickets[["city", "age"]], tickets["late"])
joblib.dump(model, "tickets.joblib")
print("tickets.joblib: takes city and age, says whether the train is late")
