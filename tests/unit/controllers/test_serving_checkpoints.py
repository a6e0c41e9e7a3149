"""InferenceModels that serve checkpoints: which one, of what files it is made, and when another one takes over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.documents import FileDocuments
from mizzen.controllers.serving.controller import CHECKPOINT_POLL, Serving
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.controller import Decision
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore
from mizzen.runs.records import File
from tests.support.controllers.objects import DIGEST, NOW, inference_model, version, workload
from tests.support.reconcile.memory import MemoryStore

URL = "http://127.0.0.1:8471"
SAVED_DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def shelf(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(FileDocuments(tmp_path))


def checkpoint(id_: str = "job-1", created: float = 1.0, **more: Any) -> Checkpoint:
    one = Checkpoint(
        id=id_, namespace="default", model="iris", version="1", version_uid="", job="job", job_uid="u", name="c",
        files=(File("model.joblib", SAVED_DIGEST, 3),), sha256="0", created=created, trusted=True,
        framework="sklearn", entrypoint="model.joblib",
    )  # fmt: skip
    return replace(one, **more)


def code(number: str = "1", framework: str = "sklearn", **more: Any) -> Resource:
    """A version that is code to be trained."""
    artifacts = [{"path": "train.py", "digest": DIGEST, "size": 1, "trusted": True}]
    return version(number, framework=framework, artifacts=artifacts, **more)


class World:
    """A store and a shelf, and what the controller decides about `im`."""

    def __init__(self, shelf: CheckpointStore, *objects: Resource) -> None:
        self._objects = {each.ref: each for each in objects}
        self._shelf = shelf

    def decided(self, resource: Resource, *children: Resource) -> Decision:
        owned = [replace(each, meta=replace(each.meta, owners=(resource.as_owner,))) for each in children]

        async def decide() -> Decision:
            store = MemoryStore()
            store.objects |= {each.ref: each for each in (resource, *self._objects.values(), *owned)}
            serving = Serving(URL, Context(), checkpoints=self._shelf)
            facts = await serving.load(store, resource.ref)
            assert facts is not None
            return serving.decide(facts, NOW)

        return asyncio.run(decide())


def told(decision: Decision) -> InferenceModelStatus:
    assert isinstance(decision.status, InferenceModelStatus)
    return decision.status


def ready_reason(decision: Decision) -> str:
    condition = told(decision).condition("Ready")
    assert condition is not None
    return condition.reason


def paths(decision: Decision) -> list[tuple[str, str]]:
    (child,) = decision.children
    return [(artifact["path"], artifact["digest"]) for artifact in child.spec["artifacts"]]


def test_a_version_that_is_code_waits_for_its_first_checkpoint(shelf: CheckpointStore) -> None:
    world = World(shelf, code())
    waiting = world.decided(inference_model("im"))
    assert (ready_reason(waiting), waiting.children, waiting.requeue_after) == ("Untrained", (), CHECKPOINT_POLL)
    assert shelf.add(checkpoint())
    served = world.decided(inference_model("im"))
    assert paths(served) == [("train.py", DIGEST), ("model.joblib", SAVED_DIGEST)]
    assert served.children[0].spec["command"][3:] == [
        "--framework",
        "sklearn",
        "--entrypoint",
        "model.joblib",
        "--trusted",
    ]
    assert told(served).checkpoint == "job-1"


@pytest.mark.parametrize(
    "spec",
    [{"entrypoint": None}, {"entrypoint": "train.py"}, {"framework": "python", "entrypoint": None}],
)
def test_what_is_code_to_be_trained(spec: dict[str, Any]) -> None:
    assert workload_template.awaits_training(ModelVersionSpec.of(code(**spec)))


@pytest.mark.parametrize("number", [version("1"), version("1", trusted=(True, True), entrypoint="file-0"),
                                    code(framework="python", entrypoint="train:Model")])  # fmt: skip
def test_what_is_not(number: Resource) -> None:
    assert not workload_template.awaits_training(ModelVersionSpec.of(number))


def test_without_checkpoints_everything_is_as_it_was(shelf: CheckpointStore) -> None:
    """No process is begun anew because the plane knows of checkpoints now."""
    resource = inference_model("im")
    (child,) = World(shelf, version("1")).decided(resource).children
    before = workload_template.workload_of(
        resource, InferenceModelSpec.of(resource), ModelVersionSpec.of(version("1")), ()
    )
    assert child == before
    status = told(World(shelf, version("1")).decided(resource)).wire()
    assert "checkpoint" not in status
    assert "servingCheckpoint" not in status


def test_the_one_that_is_named_is_served(shelf: CheckpointStore) -> None:
    for number in (1, 2, 3):
        shelf.add(
            checkpoint(f"job-{number}", float(number), files=(File(f"m{number}", SAVED_DIGEST, 1),), entrypoint="")
        )
    decision = World(shelf, version("1")).decided(inference_model("im", checkpoint="job-2"))
    assert paths(decision) == [("file-0", DIGEST), ("m2", SAVED_DIGEST)]
    assert (told(decision).checkpoint, told(decision).serving_checkpoint) == (None, None)
    ready = World(shelf, version("1")).decided(
        inference_model("im", checkpoint="job-2"), replace(workload("im.1", "ready"), spec=decision.children[0].spec)
    )
    assert (ready_reason(ready), told(ready).serving_checkpoint) == ("Serving", "job-2")


@pytest.mark.parametrize("missing", ["job-9", "../x", "JOB"])
def test_one_that_is_not_there_is_told_and_looked_for_again(shelf: CheckpointStore, missing: str) -> None:
    running_ = workload("im.1", "ready")
    decision = World(shelf, version("1")).decided(inference_model("im", serving="1", checkpoint=missing), running_)
    assert ready_reason(decision) == "CheckpointNotFound"
    assert [child.meta.name for child in decision.children] == ["im.1"], "whatever runs, runs on"
    assert decision.requeue_after == CHECKPOINT_POLL


def test_one_of_another_version_is_not_there(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint(version="2"))
    shelf.add(checkpoint("job-2", version_uid="of one that was deleted"))
    for id_ in ("job-1", "job-2"):
        decision = World(shelf, version("1")).decided(inference_model("im", checkpoint=id_))
        assert ready_reason(decision) == "CheckpointNotFound"


def _serving(checkpoint_: str | None, *, meant: str | None = None, **spec: Any) -> Resource:
    """An InferenceModel whose version 1 answers, with this checkpoint or none."""
    resource = inference_model("im", serving="1", **spec)
    more = {"servingCheckpoint": checkpoint_, "checkpoint": meant}
    return replace(resource, status={**resource.status, **{name: text for name, text in more.items() if text}})


def test_training_that_goes_on_switches_nothing(shelf: CheckpointStore) -> None:
    world = World(shelf, version("1"))
    assert paths(world.decided(_serving(None))) == [("file-0", DIGEST)]
    shelf.add(checkpoint())
    assert paths(world.decided(_serving(None))) == [("file-0", DIGEST)], "its own files answer"
    shelf.add(checkpoint("job-2", 2.0, files=(File("newer", SAVED_DIGEST, 1),)))
    kept = world.decided(_serving("job-1", meant="job-1"))
    assert paths(kept) == [("file-0", DIGEST), ("model.joblib", SAVED_DIGEST)]
    assert told(kept).checkpoint == "job-1"
    starting = inference_model("im")
    starting = replace(starting, status={"checkpoint": "job-1"})
    assert told(world.decided(starting)).checkpoint == "job-1", "also while it has not answered yet"


def test_another_version_is_served_with_its_own_newest(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    shelf.add(checkpoint("job-5", version="2"))
    moved = _serving("job-1", meant="job-1")
    moved = replace(moved, spec={**moved.spec, "targetVersion": "2"})
    decision = World(shelf, version("1"), version("2")).decided(moved)
    assert (told(decision).checkpoint, told(decision).serving_checkpoint) == ("job-5", "job-1")


def test_who_names_none_any_more_gets_the_newest(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    shelf.add(checkpoint("job-2", 2.0))
    assert told(World(shelf, version("1")).decided(_serving("job-1"))).checkpoint == "job-2"


def test_another_checkpoint_takes_over_when_it_answers(shelf: CheckpointStore) -> None:
    for number in (1, 2):
        digest = "sha256:" + str(number) * 64
        shelf.add(checkpoint(f"job-{number}", float(number), files=(File("model.joblib", digest, 1),)))
    world = World(shelf, version("1"))
    first = world.decided(inference_model("im", checkpoint="job-1")).children[0]
    old = replace(workload("im.1", "ready"), spec=first.spec)
    switching = world.decided(_serving("job-1", checkpoint="job-2"), old)
    assert [child.meta.name for child in switching.children][1:] == ["im.1"], "the old one stays until then"
    assert (told(switching).serving_checkpoint, told(switching).serving_workload) == ("job-1", "im.1")
    beside = switching.children[0]
    new = replace(workload(beside.meta.name, "ready"), spec=beside.spec)
    done = world.decided(_serving("job-1", checkpoint="job-2"), old, new)
    assert (told(done).serving_checkpoint, told(done).serving_workload) == ("job-2", beside.meta.name)
    assert [note.reason for note in done.notes] == ["Switched"]
    lost = world.decided(_serving("job-1", checkpoint="job-2"), replace(new, status={}))
    assert "im.1" in [child.meta.name for child in lost.children], "what answered is rebuilt, with what it had"
    rebuilt = next(child for child in lost.children if child.meta.name == "im.1")
    assert rebuilt.spec == old.spec


@pytest.mark.parametrize(
    ("of_version", "of_checkpoint", "trusted"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_it_is_trusted_when_both_are(
    shelf: CheckpointStore, of_version: bool, of_checkpoint: bool, trusted: bool
) -> None:
    shelf.add(checkpoint(trusted=of_checkpoint))
    decision = World(shelf, version("1", trusted=(of_version,))).decided(inference_model("im"))
    assert ("--trusted" in decision.children[0].spec["command"]) == trusted


def test_a_version_without_files_is_as_trusted_as_its_checkpoint(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    decision = World(shelf, version("1", trusted=(), image="a/b:1")).decided(inference_model("im"))
    assert "--trusted" in decision.children[0].spec["command"]


def test_python_code_loads_what_was_saved_itself(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    decision = World(shelf, code(framework="python", entrypoint="train:Model")).decided(inference_model("im"))
    command = decision.children[0].spec["command"]
    assert command[3:7] == ["--framework", "python", "--entrypoint", "train:Model"]
    assert paths(decision) == [("train.py", DIGEST), ("model.joblib", SAVED_DIGEST)]


def test_what_does_not_tell_what_it_is_is_what_the_version_is(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint(framework="", entrypoint="", files=(File("weights", SAVED_DIGEST, 1),)))
    decision = World(shelf, code(framework="xgboost")).decided(inference_model("im"))
    assert decision.children[0].spec["command"][3:7] == ["--framework", "xgboost", "--entrypoint", "weights"]


def test_of_several_files_one_has_to_be_the_model(shelf: CheckpointStore) -> None:
    files = (File("a", SAVED_DIGEST, 1), File("b", SAVED_DIGEST, 1))
    shelf.add(checkpoint(framework="", entrypoint="", files=files))
    decision = World(shelf, code()).decided(inference_model("im"))
    condition = told(decision).condition("Ready")
    assert condition is not None
    assert (condition.reason, decision.children) == ("NoFiles", ())
    assert "job-1" in condition.message


def test_files_of_a_checkpoint_stand_over_those_of_the_version(shelf: CheckpointStore) -> None:
    artifacts = [
        {"path": path, "digest": DIGEST, "size": 1, "trusted": True} for path in ("kept", "same", "model", "saved/x")
    ]
    files = tuple(File(path, SAVED_DIGEST, 1) for path in ("same", "model/inner", "saved"))
    shelf.add(checkpoint(files=files, entrypoint="same"))
    decision = World(shelf, version("1", artifacts=artifacts)).decided(inference_model("im"))
    over = [(path, SAVED_DIGEST) for path in ("same", "model/inner", "saved")]
    assert paths(decision) == [("kept", DIGEST), *over], "nothing is both a file and a folder"


def test_what_comes_from_a_manifest_is_served_as_it_is(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    archive = {"version": "1", "downloadURL": "https://example.org/a", "sha256sum": "0" * 64}
    fetched = version("1", source={"url": "https://example.org/a", "sha256sum": "0" * 64})
    decision = World(shelf, fetched).decided(inference_model("im", manifest=[archive], checkpoint="job-9"))
    assert paths(decision) == [("file-0", DIGEST)]


def test_one_that_nobody_vouched_for_is_unpickled_once_somebody_does(shelf: CheckpointStore) -> None:
    one = checkpoint(trusted=False)
    shelf.add(one)
    world, server = World(shelf, code()), inference_model("im")
    (child,) = world.decided(server).children
    assert "--trusted" not in child.spec["command"]
    said = "'model.joblib' is a pickle, and is not marked as trusted: an admin of the model has to vouch for it"
    failed = replace(workload("im.1", "failed", message=said), spec=child.spec)
    refused = world.decided(server, failed)
    ready = told(refused).condition("Ready")
    assert ready is not None
    assert ready.reason == "LoadFailed"
    assert ready.message.endswith("mizzen train checkpoints job --trust job-1")
    assert refused.requeue_after == CHECKPOINT_POLL, "nobody tells when somebody vouches"
    assert shelf.vouch(one) == shelf.find("default", "iris", "1", one.id) == replace(one, trusted=True)
    served = world.decided(server, failed)
    assert ["--trusted" in child.spec["command"] for child in served.children] == [True]


def test_a_checkpoint_that_is_trusted_is_not_what_is_missing(shelf: CheckpointStore) -> None:
    shelf.add(checkpoint())
    said = "'train.py' is code, and is not marked as trusted: an admin of the model has to vouch for it"
    world, server = World(shelf, code()), inference_model("im")
    (child,) = world.decided(server).children
    ready = told(world.decided(server, replace(workload("im.1", "failed", message=said), spec=child.spec))).condition(
        "Ready"
    )
    assert ready is not None
    assert ready.message == said
