"""KServe: `kserve_server.py FILE ...` serves it as `m`, in the way of KServe's own server for scikit-learn."""

from __future__ import annotations

import sys

import joblib
import numpy as np
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class Served(Model):
    def __init__(self, file: str) -> None:
        super().__init__("m")
        self.model = joblib.load(file) if file else None
        self.ready = True

    def predict(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferResponse:
        rows = payload.inputs[0].as_numpy()
        labels = rows if self.model is None else self.model.predict(rows)
        output = InferOutput("predict", list(labels.shape), "FP64" if labels.dtype == np.float64 else "INT64")
        wanted = payload.request_outputs
        output.set_data_from_numpy(labels, binary_data=bool(wanted and wanted[0].binary_data))
        return InferResponse(payload.id or "", self.name, [output], requested_outputs=wanted)


if __name__ == "__main__":
    ModelServer().start([Served(sys.argv.pop(1))])
