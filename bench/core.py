"""`make bench-core`: what the control API costs, and that it does not grow with the number of other objects.

CPU time of the serving process per request, as in bench/run.py. Two stores are measured in turn over interleaved
rounds, a small one and a large one, so each figure has its ratio from the same minute. The floor is /healthz.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from bench import procfs, report
from bench.core_plane import TOKEN, open_store
from mizzen.kinds.model import version_object_name
from mizzen.kinds.schema.resource import API_VERSION, Meta, Resource

VERSIONS = 10
HERE = f"/apis/{API_VERSION}/namespaces/default"
DIGEST = "sha256:" + "0" * 64
FORMS = {"objects": "application/json", "tables": "application/json;as=Table;v=v1;g=meta.k8s.io"}
"""What watchers are sent; kubectl asks for tables."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="mzc-") as folder:
        planes = [Plane(Path(folder) / str(size), size) for size in (options.small, options.large)]
        try:
            for plane in planes:
                plane.start()
            figures = reads(planes, options.rounds)
            figures += writes(planes, options.rounds)
            fan_out = [
                Figure(form, planes[0].models, watched(planes[0], watchers=100, changes=200, accept=accept))
                for _ in range(options.rounds)
                for form, accept in FORMS.items()
            ]
        finally:
            for plane in planes:
                plane.stop()
    show(figures, fan_out, options)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-core", description="What the control API costs.")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--small", type=int, default=100, help="models in the small store, each with 10 versions")
    parser.add_argument("--large", type=int, default=10_000, help="models in the large store")
    return parser.parse_args(arguments)


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    models: int
    """In the store."""
    cpu_us: float
    """Of the plane, per request."""


class Plane:
    """The control API as a process of its own, over a store of `models` models with 10 versions each."""

    def __init__(self, folder: Path, models: int) -> None:
        self.models = models
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._client: httpx2.Client | None = None

    def start(self) -> None:
        began = time.monotonic()
        self._folder.mkdir()
        asyncio.run(fill(self._folder, self.models))
        command = [sys.executable, "-m", "bench.core_plane", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        headers = {"authorization": f"Bearer {TOKEN}"}
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False)
        seconds = time.monotonic() - began
        print(f"{self.models} models, {self.models * VERSIONS} versions: filled and serving after {seconds:.1f} s")

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    @property
    def client(self) -> httpx2.Client:
        assert self._client is not None
        return self._client

    def cpu(self) -> float:
        assert self._process is not None
        return procfs.precise_cpu_seconds(self._process.pid)

    def cost(self, work: Callable[[httpx2.Client], int]) -> float:
        """CPU microseconds for each of the requests, or events, that `work` says it was."""
        before = self.cpu()
        count = work(self.client)
        return (self.cpu() - before) / count * 1e6


async def fill(folder: Path, models: int) -> None:
    """Through the store itself: what is measured later is reading, and writing one more."""
    store = await open_store(folder)
    try:
        for start in range(0, models, 100):
            names = [name_of(number) for number in range(start, min(start + 100, models))]
            await asyncio.gather(*(store.create(resource, "bench") for resource in _family(names)))
    finally:
        await store.close()


def name_of(number: int) -> str:
    return f"model-{number:06d}"


def _family(names: Iterable[str]) -> Iterable[Resource]:
    for name in names:
        status = {"highestVersion": VERSIONS}
        yield Resource("Model", Meta(name, labels={"team": f"team-{name[-1]}"}), {"framework": "sklearn"}, status)
        for number in range(1, VERSIONS + 1):
            artifact = {"path": "model.joblib", "digest": DIGEST, "size": 1000, "trusted": True}
            spec = {
                "modelName": name, "version": str(number), "framework": "sklearn", "artifacts": [artifact],
                "createdBy": "bench",
            }  # fmt: skip
            yield Resource("ModelVersion", Meta(version_object_name(name, str(number))), spec)


def reads(planes: Sequence[Plane], rounds: int) -> list[Figure]:
    """Each read on each plane, in turn."""
    middle = name_of(50)
    paths = {
        "floor: /healthz": "/healthz",
        "get a model": f"{HERE}/models/{middle}",
        "describe: /model/<n>": f"/model/{middle}",
        "page of 100 models": f"{HERE}/models?limit=100",
        "page of 100: /model": "/model?limit=100",
        "versions of one model": f"/model/{middle}/version",
        "by field: modelName": f"{HERE}/modelversions?fieldSelector=spec.modelName%3D{middle}",
        "history of one model": f"/model/{middle}/history",
    }
    figures = []
    for _ in range(rounds):
        for what, path in paths.items():
            figures += [Figure(what, plane.models, plane.cost(partial(_gets, path=path))) for plane in planes]
        thousand = partial(_gets, path=f"{HERE}/models?limit=1000", count=5)
        large = [plane for plane in planes if plane.models >= 1000]
        figures += [Figure("list of 1,000 models", plane.models, plane.cost(thousand)) for plane in large]
    return figures


def _gets(client: httpx2.Client, path: str, count: int = 40) -> int:
    for _ in range(count):
        answer = client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
    return count


def writes(planes: Sequence[Plane], rounds: int) -> list[Figure]:
    figures = []
    for number in range(rounds):
        for plane in planes:
            cost = plane.cost(partial(_creates, prefix=f"new-{number}"))
            figures.append(Figure("create a model", plane.models, cost))
    return figures


def _creates(client: httpx2.Client, prefix: str, count: int = 50) -> int:
    for number in range(count):
        answer = client.post("/model", json={"name": f"{prefix}-{number}"})
        assert answer.status_code == 201, answer.text
    return count


def watched(plane: Plane, *, watchers: int, changes: int, accept: str) -> float:
    """CPU microseconds per event that reached a watcher: every watcher sees every change, in order."""

    async def follow(client: httpx2.AsyncClient, since: str, ready: asyncio.Event) -> None:
        params = {"watch": "true", "resourceVersion": since}
        seen = []
        async with client.stream("GET", f"{HERE}/models", params=params, headers={"accept": accept}) as answer:
            assert answer.status_code == 200
            ready.set()
            async for line in answer.aiter_lines():
                found = json.loads(line)["object"]
                shown = found["rows"][0]["object"] if "rows" in found else found
                seen.append(int(shown["metadata"]["labels"]["n"]))
                if len(seen) == changes:
                    break
        assert seen == list(range(changes)), "a watcher missed a change"

    async def run() -> None:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(
            base_url=plane.client.base_url, headers=plane.client.headers, timeout=120, limits=limits, trust_env=False
        ) as client:
            listing = (await client.get(f"{HERE}/models", params={"limit": 1})).json()
            since, target = listing["metadata"]["resourceVersion"], listing["items"][0]
            ready = [asyncio.Event() for _ in range(watchers)]
            tasks = [asyncio.create_task(follow(client, since, event)) for event in ready]
            await asyncio.gather(*(event.wait() for event in ready))
            for number in range(changes):
                await client.put(f"{HERE}/models/{target['metadata']['name']}", json=_labelled(target, number))
            await asyncio.gather(*tasks)

    def work(_client: httpx2.Client) -> int:
        asyncio.run(run())
        return watchers * changes

    return plane.cost(work)


def _labelled(target: dict[str, Any], number: int) -> dict[str, Any]:
    metadata = {"name": target["metadata"]["name"], "labels": {"n": str(number)}}
    return {"apiVersion": API_VERSION, "kind": "Model", "metadata": metadata, "spec": target["spec"]}


def show(figures: Sequence[Figure], fan_out: Sequence[Figure], options: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [("request", f"{options.small} models, µs", f"{options.large:,} models, µs", "ratio")]
    for what in dict.fromkeys(figure.what for figure in figures):
        small, large = (
            [figure.cpu_us for figure in figures if (figure.what, figure.models) == (what, models)]
            for models in (options.small, options.large)
        )
        ratio = f"{median(large) / median(small):.2f}" if small and large else "-"
        cells = [report.number(median(costs)) if costs else "-" for costs in (small, large)]
        rows.append((what, *cells, ratio))
    print(f"\n{report.table(rows)}")
    for form in FORMS:
        cost = report.number(median(figure.cpu_us for figure in fan_out if figure.what == form))
        print(f"\nEvents to 100 watchers of {form}: {cost} µs for each that is delivered, write included.")
    print(f"{os.cpu_count()} cores; CPU of the plane's process, medians over {options.rounds} rounds.")


if __name__ == "__main__":
    sys.exit(main())
