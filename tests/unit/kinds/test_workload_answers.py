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
    assert faults({**ANSWERS, "model": ""}) == {"spec.model: is needed with purpose answer, and with no other"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("protocol", "v2", "is for purpose answer only"),
        ("model", "m", "is needed with purpose answer, and with no other"),
        ("workingDir", "/srv", "is for purposes answer and train only"),
        ("readyPath", "/", "is needed with purpose show, and with no other"),
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
    again = "spec: a task is done by one process, and whether again is for its job to say"
    assert faults({**TRAINS, "replicas": 2}) == faults({**TRAINS, "restart": "Always"}) == {again}


def test_what_is_not_said_is_in_no_template() -> None:
    assert template(SERVES) == SERVES
    assert not {"protocol", "model", "workingDir"} & template(SERVES).keys()
