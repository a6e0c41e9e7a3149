"""What the SDK refuses of a job before it asks anybody, and what it asks of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mizzen
from mizzen import errors
from mizzen.sdk.api.jobs import JobRef
from mizzen.sdk.operations.train import refuse_unstartable, spec_of
from tests.support.answers import Answers, answering


@pytest.fixture
def answers() -> Iterator[Answers]:
    with answering() as found:
        yield found


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ([1], "must be a mapping of names to values, not a list"),
        ("rate=1", "must be a mapping of names to values, not a str"),
        ({"rate": float("nan")}, "cannot be written as JSON"),
        ({"at": object()}, "cannot be written as JSON"),
    ],
)
def test_params_that_are_none_are_refused_before_anything_is_sent(answers: Answers, params: Any, says: str) -> None:
    with mizzen.connect(answers.url, "t") as plane, pytest.raises(errors.Invalid, match=says) as caught:
        plane.model("iris").train(1, params=params)
    assert caught.value.hint
    assert answers.asked == []


@pytest.mark.parametrize("said", [{"sha256": "9f"}, {"secret": "s"}])
def test_what_is_said_of_no_dataset_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(errors.Invalid, match="needs a dataset"):
        spec_of(**said)


@pytest.mark.parametrize("version", ["a/b", "..", ".", ""])
def test_a_version_that_is_no_segment_of_a_path_is_not_asked_for(answers: Answers, version: str) -> None:
    with mizzen.connect(answers.url, "t") as plane:
        for call in (plane.calls.start_job("iris", version, {}), plane.calls.describe_version("iris", version)):
            with pytest.raises(errors.NotFound, match="no such version"):
                plane.run(call)
    assert answers.asked == []


def test_code_may_say_what_it_runs_in_any_way(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "x", "command": ["python", "fit.py"]}]}}
    for spec in ({"command": ["x"]}, {"image": "x"}, {"tfReplicaSpecs": {"Worker": {"template": template}}}):
        refuse_unstartable("iris", tmp_path, spec)
    refuse_unstartable("iris", tmp_path / "code.tar.gz", {})
    with pytest.raises(errors.NotFound, match=r"no train\.py in"):
        refuse_unstartable("iris", tmp_path, {"replicaSpecs": {"Worker": {"replicas": 2}}})


def test_a_checkpoint_is_vouched_for(answers: Answers) -> None:
    answers.give["POST", "/model/iris/train/1/j/checkpoint/j-1/trust"] = 200, {"checkpoint_id": "j-1", "trusted": True}
    with mizzen.connect(answers.url, "t") as plane:
        mizzen.Job(plane, JobRef("iris", "1", "j")).trust("j-1")
    assert [asked.path for asked in answers.asked] == ["/model/iris/train/1/j/checkpoint/j-1/trust"]
