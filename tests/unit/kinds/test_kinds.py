from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelStatus, normal_version
from mizzen.kinds.schema.resource import (
    Condition,
    Meta,
    OwnerReference,
    Part,
    Resource,
    format_time,
    merge_conditions,
    parse_time,
)
from mizzen.kinds.serving import InferenceModelSpec

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def test_resource_survives_the_wire() -> None:
    resource = Resource(
        "Model",
        Meta(
            "iris", namespace="team", uid="u", resource_version="7", generation=2, created=NOW, deleted=NOW,
            labels={"a": "b"}, annotations={"c": "d"}, owners=(OwnerReference("Model", "x", "y"),), finalizers=("f",),
        ),
        {"framework": "sklearn"},
        {"highestVersion": 3},
    )  # fmt: skip
    assert Resource.from_wire(resource.wire()) == resource


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_survive_the_wire(time: datetime) -> None:
    assert parse_time(format_time(time)) == time


@pytest.mark.parametrize(
    ("given_", "normal"), [("7", "7"), ("v7", "7"), ("007", "7"), (7, "7"), ("1.0.2", "1.0.2"), ("beta", "beta")]
)
def test_versions_that_mean_the_same_are_the_same(given_: str | int, normal: str) -> None:
    assert normal_version(given_) == normal


@pytest.mark.parametrize("text", ["", "0", "v0", "auto", "latest", "current", "A", "a/b", "a:b", "-a", "a" * 64, "a b"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match=r"version"):
        normal_version(text)


def test_of_a_broken_status_the_rest_is_read() -> None:
    stored = {"highestVersion": 3, "current": {"version": 1}, "previous": "2", "conditions": [{"type": "x"}]}
    status = ModelStatus.of(Resource("Model", Meta("iris"), {}, stored))
    assert status == ModelStatus.model_validate({"highestVersion": 3, "previous": "2"})
    odd = Resource.from_wire({"kind": "Model", "metadata": {"name": "iris"}, "status": ["x"]})
    assert ModelStatus.of(odd) == ModelStatus.model_validate({})


def test_every_fault_at_once_with_its_path() -> None:
    kind = catalog.find("inferencemodel")
    found = kind.examine("Not A Name", {"replicas": -1, "nonsense": 1, "batching": {"batchSize": "x"}})
    assert {fault.path for fault in found.faults} == {
        "metadata.name", "spec.modelName", "spec.deployToLayer", "spec.frameworkType", "spec.replicas", "spec",
        "spec.batching.batchSize",
    }  # fmt: skip


def test_stored_specs_are_read_leniently_but_still_validated() -> None:
    meta = Meta("iris-1")
    future = Resource("InferenceModel", meta, {"modelName": "iris", "targetVersion": "v1", "fromTheFuture": True})
    assert InferenceModelSpec.of(future).target_version == "1"
    with pytest.raises(Invalid) as caught:
        InferenceModelSpec.of(replace(future, spec={"targetVersion": "1"}))
    assert caught.value.faults == (Fault("spec.modelName", "required"),)


def test_version_objects_are_named_after_model_and_version() -> None:
    kind = catalog.find("mv")
    digest = "sha256:" + "0" * 64
    spec = {
        "modelName": "iris", "version": "v3", "framework": "sklearn",
        "artifacts": [{"path": "model.joblib", "digest": digest, "size": 1}],
    }  # fmt: skip
    assert kind.examine("iris.3", spec).faults == ()
    (fault,) = kind.examine("iris-3", spec).faults
    assert "iris.3" in fault.message


def test_kinds_are_found_by_any_name_and_unknown_ones_suggest() -> None:
    for word in ("Model", "model", "models", "mz"):
        assert catalog.find(word).name == "Model"
    with pytest.raises(NotFound) as caught:
        catalog.find("infernecemodel")
    assert "inferencemodel" in caught.value.hint


def test_transition_time_moves_only_with_the_status() -> None:
    def ready(status: str, reason: str) -> Condition:
        return Condition.model_validate({"type": "Ready", "status": status, "reason": reason})

    first = merge_conditions((), (ready("False", "Starting"),), generation=1, now=NOW)
    same = merge_conditions(first, (ready("False", "CrashLoop"),), generation=2, now=NOW + timedelta(seconds=5))
    moved = merge_conditions(same, (ready("True", "Serving"),), generation=2, now=NOW + timedelta(seconds=9))
    assert same[0].last_transition_time == first[0].last_transition_time
    assert (same[0].reason, same[0].observed_generation) == ("CrashLoop", 2)
    assert moved[0].last_transition_time == format_time(NOW + timedelta(seconds=9))


DIGEST = "sha256:" + 64 * "0"


def _version_of(*paths: str) -> dict[str, object]:
    artifacts = [{"path": path, "digest": DIGEST, "size": 1} for path in paths]
    return {"modelName": "iris", "version": "1", "framework": "sklearn", "artifacts": artifacts}


def _paths_of_faults(*paths: str) -> list[str]:
    return [fault.path for fault in catalog.find("mv").examine("iris.1", _version_of(*paths)).faults]


@pytest.mark.parametrize(
    "path", ["../../x", "a/../x", "/etc/x", ".", "./x", "a//x", "a/", "", "a\0b", "x" * 256, "a/" + "é" * 128, "\ud800"]
)
def test_a_file_of_a_version_stays_in_its_folder(path: str) -> None:
    assert _paths_of_faults("fine", path) == ["spec.artifacts[1].path"]


def test_files_of_a_version_stand_beside_each_other() -> None:
    assert _paths_of_faults("a/b", "a/c", "..d", "x" * 255) == []
    for paths in (("a", "a"), ("a", "a/b")):
        assert _paths_of_faults(*paths) == ["spec.artifacts"]


DOCUMENTED = sorted({kind.spec for kind in catalog.KINDS} | {kind.status for kind in catalog.KINDS}, key=str)


@pytest.mark.parametrize("part", DOCUMENTED, ids=lambda part: part.__name__)
def test_every_field_says_what_it_is(part: type[Part]) -> None:
    assert [field for field, text in _descriptions(part, part.__name__, ()) if not text] == []


def _descriptions(part: type[Part], at: str, within: tuple[type[Part], ...]) -> Iterator[tuple[str, str]]:
    if part in within:
        return
    for name, info in part.model_fields.items():
        yield f"{at}.{name}", info.description or ""
        for inner in _parts_in(info.annotation):
            yield from _descriptions(inner, f"{at}.{name}", (*within, part))


def _parts_in(annotation: Any) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from _parts_in(argument)
