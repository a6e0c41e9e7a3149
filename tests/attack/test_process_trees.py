"""Code of users that tries to outlive its process: in its own session, with another parent, without an environment."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import escapes, planes
from tests.support.training import Trainer

MODEL = """
WORD = "{word}"
{escape}
escape(WORD)


def predict(inputs):
    return inputs
"""
JOB = """
{escape}
escape("{word}")
print("escaped", flush=True)
import time
time.sleep(600)
"""


@pytest.fixture
def words() -> Iterator[list[str]]:
    """The marks of what escapes in a test, which ends with it."""
    found: list[str] = []
    try:
        yield found
    finally:
        for word in found:
            escapes.end(word)


@pytest.fixture(params=["groups", "namespaces"])
def own(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[planes.TestPlane]:
    """By cgroups, and by what is used where there are none."""
    data_dir = tmp_path / "data"
    if request.param == "namespaces":
        if not escapes.can_hide_groups():
            pytest.skip("only root can hide the cgroups of this machine")
        data_dir.mkdir(mode=0o700)
        escapes.up_without_groups(data_dir)
    with planes.running_plane(data_dir) as running:
        yield running


def deploy(plane: planes.TestPlane, folder: Path, words: list[str]) -> str:
    """A model that has escaped; its mark."""
    word = escapes.new_word()
    words.append(word)
    name = f"runaway{len(words)}"
    (folder / f"{name}.py").write_text(MODEL.format(word=word, escape=escapes.ESCAPE))
    plane.cli("deploy", f"{name}:predict", "--name", name, cwd=folder)
    planes.wait_until(lambda: escapes.sleeping(word), "it has escaped")
    return word


def train(plane: planes.TestPlane, words: list[str]) -> str:
    word = escapes.new_word()
    words.append(word)
    Trainer(plane, f"job{len(words)}").script(JOB.format(word=word, escape=escapes.ESCAPE))
    planes.wait_until(lambda: escapes.sleeping(word), "it has escaped")
    return word


def run_program(plane: planes.TestPlane, folder: Path, words: list[str]) -> str:
    """At a node of a graph."""
    word = escapes.new_word()
    words.append(word)
    container = {"name": "node", "command": ["python", "-c"], "args": [JOB.format(word=word, escape=escapes.ESCAPE)]}
    graph = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": "runaway"},
        "spec": {"dag": [{"name": "node"}], "custom": [{"spec": {"containers": [container]}, "replicas": 1}]},
    }  # fmt: skip
    (folder / "graph.yaml").write_text(json.dumps(graph))
    plane.cli("apply", "-f", "graph.yaml", cwd=folder)
    planes.wait_until(lambda: escapes.sleeping(word), "it has escaped")
    return word


def is_gone(plane: planes.TestPlane, *words: str) -> None:
    planes.wait_until(lambda: not any(map(escapes.sleeping, words)), "what escaped is gone", 10)
    planes.wait_until(lambda: not planes.members(plane.data_dir), "nothing of the plane is left", 10)


def test_down_ends_what_escaped(own: planes.TestPlane, tmp_path: Path, words: list[str]) -> None:
    model, job, program = deploy(own, tmp_path, words), train(own, words), run_program(own, tmp_path, words)
    own.cli("down")
    is_gone(own, model, job, program)
    assert escapes.groups_of(own.data_dir) == []


def test_undeploy_ends_what_escaped(plane: planes.TestPlane, tmp_path: Path, words: list[str]) -> None:
    word = deploy(plane, tmp_path, words)
    plane.cli("undeploy", "runaway1")
    planes.wait_until(lambda: not escapes.sleeping(word), "what escaped is gone")


def test_a_killed_replica_leaves_nothing(plane: planes.TestPlane, tmp_path: Path, words: list[str]) -> None:
    word = deploy(plane, tmp_path, words)
    (first,) = escapes.sleeping(word)
    (replica,) = [each["pid"] for each in plane.status()["processes"] if each.get("model") == "runaway1"]
    os.kill(replica, signal.SIGKILL)
    planes.wait_until(lambda: first not in escapes.sleeping(word), "what escaped from it is gone")
    planes.wait_until(lambda: len(escapes.sleeping(word)) == 1, "the next one escaped again")
    plane.cli("undeploy", "runaway1")
    planes.wait_until(lambda: not escapes.sleeping(word), "all of it is gone")


def test_a_killed_runner_leaves_nothing(plane: planes.TestPlane, words: list[str]) -> None:
    word = train(plane, words)
    (first,) = escapes.sleeping(word)
    (runner,) = [each for each in planes.members(plane.data_dir) if "mizzen.runner" in each.cmdline()]
    runner.kill()
    planes.wait_until(lambda: first not in escapes.sleeping(word), "what escaped from its command is gone")


def test_down_finds_it_after_everything_of_ours_was_killed_and_up_refuses_to_start(
    own: planes.TestPlane, tmp_path: Path, words: list[str]
) -> None:
    model, job = deploy(own, tmp_path, words), train(own, words)
    planes.kill_all_but_replicas(own)
    port = int(own.control_url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        refused = own.cli("up", "--detach", "--port", str(port), "--inference-port", "0", check=False)
    assert refused.returncode != 0
    own.cli("down")
    is_gone(own, model, job)
    assert escapes.groups_of(own.data_dir) == []


def test_the_next_supervisor_ends_what_escaped_from_a_dead_replica(
    own: planes.TestPlane, tmp_path: Path, words: list[str]
) -> None:
    word = deploy(own, tmp_path, words)
    (first,) = escapes.sleeping(word)
    status = own.status()
    (replica,) = [each["pid"] for each in status["processes"] if each.get("model") == "runaway1"]
    os.kill(status["supervisor_pid"], signal.SIGKILL)
    os.kill(replica, signal.SIGKILL)
    planes.wait_until(lambda: first not in escapes.sleeping(word), "it is gone")
