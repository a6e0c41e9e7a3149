"""BentoML: the mean of three services that another one depends on.

BENCH_MODEL names the joblib files, with colons between. Members of BatchedEnsemble batch in BentoML's own way.
"""

from __future__ import annotations

import asyncio
import os

import bentoml
import joblib
import numpy as np

SETTINGS = {"workers": 1, "traffic": {"timeout": 60, "max_concurrency": 1000}}
FILES = os.environ.get("BENCH_MODEL", "").split(":")


class Plain:
    place = 0

    def __init__(self) -> None:
        self.model = joblib.load(FILES[self.place])

    @bentoml.api
    async def predict(self, x: np.ndarray) -> np.ndarray:  # async: no hop to a thread
        return np.asarray(self.model.predict(x))


class Batched:
    place = 0

    def __init__(self) -> None:
        self.model = joblib.load(FILES[self.place])

    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=10_000)
    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(x))


@bentoml.service(**SETTINGS)
class PlainA(Plain):
    place = 0


@bentoml.service(**SETTINGS)
class PlainB(Plain):
    place = 1


@bentoml.service(**SETTINGS)
class PlainC(Plain):
    place = 2


@bentoml.service(**SETTINGS)
class BatchedA(Batched):
    place = 0


@bentoml.service(**SETTINGS)
class BatchedB(Batched):
    place = 1


@bentoml.service(**SETTINGS)
class BatchedC(Batched):
    place = 2


@bentoml.service(**SETTINGS)
class PlainEnsemble:
    a = bentoml.depends(PlainA)
    b = bentoml.depends(PlainB)
    c = bentoml.depends(PlainC)

    @bentoml.api
    async def predict(self, x: np.ndarray) -> np.ndarray:
        members = (self.a, self.b, self.c)
        answers = await asyncio.gather(*(member.to_async.predict(x=x) for member in members))
        return np.asarray(np.mean(answers, axis=0))


@bentoml.service(**SETTINGS)
class BatchedEnsemble:
    a = bentoml.depends(BatchedA)
    b = bentoml.depends(BatchedB)
    c = bentoml.depends(BatchedC)

    @bentoml.api
    async def predict(self, x: np.ndarray) -> np.ndarray:
        members = (self.a, self.b, self.c)
        answers = await asyncio.gather(*(member.to_async.predict(x=x) for member in members))
        return np.asarray(np.mean(answers, axis=0))
