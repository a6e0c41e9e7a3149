"""Ray Serve: `ray_server.py PORT plain|batched|noop FILE FOLDER`, one application on a cluster of its own."""

from __future__ import annotations

import signal
import sys
from typing import Any

import joblib
import numpy as np
import ray
from ray import serve
from starlette.requests import Request

QUIET = {"enable_access_log": False}
OPTIONS: dict[str, Any] = {
    "num_replicas": 1,
    "max_ongoing_requests": 256,
    "ray_actor_options": {"num_cpus": 0.1},
    "logging_config": QUIET,
}


async def rows_of(request: Request) -> Any:
    if request.headers["content-type"] == "application/octet-stream":
        return np.frombuffer(await request.body(), "<f8").reshape(-1, 30)
    return np.asarray((await request.json())["x"])


@serve.deployment(**OPTIONS)
class Plain:
    def __init__(self, file: str) -> None:
        self.model = joblib.load(file)

    async def __call__(self, request: Request) -> dict[str, Any]:
        return {"output": self.model.predict(await rows_of(request)).tolist()}


@serve.deployment(**OPTIONS)
class Batched:
    def __init__(self, file: str) -> None:
        self.model = joblib.load(file)

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.005)
    async def together(self, rows: list[Any]) -> list[Any]:
        return list(self.model.predict(np.concatenate(rows)))

    async def __call__(self, request: Request) -> dict[str, Any]:
        return {"output": [int(await self.together(await rows_of(request)))]}


@serve.deployment(**OPTIONS)
class Noop:
    async def __call__(self, request: Request) -> dict[str, Any]:
        return {"output": (await request.json())["x"]}


def main(port: str, kind: str, file: str, folder: str) -> None:
    deployment: Any = {"plain": Plain, "batched": Batched, "noop": Noop}[kind]
    application = deployment.bind() if kind == "noop" else deployment.bind(file)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, logging_config=QUIET)
    serve.run(application, name="app", route_prefix="/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
