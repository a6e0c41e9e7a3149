"""What one would write by hand to serve the same model: FastAPI, pydantic models, a plain `def` endpoint.

BENCH_MODEL names the joblib file. Run by uvicorn with uvloop and httptools, access log off.
"""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import joblib
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel


class Tensor(BaseModel):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class InferRequest(BaseModel):
    id: str | None = None
    inputs: list[Tensor]


class InferResponse(BaseModel):
    model_name: str
    model_version: str
    id: str
    outputs: list[Tensor]


app = FastAPI()
model = joblib.load(os.environ["BENCH_MODEL"])


@app.post("/v2/models/iris/infer")
def infer(request: InferRequest) -> InferResponse:
    tensor = request.inputs[0]
    rows = np.array(tensor.data, dtype=np.float64).reshape(tensor.shape)
    labels = model.predict(rows)
    output = Tensor(name="predict", shape=list(labels.shape), datatype="INT64", data=labels.tolist())
    return InferResponse(model_name="iris", model_version="1", id=request.id or str(uuid4()), outputs=[output])
