"""Secrets of a process: in the supervisor's memory and in the process, and nowhere else."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.supervisor.client import ask
from mizzen.supervisor.launch import launch
from mizzen.supervisor.processes.process import WITHOUT_SECRETS
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State
from tests.support.supervised import Supervised, until

VALUE = "a-value-nobody-else-may-see"
CHECKS = f"""
import os, time
print("right" if os.environ["TOKEN"] == "".join({list(VALUE)}) else "wrong", os.environ["PLAIN"], flush=True)
time.sleep(600)
"""


def secret_spec(plane: Supervised, value: str = VALUE) -> ProcessSpec:
    return plane.spec("runtime", CHECKS, env={"PLAIN": "1"}, secret_names=("TOKEN",), secrets={"TOKEN": value})


def apply(plane: Supervised, spec: ProcessSpec) -> ProcessView:
    return ProcessView.from_json(ask(plane.home, "apply", process=spec.to_wire())["process"])


def files_with(folder: Path, word: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_a_secret_is_in_the_process_and_in_no_file(plane: Supervised) -> None:
    plane.start()
    apply(plane, secret_spec(plane))
    until(lambda: plane.log("runtime"))
    assert plane.log("runtime") == "right 1\n"
    assert files_with(plane.home.run, "PLAIN"), "the record is there"
    assert files_with(plane.home.data_dir, VALUE) == files_with(plane.home.run, VALUE) == []


def test_a_process_that_crashes_gets_its_secrets_again(plane: Supervised) -> None:
    plane.start()
    apply(plane, secret_spec(plane))
    until(lambda: plane.log("runtime"))
    os.kill(plane.pid("runtime"), signal.SIGKILL)
    until(lambda: plane.log("runtime").count("right 1\n") == 2)


def test_a_new_value_restarts_nothing_and_counts_from_the_next_start_on(plane: Supervised) -> None:
    plane.start()
    before = apply(plane, secret_spec(plane, "old"))
    until(lambda: "wrong" in plane.log("runtime"))
    after = apply(plane, secret_spec(plane))
    assert (after.pid, after.fingerprint) == (before.pid, before.fingerprint)
    os.kill(plane.pid("runtime"), signal.SIGKILL)
    until(lambda: "right" in plane.log("runtime"))


def test_after_its_supervisor_was_replaced_a_process_waits_to_be_told_its_secrets(plane: Supervised) -> None:
    plane.start()
    pid = apply(plane, secret_spec(plane)).pid
    until(lambda: plane.log("runtime"))
    plane.kill()
    launch(plane.home, python=sys.executable)
    plane.note()
    assert plane.pid("runtime") == pid, "what runs has them"
    os.kill(plane.pid("runtime"), signal.SIGKILL)
    until(lambda: plane.views()["runtime"].message == WITHOUT_SECRETS)
    assert plane.views()["runtime"].state is State.WAITING
    plane.apply(replace(secret_spec(plane), secrets={}))
    assert plane.views()["runtime"].state is State.WAITING
    view = apply(plane, secret_spec(plane))
    assert (view.state, view.message) == (State.RUNNING, "")
    until(lambda: plane.log("runtime").count("right 1\n") == 2)


def test_what_waits_for_secrets_can_be_removed(plane: Supervised) -> None:
    plane.start()
    view = plane.apply(replace(secret_spec(plane), secrets={}))
    assert (view.state, view.pid) == (State.WAITING, None)
    assert ask(plane.home, "remove", key="runtime")["process"] is None


def test_a_spec_shows_its_secrets_to_the_supervisor_only() -> None:
    spec = ProcessSpec(key="k", argv=("a",), log="l", secret_names=("T",), secrets={"T": VALUE})
    assert VALUE not in repr(spec)
    assert VALUE not in json.dumps(spec.to_json())
    assert ProcessSpec.from_json(spec.to_wire()) == spec
    assert spec.fingerprint == replace(spec, secrets={"T": "other"}).fingerprint
    assert spec.fingerprint != replace(spec, secret_names=()).fingerprint
    with pytest.raises(ValueError, match="secrets must be texts") as error:
        ProcessSpec.from_json({**spec.to_wire(), "secrets": {"T": [VALUE]}})
    assert VALUE not in str(error.value)
