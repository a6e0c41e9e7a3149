from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.engines.local.http_env import PORT_NAMES, expand, expand_all
from mizzen.engines.local.process_specs import WorkloadPaths, process_of
from mizzen.kinds.workload import WorkloadSpec
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import ProcessSpec

KNOWN = {"A": "one", "B": "$(A)", "_C": ""}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("--port=$(A)", "--port=one"),
        ("$(A)$(A)", "oneone"),
        ("$(B)", "$(A)"),
        ("[$(_C)]", "[]"),
        ("$(X)", "$(X)"),
        ("$()", "$()"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$($(A))", "$($(A))"),
        ("100$", "100$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, meant: str) -> None:
    assert expand(text, KNOWN) == meant


@given(st.text(alphabet="$()Ab", max_size=12))
def test_what_is_escaped_stays_as_it_was(text: str) -> None:
    assert expand(text.replace("$", "$$"), KNOWN) == text


def test_a_variable_may_speak_of_those_before_it_and_none_is_that_of_the_port() -> None:
    env = {"URL": "http://$(HOST):$(PORT)", "HOST": "h", "PORT": "1", "AGAIN": "$(HOST) $(URL)"}
    command, own, ours = expand_all(("x", "$(URL)", "$(PORT)"), env, 20_001)
    assert command == ("x", "http://$(HOST):20001", "20001")
    assert own == {"URL": "http://$(HOST):20001", "HOST": "h", "AGAIN": "h http://$(HOST):20001"}
    assert ours == dict.fromkeys(PORT_NAMES, "20001")


def process(cwd: str | None = None, secrets: dict[str, str] | None = None, **spec: Any) -> ProcessSpec:
    read = WorkloadSpec.model_validate({"purpose": "answer", "model": "m", "command": ["python", "-m", "m"], **spec})
    place = WorkloadPaths(Home(Path("/d"), Path("/d/run")), "uid", {0: 20_001})
    return process_of(read, place, 0, python="/bin/py", secrets=secrets, cwd=cwd)


def test_a_program_that_answers_is_started_as_its_author_would() -> None:
    started = process(command=["python", "app.py", "$(PORT)"], cwd="/srv", env={"PORT": "1", "ONE": "$(PORT)"})
    assert started.argv == ("/bin/py", "app.py", "20001"), "and may import what lies beside it"
    assert (started.env["PORT"], started.env["ONE"], started.cwd) == ("20001", "20001", "/srv")
    assert "MIZZEN_SOCKET" not in started.env
    assert process().cwd == "/d/work/uid"
    assert process(command=["serve", "$(NOBODY)"]).argv == ("serve", "$(NOBODY)")


def test_the_value_of_a_secret_stands_in_no_command_and_is_no_port() -> None:
    references = {name: {"name": "hub", "key": "k"} for name in ("TOKEN", "PORT")}
    started = process(
        command=["x", "$(TOKEN)"],
        env={"A": "$(TOKEN)"},
        secretEnv=references,
        secrets=dict.fromkeys(references, "hush"),
    )
    assert "hush" not in str(started.to_json())
    assert (started.secrets, started.secret_names, started.complete) == ({"TOKEN": "hush"}, ("TOKEN",), True)
    assert started.env["PORT"] == "20001"


def test_what_served_before_is_the_same_process() -> None:
    """Another fingerprint would start all that runs anew."""
    given_then = {
        "purpose": "serve", "command": ["python", "-m", "mizzen.runtime"], "env": {"A": "$(B)"},
        "secretEnv": {"T": {"name": "hub", "key": "k"}}, "resources": {"memory": "1Gi"},
    }  # fmt: skip
    place = WorkloadPaths(Home(Path("/d"), Path("/d/run")), "uid")
    started = process_of(WorkloadSpec.model_validate(given_then), place, 0, python="/bin/py", secrets={"T": "x"})
    assert started.fingerprint == "b6df0baa024642ab", "since confinement: it has to start anew for that"
