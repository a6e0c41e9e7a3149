"""A real plane with caches that are always too small, while versions are reloaded in place under load: every answer is
that of its own input, by a version that was in force between the request and its answer.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.support import planes

MODEL = """
class Model:
    inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]

    def load(self, path):
        self.value = float(open(path + "/value").read())

    def reload(self, path):
        self.load(path)

    def predict(self, inputs):
        return self.value * 1000 + inputs["x"]
"""
SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"
VALUES, CACHE, GATEWAYS = 40, 6000, 2
"""Of the values about a third fits into the cache."""
SEED = int(os.environ.get("TEST_SEED", "0"))


@dataclass
class Seen:
    answers: list[tuple[str, float, float, str, float]] = field(default_factory=list)
    """URL, when it was asked and answered, version and what was wrong with the value."""
    cached: list[str] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)

    def flow(self, more: int) -> None:
        before = len(self.answers)
        planes.wait_until(lambda: len(self.answers) >= before + more, "answers flow")


def test_no_answer_is_of_a_version_that_was_not_in_force(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with planes.running_plane(tmp_path / "data", "--gateways", str(GATEWAYS)) as plane:
        for value in "1", "2", "3":
            folder = tmp_path / value
            folder.mkdir()
            (folder / "model.py").write_text(MODEL)
            (folder / "value").write_text(value)
        plane.cli("deploy", "--name", "m", str(tmp_path / "1"), "--entrypoint", "model:Model", cwd=tmp_path)
        for value in "2", "3":
            add = ("version", "add", "m", str(tmp_path / value), "--entrypoint", "model:Model")
            plane.cli(*add, cwd=tmp_path)
        headers = {"authorization": f"Bearer {plane.token()}"}
        with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as control:
            serve(plane, control, "m-1", "1")
            history: list[tuple[str, float, float]] = [("1", 0.0, time.monotonic())]
            with callers(f"{plane.inference_url}/v2/models/m-1/infer") as seen:
                for version in [rng.choice("123") for _ in range(8)]:
                    seen.flow(60)
                    began = time.monotonic()
                    serve(plane, control, "m-1", version)
                    history.append((version, began, time.monotonic()))
    assert seen.failures == []
    assert {"hit", ""} <= set(seen.cached)
    ends = [*(known for _, _, known in history[1:]), float("inf")]
    spans = [(version, began, end) for (version, began, _), end in zip(history, ends, strict=True)]
    for url, asked, answered, version, wrong in seen.answers:
        assert wrong == 0, f"{url} was answered for another input, or by another version than it says"
        assert any(version == its and asked <= end and answered >= began for its, began, end in spans), (
            f"version {version} was not in force from {asked} to {answered}: {spans}"
        )


def serve(plane: planes.TestPlane, control: httpx2.Client, name: str, version: str) -> None:
    """Until all gateways do."""
    server = control.get(f"{SERVERS}/{name}").json()
    server["spec"] |= {"targetVersion": version, "cache": {"maxBytes": CACHE}}
    assert control.put(f"{SERVERS}/{name}", json=server).status_code == 200

    planes.wait_until(lambda: is_in_force(plane.data_dir, version), f"all gateways answer with version {version}")


def is_in_force(data_dir: Path, version: str) -> bool:
    """Has every gateway taken a Table that says so?"""
    table = json.loads((data_dir / "table.json").read_bytes())
    [server] = table["servers"]
    taken = [json.loads(note.read_bytes())["serial"] for note in (data_dir / "run" / "tables").glob("*.json")]
    return bool(server["version"] == version and len(taken) == GATEWAYS and min(taken) >= table["serial"])


@contextmanager
def callers(url: str, count: int = 4) -> Iterator[Seen]:
    seen, end = Seen(), threading.Event()

    def ask(number: int) -> None:
        rng = random.Random(SEED * 100 + number)
        with httpx2.Client(timeout=60) as client:
            for _ in itertools.takewhile(lambda _: not end.is_set(), itertools.count()):
                value = float(rng.randrange(VALUES) if rng.random() < 0.5 else rng.randrange(4))
                body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [value]}]}
                asked = time.monotonic()
                answer = client.post(url, json=body)
                answered = time.monotonic()
                if answer.status_code != 200:
                    seen.failures.append((answer.status_code, answer.text))
                    continue
                said = answer.json()
                [given] = said["outputs"][0]["data"]
                version = said["model_version"]
                seen.answers.append((url, asked, answered, version, given - int(version) * 1000 - value))
                seen.cached.append(answer.headers.get("mizzen-cache", ""))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        end.set()
        for thread in threads:
            thread.join()
