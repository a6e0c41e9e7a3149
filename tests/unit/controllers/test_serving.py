from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from mizzen.controllers.serving import Serving, ServingFacts
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.workload import WorkloadSpec
from mizzen.reconcile.controller import Decision
from tests.unit.controllers.objects import NOW, inference_model, version, workload
from tests.unit.reconcile import virtual
from tests.unit.reconcile.memory import MemoryStore

URL = "http://127.0.0.1:8471"


def decide(
    resource: Resource,
    target: Resource | None = None,
    children: Sequence[Resource] = (),
    *,
    serving: Resource | None = None,
) -> Decision:
    return Serving(URL).decide(ServingFacts(resource, target, serving, tuple(children)), NOW)


def status_of(decision: Decision) -> InferenceModelStatus:
    assert isinstance(decision.status, InferenceModelStatus)
    return decision.status


def names(decision: Decision) -> list[str]:
    return [child.meta.name for child in decision.children]


@dataclass(frozen=True)
class Case:
    resource: Resource
    children: tuple[Resource, ...]
    wanted: tuple[str, ...]
    ready: str
    reason: str
    serving: str | None
    message: str = ""


SWITCHING = inference_model("im", "2", serving="1")

CASES = {
    "start: nothing there yet": Case(inference_model("im"), (), ("im.1",), "False", "Starting", None),
    "start: the process loads": Case(
        inference_model("im"), (workload("im.1", "starting", message="loads"),), ("im.1",),
        "False", "Starting", None, "loads",
    ),
    "ready": Case(inference_model("im"), (workload("im.1", "ready"),), ("im.1",), "True", "Serving", "1"),
    "ready with one of two": Case(
        inference_model("im", replicas=2), (workload("im.1", "waiting", "ready"),), ("im.1",), "True", "Serving", "1"
    ),
    "load failure": Case(
        inference_model("im"), (workload("im.1", "failed", message="no module named x"),), ("im.1",),
        "False", "LoadFailed", None, "no module named x",
    ),
    "one crash is no crash loop": Case(
        inference_model("im"), (workload("im.1", "waiting", restarts=1, message="exit 1"),), ("im.1",),
        "False", "Starting", None, "exit 1",
    ),
    "crash loop": Case(
        inference_model("im"), (workload("im.1", "waiting", restarts=2, message="exit 1"),), ("im.1",),
        "False", "CrashLoop", None, "exit 1",
    ),
    "a short loss keeps version and url": Case(
        inference_model("im", serving="1"), (workload("im.1", "starting", restarts=1),), ("im.1",),
        "False", "Starting", "1",
    ),
    "scaled to nothing": Case(
        inference_model("im", serving="1", replicas=0), (workload("im.1"),), ("im.1",), "False", "NoReplicas", "1"
    ),
    "switch: the old one stays": Case(
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "starting")), ("im.2", "im.1"),
        "False", "Starting", "1",
    ),
    "switch: the new one has answered": Case(
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "ready")), ("im.2",), "True", "Serving", "2"
    ),
    "switch to a version that cannot load": Case(
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "failed", message="bad")), ("im.2", "im.1"),
        "False", "LoadFailed", "1", "bad",
    ),
    "switch back to one that is still going": Case(
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "ready", deleting=True)), ("im.2", "im.1"),
        "False", "Starting", "1",
    ),
    "switch on while a switch is going on": Case(
        inference_model("im", "3", serving="1"), (workload("im.1", "ready"), workload("im.2", "starting")),
        ("im.3", "im.1"), "False", "Starting", "1",
    ),
    "switch after the old one was lost with its version": Case(
        SWITCHING, (workload("im.2", "starting"),), ("im.2",), "False", "Starting", None
    ),
    "switch and scale to nothing": Case(
        inference_model("im", "2", serving="1", replicas=0), (workload("im.1", "ready"),), ("im.2",),
        "False", "NoReplicas", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_decide(case: Case) -> None:
    target = version(str(case.resource.spec["targetVersion"]))
    decision = decide(case.resource, target, case.children)
    assert tuple(names(decision)) == case.wanted
    status = status_of(decision)
    accepted, ready = status.condition("Accepted"), status.condition("Ready")
    assert accepted is not None
    assert accepted.true
    assert ready is not None
    assert (ready.status, ready.reason) == (case.ready, case.reason)
    assert case.message in ready.message
    assert status.serving_version == case.serving
    assert status.url == (f"{URL}/v2/models/im" if case.serving else None)


def test_the_old_workload_is_kept_unchanged() -> None:
    old = workload("im.1", "ready", replicas=7)
    decision = decide(inference_model("im", "2", serving="1", replicas=1), version("2"), (old,))
    assert decision.children[1] == old


def test_a_lost_workload_of_the_version_that_serves_is_rebuilt() -> None:
    decision = decide(SWITCHING, version("2"), (workload("im.2", "starting"),), serving=version("1"))
    assert names(decision) == ["im.2", "im.1"]
    assert status_of(decision).serving_version == "1"


def test_the_url_tells_the_namespace() -> None:
    there = inference_model("im", serving="1")
    assert status_of(decide(there, None)).url == f"{URL}/v2/models/im"
    elsewhere = replace(there, meta=replace(there.meta, namespace="team"))
    assert status_of(decide(elsewhere, None)).url == f"{URL}/ns/team/v2/models/im"


def test_counts() -> None:
    child = workload("im.1", "ready", "waiting", "ready", restarts=2)
    status = status_of(decide(inference_model("im", replicas=3), version("1"), (child,)))
    assert (status.replicas, status.ready_replicas, status.restarts) == (3, 2, 6)


@pytest.mark.parametrize(
    ("resource", "target", "flags"),
    [
        (inference_model("im"), version("1"), ["sklearn", "--entrypoint", "file-0", "--trusted"]),
        (inference_model("im"), version("1", trusted=(False,)), ["sklearn", "--entrypoint", "file-0"]),
        (
            inference_model("im", batching={"batchSize": 8}, frameworkType="python"),
            version("1", trusted=(True, False), entrypoint="m:f"),
            ["python", "--entrypoint", "m:f", "--batch"],
        ),
    ],
)
def test_the_workload(resource: Resource, target: Resource, flags: list[str]) -> None:
    [child] = decide(resource, target).children
    assert WorkloadSpec.strict(child.spec) == ()
    spec = WorkloadSpec.of(child)
    assert list(spec.command) == ["python", "-m", "mizzen.runtime", "--framework", *flags]
    assert [artifact.wire() for artifact in spec.artifacts] == target.spec["artifacts"]
    assert (spec.replicas, spec.restart, spec.purpose) == (1, "Always", "serve")


@pytest.mark.parametrize(
    ("resource", "target", "reason", "word"),
    [
        (inference_model("im", "2", serving="1"), None, "VersionNotFound", "no version 2; register it"),
        (inference_model("im", "2", serving="1"), version("2", deleting=True), "VersionNotFound", "register it"),
        (inference_model("im", "2", serving="1", replicas="many"), None, "InvalidSpec", "spec.replicas"),
        (inference_model("im", "2", serving="1"), version("2", artifacts=[]), "InvalidSpec", "spec.artifacts"),
        (inference_model("im", "2", serving="1"), version("2", trusted=(True, True)), "InvalidSpec", "entrypoint"),
    ],
)
def test_what_cannot_be_accepted_changes_nothing(
    resource: Resource, target: Resource | None, reason: str, word: str
) -> None:
    old, going = workload("im.1", "ready"), workload("im.0", "ready", deleting=True)
    decision = decide(resource, target, (old, going))
    assert decision.children == (old,)
    status = status_of(decision)
    assert [(condition.status, condition.reason) for condition in status.conditions] == [("False", reason)] * 2
    assert word in status.conditions[0].message
    assert (status.serving_version, status.ready_replicas) == ("1", 1)


def test_deletion_wants_nothing() -> None:
    assert decide(inference_model("im", deleting=True), version("1"), (workload("im.1", "ready"),)) == Decision()


def test_a_version_that_appears_wakes_those_that_wait_for_it() -> None:
    async def main() -> None:
        store, serving = MemoryStore(), Serving(URL)
        waiting = await store.create(replace(inference_model("im", "v2"), status={}), "ann")
        facts = await serving.load(store, waiting.ref)
        assert facts is not None
        assert facts.target is None
        assert list(serving.keys(version("2"))) == [waiting.ref]
        assert list(serving.keys(version("1"))) == []
        await store.delete(waiting.ref, "ann")
        assert await serving.load(store, waiting.ref) is None
        assert list(serving.keys(version("2"))) == []

    virtual.run(main())


def test_a_workload_wakes_its_owner() -> None:
    child = workload("im.1")
    owned = replace(child, meta=replace(child.meta, owners=(inference_model("im").as_owner,)))
    assert list(Serving(URL).keys(owned)) == [Ref("InferenceModel", "im")]
    assert list(Serving(URL).keys(child)) == []
