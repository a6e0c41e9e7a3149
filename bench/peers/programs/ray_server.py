"""Ray Serve: `ray_server.py PORT KIND FILE FOLDER`, one application on a cluster of its own.

KIND is plain, batched or noop; or ensemble or ensemble-batched, and then FILE is several, with colons between.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import joblib
import numpy as np
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle
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


@serve.deployment(**OPTIONS)
class Member:
    def __init__(self, file: str) -> None:
        self.model = joblib.load(file)

    async def __call__(self, rows: Any) -> Any:
        return self.model.predict(rows)


@serve.deployment(**OPTIONS)
class BatchedMember:
    def __init__(self, file: str) -> None:
        self.model = joblib.load(file)

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.005)
    async def __call__(self, rows: list[Any]) -> list[Any]:
        labels = self.model.predict(np.concatenate(rows))
        return np.split(labels, np.cumsum([len(each) for each in rows])[:-1])


@serve.deployment(**OPTIONS)
class Ensemble:
    """Calls its members by their handles, all at once."""

    def __init__(self, *members: DeploymentHandle) -> None:
        # The default can also pickle what is defined in a script, and takes longer for it.
        quick = {"request_serialization": "pickle", "response_serialization": "pickle"}
        self.members = [member.options(**quick) for member in members]

    async def __call__(self, request: Request) -> dict[str, Any]:
        rows = await rows_of(request)
        answers = await asyncio.gather(*(member.remote(rows) for member in self.members))
        return {"output": np.mean(answers, axis=0).tolist()}


def main(port: str, kind: str, file: str, folder: str) -> None:
    if kind.startswith("ensemble"):
        member: Any = BatchedMember if kind == "ensemble-batched" else Member
        members = [member.options(name=f"member{place}").bind(each) for place, each in enumerate(file.split(":"))]
        composed: Any = Ensemble
        application = composed.bind(*members)
    else:
        deployment: Any = {"plain": Plain, "batched": Batched, "noop": Noop}[kind]
        application = deployment.bind() if kind == "noop" else deployment.bind(file)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, logging_config=QUIET)
    serve.run(application, name="app", route_prefix="/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
