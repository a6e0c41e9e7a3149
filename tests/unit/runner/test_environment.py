"""What a command's environment is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mizzen.runner.environment import Folders, command_environment, together
from mizzen.runs.records import Task

FOLDERS = Folders(Path("/c"), Path("/l"), Path("/p.json"))
CLUSTER = {
    "chief": ("127.0.0.1:1000",),
    "worker": ("127.0.0.1:1001", "127.0.0.1:1002"),
    "ps": ("127.0.0.1:1003",),
    "evaluator": ("127.0.0.1:1004",),
}


def task(**fields: Any) -> Task:
    given = {"cluster": {"worker": ("127.0.0.1:1",)}, "replica": "worker-0", **fields}
    return Task("default", "m", "1", "v", "m-1-x", "uid", attempt=2, command=("python",), **given)


def environment(given: dict[str, str], **fields: Any) -> dict[str, str]:
    return command_environment(task(**fields), given, FOLDERS, "/env/bin/python")


def test_one_that_is_alone_is_told_of_no_others() -> None:
    assert together(task()) == {}


@pytest.mark.parametrize(
    ("replica", "kind", "index", "rank"),
    [("chief-0", "chief", 0, "0"), ("worker-1", "worker", 1, "2"), ("ps-0", "ps", 0, None),
     ("evaluator-0", "evaluator", 0, None)],
)  # fmt: skip
def test_each_is_told_who_the_others_are_and_which_of_them_it_is(
    replica: str, kind: str, index: int, rank: str | None
) -> None:
    told = together(task(replica=replica, cluster=CLUSTER))
    config = json.loads(told["TF_CONFIG"])
    assert config["task"] == {"type": kind, "index": index}
    assert config["cluster"] == {name: list(hosts) for name, hosts in CLUSTER.items() if name != "evaluator"}
    assert told.get("RANK") == rank
    if rank is not None:
        assert (told["WORLD_SIZE"], told["MASTER_ADDR"], told["MASTER_PORT"]) == ("3", "127.0.0.1", "1000")
        assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == (rank, "3")


def test_a_master_is_the_chief_of_tensorflow_and_rank_0_of_pytorch() -> None:
    told = together(task(replica="master-0", cluster={"worker": ("h:2",), "master": ("h:1",)}))
    assert json.loads(told["TF_CONFIG"]) == {
        "cluster": {"worker": ["h:2"], "chief": ["h:1"]},
        "task": {"type": "chief", "index": 0},
    }
    assert (told["RANK"], told["MASTER_PORT"], told["WORLD_SIZE"]) == ("0", "1", "2")


def test_workers_without_a_leader_are_led_by_the_first() -> None:
    told = together(task(replica="worker-1", cluster={"worker": ("h:1", "h:2")}))
    assert (told["RANK"], told["MASTER_PORT"]) == ("1", "1")


def test_what_is_the_runners_own_is_not_passed_on() -> None:
    given = {
        "MIZZEN_TASK": "t", "MIZZEN_PYTHON": "p", "MIZZEN_BLOB_STORE_SECRET_ACCESS_KEY": "s", "MIZZEN_DATASET_X": "k",
        "MIZZEN_TERMINATION_LOG": "l", "MIZZEN_RUN_DIR": "r", "AWS_SECRET_ACCESS_KEY": "a", "MIZZEN_DATA_DIR": "/data",
        "MIZZEN_PROCESS_RUN": "word", "HOME": "/home", "OMP_NUM_THREADS": "2", "KEY": "v",
    }  # fmt: skip
    found = environment(given, secret_names=("KEY",))
    ours = {name for name in found if name.startswith(("MIZZEN_", "AWS_"))}
    assert ours == {
        "MIZZEN_DATA_DIR", "MIZZEN_PROCESS_RUN", "MIZZEN_JOB", "MIZZEN_REPLICA", "MIZZEN_ATTEMPT",
        "MIZZEN_CHECKPOINT_DIR", "MIZZEN_LOG_DIR", "MIZZEN_PARAMS", "MIZZEN_PROGRESS",
    }  # fmt: skip
    assert (found["HOME"], found["OMP_NUM_THREADS"], found["KEY"]) == ("/home", "2", "v")
    assert "PYTHONPATH" not in found


def test_what_the_job_says_counts_but_for_our_own_names() -> None:
    said = {"HOME": "/elsewhere", "PYTHONUNBUFFERED": "0", "MIZZEN_ATTEMPT": "9", "RANK": "5", "PATH": "/mine"}
    found = environment({"HOME": "/home", "PATH": "/usr/bin"}, env=said)
    assert (found["HOME"], found["PYTHONUNBUFFERED"], found["RANK"]) == ("/elsewhere", "0", "5")
    assert found["MIZZEN_ATTEMPT"] == "2"
    assert found["PATH"] == "/env/bin:/mine"


def test_its_own_interpreter_comes_first_and_output_is_not_held_back() -> None:
    found = environment({"PATH": "/usr/bin", "PYTHONPATH": "/src"})
    assert (found["PATH"], found["PYTHONPATH"], found["PYTHONUNBUFFERED"]) == ("/env/bin:/usr/bin", "/src", "1")
    other = environment({"PYTHONPATH": "/src", "MIZZEN_COMMAND_PYTHONPATH": "/parts"}, env={"PYTHONPATH": "/x"})
    assert other["PYTHONPATH"] == "/parts:/x"


def test_gloo_finds_the_loopback_unless_told_otherwise() -> None:
    several = {"cluster": {"worker": ("h:1", "h:2")}}
    assert environment({}, **several)["GLOO_SOCKET_IFNAME"] == "lo"
    assert environment({"GLOO_SOCKET_IFNAME": "eth0"}, **several)["GLOO_SOCKET_IFNAME"] == "eth0"
    assert "GLOO_SOCKET_IFNAME" not in environment({})
