"""LitServe: `lit_server.py PORT plain|batched|noop MODEL-FILE`."""

from __future__ import annotations

import sys
from typing import Any

import joblib
import litserve
import numpy as np


class Plain(litserve.LitAPI):
    file = ""

    def setup(self, device: str) -> None:
        self.model = joblib.load(self.file)

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # an annotation would be read as a schema
        return np.asarray(request["x"])

    def predict(self, x: Any) -> Any:
        return self.model.predict(x)

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"output": output.tolist()}


class Batched(Plain):
    """A row in, a label out; LitServe stacks and parts them."""

    def batch(self, inputs: list[Any]) -> Any:
        return np.stack(inputs)

    def unbatch(self, output: Any) -> list[Any]:
        return list(output)


class Noop(litserve.LitAPI):
    def setup(self, device: str) -> None:
        pass

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # an annotation would be read as a schema
        return request["x"]

    def predict(self, x: Any) -> Any:
        return x

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"output": output}


def main(port: str, kind: str, file: str) -> None:
    api: Any = {
        "plain": Plain,
        "batched": lambda: Batched(max_batch_size=64, batch_timeout=0.005),
        "noop": Noop,
    }[kind]()
    api.file = file  # goes to the worker's process with it
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=1, timeout=60, fast_queue=True)
    server.run(host="127.0.0.1", port=int(port), generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
