"""BentoML: BENCH_MODEL names the joblib file. Plain is the cheaper way, Batched is BentoML's own adaptive batching."""

from __future__ import annotations

import os

import bentoml
import joblib
import numpy as np

SETTINGS = {"workers": 1, "traffic": {"timeout": 60, "max_concurrency": 1000}}
FILE = os.environ.get("BENCH_MODEL", "")


@bentoml.service(**SETTINGS)
class Plain:
    def __init__(self) -> None:
        self.model = joblib.load(FILE)

    @bentoml.api
    async def predict(self, x: np.ndarray) -> np.ndarray:  # async: no hop to a thread
        return np.asarray(self.model.predict(x))


@bentoml.service(**SETTINGS)
class Batched:
    def __init__(self) -> None:
        self.model = joblib.load(FILE)

    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=10_000)
    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(x))


@bentoml.service(**SETTINGS)
class Noop:
    @bentoml.api
    async def predict(self, x: np.ndarray) -> np.ndarray:
        return x
