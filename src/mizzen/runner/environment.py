"""The environment of a command: the training contract, and the variables of distributed frameworks. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mizzen.confinement.launcher import clean_environment, home_environment
from mizzen.confinement.spec import Confinement
from mizzen.runs.records import Task

OURS = "MIZZEN_"
PASSED_ON = frozenset({
    "MIZZEN_DATA_DIR", "MIZZEN_ENVIRONMENT", "MIZZEN_GPU_MEMORY", "MIZZEN_GPU_MEMORY_SHARE", "MIZZEN_MEMORY",
    "MIZZEN_THREADS",
    # The supervisor recognizes the children of its processes by these.
    "MIZZEN_PROCESS_KEY", "MIZZEN_PROCESS_RUN",
})  # fmt: skip
"""Mizzen's own variables that the command gets, too. The others may be secrets of the plane."""
STORES = ("AWS_", "GOOGLE_", "AZURE_")
"""Prefixes of the plane's credentials for its blob store, which user code must not get."""
LEADERS = ("chief", "master")
_RANKED = (*LEADERS, "worker")
_TENSORFLOW = {"master": "chief"}


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders for the command's inputs and outputs."""

    checkpoints: Path
    logs: Path
    progress: Path
    dataset: Path | None = None


def command_environment(
    task: Task, own: Mapping[str, str], folders: Folders, python: str, confinement: Confinement | None = None
) -> dict[str, str]:
    """`own`: the runner's own environment. `python`: the interpreter that `python` must run."""
    known = own if confinement is None else clean_environment(own)
    inherited = {name: value for name, value in known.items() if not name.startswith((OURS, *STORES))}
    inherited |= {name: own[name] for name in own if name in PASSED_ON or name in task.secret_names}
    inherited |= home_environment(confinement) if confinement is not None else {}
    wanted = {name: value for name, value in task.env.items() if not name.startswith(OURS)}
    ours = {"PYTHONPATH": own.get("MIZZEN_COMMAND_PYTHONPATH", own.get("PYTHONPATH", ""))}
    ours["PATH"] = str(Path(python).parent)
    joined = {
        "PYTHONPATH": _join_paths(ours["PYTHONPATH"], wanted.get("PYTHONPATH", "")),
        "PATH": _join_paths(ours["PATH"], wanted.get("PATH") or own.get("PATH") or os.defpath),
    }
    defaults = {"PYTHONUNBUFFERED": "1"} | ({"GLOO_SOCKET_IFNAME": "lo"} if task.several else {})
    environment = {**defaults, **inherited, **together(task), **wanted, **joined, **_contract(task, folders)}
    return environment if joined["PYTHONPATH"] else {k: v for k, v in environment.items() if k != "PYTHONPATH"}


def together(task: Task) -> dict[str, str]:
    """Return the variables by which TensorFlow and PyTorch find the other replicas; none for a single replica."""
    if not task.several:
        return {}
    found = {"TF_CONFIG": json.dumps(_tf_config(task))}
    ranked = [(type_, index) for type_ in _RANKED for index in range(len(task.cluster.get(type_, ())))]
    if (task.type, task.index) not in ranked:
        return found
    host, _, port = task.cluster[ranked[0][0]][0].rpartition(":")
    rank, size = str(ranked.index((task.type, task.index))), str(len(ranked))
    return found | {
        "MASTER_ADDR": host, "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": size,
        # All of them are on one machine.
        "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
    }  # fmt: skip


def _tf_config(task: Task) -> dict[str, object]:
    """An evaluator is not part of the cluster, but knows it."""
    cluster = {_TENSORFLOW.get(type_, type_): list(hosts) for type_, hosts in task.cluster.items() if hosts}
    cluster.pop("evaluator", None)
    return {"cluster": cluster, "task": {"type": _TENSORFLOW.get(task.type, task.type), "index": task.index}}


def _contract(task: Task, folders: Folders) -> dict[str, str]:
    return {
        "MIZZEN_JOB": task.job,
        "MIZZEN_REPLICA": task.replica,
        "MIZZEN_ATTEMPT": str(task.attempt),
        "MIZZEN_CHECKPOINT_DIR": str(folders.checkpoints),
        "MIZZEN_LOG_DIR": str(folders.logs),
        "MIZZEN_PARAMS": json.dumps(dict(task.hyperparameters)),
        "MIZZEN_PROGRESS": str(folders.progress),
        **({"MIZZEN_DATASET_DIR": str(folders.dataset)} if folders.dataset is not None else {}),
    }


def _join_paths(*paths: str) -> str:
    return os.pathsep.join(filter(None, paths))
