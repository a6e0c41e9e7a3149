from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.rules.workload_template import template
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.workload import WorkloadSpec

ANSWERS: dict[str, Any] = {"purpose": "answer", "command": ["serve"], "model": "scorer"}
SERVES: dict[str, Any] = {"purpose": "serve", "command": ["python", "-m", "x"]}


def faults(spec: dict[str, Any]) -> set[str]:
    return {str(finding) for finding in WorkloadSpec.model_validate(spec).check("spec", Context())}


def test_what_answers_is_asked_by_a_name() -> None:
    assert faults(ANSWERS | {"protocol": "seldon", "workingDir": "/srv"}) == set()
    assert faults({**ANSWERS, "model": ""}) == {
        "spec.model: required with purpose answer, and not possible with others"
    }


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("protocol", "v2", "only possible with purpose answer"),
        ("model", "m", "required with purpose answer, and not possible with others"),
        ("workingDir", "/srv", "only possible with purposes answer and train"),
        ("readyPath", "/", "required with purpose show, and not possible with others"),
    ],
)
def test_what_serves_has_nothing_of_what_others_have(field: str, value: str, said: str) -> None:
    assert faults(SERVES) == set()
    assert faults(SERVES | {field: value}) == {f"spec.{field}: {said}"}


TRAINS: dict[str, Any] = {
    "purpose": "train", "command": ["python", "train.py"], "restart": "Never",
    "task": {"job": "j", "jobUid": "u", "model": "m", "replica": "worker-0"},
}  # fmt: skip


def test_a_task_is_done_once_by_one_process() -> None:
    assert faults(TRAINS) == set()
    again = "spec: a task has one process, and its job decides about restarts"
    assert faults({**TRAINS, "replicas": 2}) == faults({**TRAINS, "restart": "Always"}) == {again}


def test_what_is_not_said_is_in_no_template() -> None:
    assert template(SERVES) == SERVES
    assert not {"protocol", "model", "workingDir"} & template(SERVES).keys()
