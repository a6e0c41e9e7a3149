"""Where the programs of this folder ask."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from kserve import InferenceRESTClient, RESTConfig

ROWS = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.1, 5.6, 2.4]])
PREDICTED = [0, 2]
GRAPHS = {"iris-split": "INT64", "iris-bandit": "INT64", "iris-mean": "FP64", "iris-chain": "INT64"}
"""All of them answer as `iris` does; the datatype of `predict`. A mean is a fraction."""


def told() -> dict[str, str]:
    found: dict[str, str] = json.loads((Path.home() / "inference.json").read_text())
    return found


def url() -> str:
    return "http://" + told()["url"]


def client(protocol: str) -> InferenceRESTClient:
    return InferenceRESTClient(RESTConfig(protocol=protocol, retries=0))
