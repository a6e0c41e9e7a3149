from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.findings import Context
from mizzen.kinds.running import template
from mizzen.kinds.workload import WorkloadSpec

ANSWERS: dict[str, Any] = {"purpose": "answer", "command": ["serve"], "model": "scorer"}
SERVES: dict[str, Any] = {"purpose": "serve", "command": ["python", "-m", "x"]}


def faults(spec: dict[str, Any]) -> set[str]:
    return {str(finding) for finding in WorkloadSpec.model_validate(spec).check("spec", Context())}


def test_what_answers_is_asked_by_a_name() -> None:
    assert faults(ANSWERS | {"protocol": "seldon", "workingDir": "/srv"}) == set()
    assert faults({**ANSWERS, "model": ""}) == {
        "spec.model: is needed with purpose answer: it is asked whether that is ready"
    }


@pytest.mark.parametrize(("field", "value"), [("protocol", "v2"), ("model", "m"), ("workingDir", "/srv")])
def test_what_serves_has_nothing_of_what_answers(field: str, value: str) -> None:
    assert faults(SERVES) == set()
    assert faults(SERVES | {field: value}) == {f"spec.{field}: is for purpose answer only"}


def test_what_is_not_said_is_in_no_template() -> None:
    assert template(SERVES) == SERVES
    assert not {"protocol", "model", "workingDir"} & template(SERVES).keys()
