"""Workloads that do a task, and what their commands do."""

from __future__ import annotations

from typing import Any

from mizzen.engines.engine import Observation
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import ReplicaStatus

SLEEPS = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"

JOB_UID = "6f7a8b9c-0d1e-4f2a-8b3c-4d5e6f7a8b9c"


def training(code: str, attempt: int = 0, **spec: Any) -> Resource:
    meta = Meta("iris-3-ab1cd.worker-0", uid="1e2f3a4b-5c6d-4e7f-8a9b-0c1d2e3f4a5b")
    task = {"job": "iris-3-ab1cd", "jobUid": JOB_UID, "model": "iris", "replica": "worker-0", "attempt": attempt}
    given = {"purpose": "train", "command": ["python", "-c", code], "restart": "Never", "graceSeconds": 5, **spec}
    return Resource("Workload", meta, {**given, "task": {**task, **spec.get("task", {})}})


def only(seen: Observation) -> ReplicaStatus:
    (replica,) = seen.replicas
    return replica
