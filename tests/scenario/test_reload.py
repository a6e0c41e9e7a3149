"""A version that differs in data alone: the process that answers takes it without a restart, and says whose answer each
one is. Its model answers with its own parameter, so that label and answer can be compared."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import planes, run_folder

MODEL = """
import os, time
import numpy as np


class Model:
    inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]

    def load(self, path):
        self.value = float(open(path + "/value").read())

    def reload(self, path):
        if os.path.exists(path + "/refuses"):
            raise RuntimeError("not these")
        gate = path + "/gate"
        if os.path.exists(gate):
            gate = open(gate).read()
            open(gate + ".begun", "w").close()
            while not os.path.exists(gate + ".go"):
                time.sleep(0.01)
        self.load(path)

    def predict(self, inputs):
        return np.full(len(inputs["x"]), self.value)
"""
SERVER = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/served-1"


@pytest.fixture(autouse=True)
def served(plane: planes.TestPlane, tmp_path: Path) -> Iterator[None]:
    """For each its own: it goes with its processes, and the next has the same names."""
    add(plane, tmp_path, "1", "deploy", "--name", "served")
    yield
    plane.cli("delete", "model/served", "--cascade")


@pytest.fixture
def control(plane: planes.TestPlane) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as client:
        yield client


def add(plane: planes.TestPlane, folder: Path, value: str, *words: str, **files: str) -> None:
    version = folder / value
    version.mkdir()
    for name, text in {"model.py": MODEL, "value": value, **files}.items():
        (version / name).write_text(text)
    command, *options = words or ("version", "add", "served")
    plane.cli(command, *options, str(version), "--entrypoint", "model:Model", cwd=folder)


def move(control: httpx2.Client, version: str) -> None:
    server = control.get(SERVER).json()
    server["spec"]["targetVersion"] = version
    answer = control.put(SERVER, json=server)
    assert answer.status_code == 200, answer.text


def is_served(control: httpx2.Client, version: str) -> bool:
    status = control.get(SERVER).json()["status"]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    return bool(status.get("servingVersion") == version and ready["status"] == "True")


def test_versions_come_and_go_in_the_same_processes(
    plane: planes.TestPlane, control: httpx2.Client, tmp_path: Path
) -> None:
    add(plane, tmp_path, "2")
    server = control.get(SERVER).json()
    server["spec"]["replicas"] = 2
    assert control.put(SERVER, json=server).status_code == 200
    planes.wait_until(lambda: control.get(SERVER).json()["status"].get("readyReplicas") == 2, "two replicas")
    pids = set(plane.pids("runtime"))
    with callers(plane) as answers:
        for version in ("2", "1", "2"):
            move(control, version)
            planes.wait_until(partial(is_served, control, version), f"version {version} answers")
            planes.wait_until(partial(came, answers, version), "callers see it")
            assert set(plane.pids("runtime")) == pids
    assert_honest(answers, {"1", "2"})
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    planes.wait_until(lambda: set(plane.pids("runtime")) - pids, "they are started again")
    assert ask(plane) == (200, "2"), "with what they had"


def test_what_is_refused_is_started_beside(plane: planes.TestPlane, control: httpx2.Client, tmp_path: Path) -> None:
    add(plane, tmp_path, "2", refuses="")
    pid = plane.pid("runtime")
    with callers(plane) as answers:
        move(control, "2")
        planes.wait_until(lambda: is_served(control, "2"), "version 2 answers")
        planes.wait_until(partial(came, answers, "2"), "callers see it")
    assert_honest(answers, {"1", "2"})
    planes.wait_until(lambda: pid not in plane.pids("runtime"), "the old one has ended")
    events = control.get("/api/v1/namespaces/default/events").json()["items"]
    said = [event["message"] for event in events if event["reason"] == "ReloadRefused"]
    assert len(said) == 1
    assert "RuntimeError: not these" in said[0]


def test_a_plane_that_is_killed_while_it_is_loaded_goes_on_with_it(
    plane: planes.TestPlane, control: httpx2.Client, tmp_path: Path
) -> None:
    gate = run_folder.shared("gate") / "gate"
    add(plane, tmp_path, "2", gate=str(gate))
    pid = plane.pid("runtime")
    with callers(plane) as answers:
        move(control, "2")
        planes.wait_until(gate.with_suffix(".begun").exists, "the model loads")
        before = plane.pid("plane")
        os.kill(before, signal.SIGKILL)
        planes.wait_until(lambda: set(plane.pids("plane")) - {before}, "another plane")
        gate.with_suffix(".go").touch()
        planes.wait_until(partial(came, answers, "2"), "callers see version 2")
    assert_honest(answers, {"1", "2"})
    assert plane.pids("runtime") == [pid]


def test_a_process_that_is_killed_while_it_loads_comes_back_as_it_was(
    plane: planes.TestPlane, control: httpx2.Client, tmp_path: Path
) -> None:
    gate = run_folder.shared("gate") / "gate"
    add(plane, tmp_path, "2", gate=str(gate))
    with callers(plane) as answers:
        move(control, "2")
        planes.wait_until(gate.with_suffix(".begun").exists, "the model loads")
        os.kill(plane.pid("runtime"), signal.SIGKILL)
        planes.wait_until(partial(came, answers, "2"), "callers see version 2, of another process")
    assert_honest(answers, {"1", "2"})


def came(answers: list[tuple[int, str]], version: str) -> bool:
    return answers[-1] == (200, version)


def assert_honest(answers: list[tuple[int, str]], versions: set[str]) -> None:
    assert set(answers) == {(200, version) for version in versions}


def ask(plane: planes.TestPlane, client: Any = httpx2) -> tuple[int, str]:
    """The code, and whose answer it is, by what it says and by what it is: both, unless they agree."""
    body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [1]}]}
    answer = client.post(f"{plane.inference_url}/v2/models/served-1/infer", json=body, timeout=60)
    if answer.status_code != 200:
        return answer.status_code, answer.text
    told, made = answer.json()["model_version"], f"{answer.json()['outputs'][0]['data'][0]:g}"
    return 200, told if told == made else f"{made}, told as {told}"


@contextmanager
def callers(plane: planes.TestPlane, count: int = 3) -> Iterator[list[tuple[int, str]]]:
    """Ask in a loop, some on one connection and one always on a new one."""
    answers = [ask(plane)]
    end = threading.Event()

    def loop(client: Any) -> None:
        while not end.is_set():
            answers.append(ask(plane, client))

    with httpx2.Client() as kept:
        threads = [threading.Thread(target=loop, args=(kept if number else httpx2,)) for number in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield answers
        finally:
            end.set()
            for thread in threads:
                thread.join()
