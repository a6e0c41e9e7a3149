from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from mizzen.controllers.serving.controller import GATEWAY_POLL, Serving
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.controllers.serving.readiness import START_LIMIT
from mizzen.controllers.serving.version_resolution import resolve_version
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.rules.archive_progress import FetchProgress
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Ref, Resource, format_time
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.kinds.workload import MODEL_LABEL, WorkloadSpec
from mizzen.reconcile.controller import Decision
from tests.support.controllers.objects import DIGEST, NOW, inference_model, model, ready, replica, version, workload
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore

URL = "http://127.0.0.1:8471"


def decide(
    resource: Resource,
    target: Resource | None = None,
    children: Sequence[Resource] = (),
    *,
    serving: Resource | None = None,
    nodes: tuple[Resource, ...] = (),
    left: frozenset[str] = frozenset(),
    unreached: frozenset[str] = frozenset(),
) -> Decision:
    facts = ServingFacts(resource, target, serving, tuple(children), nodes, left=left, unreached=unreached)
    return Serving(URL, Context()).decide(facts, NOW)


def made(resource: Resource, child: Resource, **change: Any) -> Resource:
    """The child as the controller makes it for this spec, changed or not."""
    asked = replace(resource, spec={**resource.spec, **change})
    number = child.meta.name.partition(".")[2].partition("-")[0]
    target = ModelVersionSpec.of(version(number))
    whole = workload_template.workload_of(asked, InferenceModelSpec.of(asked), target, ())
    return replace(child, spec={**whole.spec, "replicas": child.spec["replicas"]})


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
    left: frozenset[str] = frozenset()
    """Whom gateways do not send to any more."""
    unreached: frozenset[str] = frozenset()
    """Whom a gateway does not know yet."""


SWITCHED = inference_model("im", "2", serving="2", ready=ready())
SWITCHING = inference_model("im", "2", serving="1")

CASES = {
    "start: nothing there yet": Case(inference_model("im"), (), ("im.1",), "False", "Starting", None),
    "start: the process loads": Case(
        inference_model("im"), (workload("im.1", "starting", message="loads"),), ("im.1",),
        "False", "Starting", None, "loads",
    ),
    "ready": Case(inference_model("im"), (workload("im.1", "ready"),), ("im.1",), "True", "Serving", "1"),
    "it could answer, and a gateway does not know it yet": Case(
        inference_model("im"), (workload("im.1", "ready"),), ("im.1",), "False", "Routing", "1",
        unreached=frozenset({"im.1"}),
    ),
    "it answers while nobody can tell yet what gateways know": Case(
        inference_model("im", serving="1", ready=ready()), (workload("im.1", "ready"),), ("im.1",),
        "True", "Serving", "1", unreached=frozenset({"im.1"}),
    ),
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
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "ready")), ("im.2", "im.1"), "True", "Serving", "2"
    ),
    "switch: the new one has answered, and a gateway has not looked": Case(
        SWITCHED, (workload("im.1", "ready"), workload("im.2", "ready")), ("im.2", "im.1"), "True", "Serving", "2"
    ),
    "switch: gateways have seen it": Case(
        SWITCHED, (workload("im.1", "ready"), workload("im.2", "ready")), ("im.2",), "True", "Serving", "2",
        left=frozenset({"im.1"}),
    ),
    "switch: what nobody asks yet may be asked before the switch": Case(
        SWITCHING, (workload("im.1", "ready"), workload("im.2", "ready")), ("im.2", "im.1"), "True", "Serving", "2",
        left=frozenset({"im.1", "im.2"}),
    ),
    "switch: the new one is lost before gateways have left the old one": Case(
        SWITCHED, (workload("im.1", "ready"), workload("im.2", "starting")), ("im.2", "im.1"), "False", "Starting", "2"
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
    children = [made(case.resource, child) for child in case.children]
    decision = decide(case.resource, target, children, left=case.left, unreached=case.unreached)
    assert tuple(name.partition("-")[0] for name in names(decision)) == case.wanted
    status = status_of(decision)
    accepted, told = status.condition("Accepted"), status.condition("Ready")
    assert accepted is not None
    assert accepted.true
    assert told is not None
    assert (told.status, told.reason) == (case.ready, case.reason)
    assert case.message in told.message
    assert status.serving_version == case.serving
    assert status.url == (f"{URL}/v2/models/im" if case.serving else None)


def test_what_has_no_files_is_never_trusted() -> None:
    """It may have come to serve before that was asked."""
    nothing = version("1", artifacts=[], framework="python", entrypoint="os:system")
    decision = decide(SWITCHING, version("2"), (made(SWITCHING, workload("im.2", "starting")),), serving=nothing)
    assert names(decision) == ["im.2", "im.1"]
    assert "--trusted" not in decision.children[1].spec["command"]


def test_the_old_workload_is_kept_unchanged() -> None:
    old = workload("im.1", "ready", replicas=7)
    decision = decide(inference_model("im", "2", serving="1", replicas=1), version("2"), (old,))
    assert decision.children[1] == old


def test_a_lost_workload_of_the_version_that_serves_is_rebuilt() -> None:
    decision = decide(SWITCHING, version("2"), (made(SWITCHING, workload("im.2", "starting")),), serving=version("1"))
    assert names(decision) == ["im.2", "im.1"]
    assert status_of(decision).serving_version == "1"


def test_the_url_tells_the_namespace() -> None:
    there = inference_model("im", serving="1")
    assert status_of(decide(there, None)).url == f"{URL}/v2/models/im"
    elsewhere = replace(there, meta=replace(there.meta, namespace="team"))
    assert status_of(decide(elsewhere, None)).url == f"{URL}/ns/team/v2/models/im"


def test_counts() -> None:
    resource = inference_model("im", replicas=3)
    child = made(resource, workload("im.1", "ready", "waiting", "ready", restarts=2))
    status = status_of(decide(resource, version("1"), (child,)))
    assert (status.replicas, status.ready_replicas, status.restarts) == (3, 2, 6)


MODE = [{"name": "MODE", "value": "fast"}]


@pytest.mark.parametrize(
    "change",
    [
        {"env": MODE},
        {"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]},
        {"resources": {"memory": "1Gi"}},
        {"batching": {}},
        {"frameworkType": "python"},
    ],
)
def test_what_needs_other_processes_gets_them_beside_those_that_serve(change: dict[str, Any]) -> None:
    old = made(inference_model("im"), workload("im.1", "ready"))
    changed = inference_model("im", serving="1", **change)
    began = decide(changed, version("1"), (old,))
    [new, kept] = began.children
    assert kept == old
    assert new.meta.name.startswith("im.1-")
    status = status_of(began)
    assert (status.serving_version, status.serving_workload, status.ready_replicas) == ("1", "im.1", 1)
    ready = status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "Starting")

    answering = replace(changed, status=status.wire())
    starting = replace(new, status=workload(new.meta.name, "starting").status)
    assert set(names(decide(answering, version("1"), (old, starting)))) == {new.meta.name, "im.1"}
    done = decide(answering, version("1"), (old, replace(new, status=workload(new.meta.name, "ready").status)))
    assert names(done) == [new.meta.name, "im.1"]
    assert done.requeue_after == GATEWAY_POLL, "the old one stays until gateways have looked"
    assert status_of(done).serving_workload == new.meta.name
    after = status_of(done).condition("Ready")
    assert after is not None
    assert after.true


def test_a_change_takes_over_with_all_replicas_and_not_before() -> None:
    old = made(inference_model("im", replicas=2), workload("im.1", "ready", "ready"))
    changed = inference_model("im", serving="1", replicas=2, env=MODE)
    [new, _] = decide(changed, version("1"), (old,)).children

    def with_new(*states: str, old: Resource = old) -> Decision:
        return decide(changed, version("1"), (old, replace(new, status=workload(new.meta.name, *states).status)))

    assert status_of(with_new("ready", "starting")).serving_workload == "im.1"
    assert status_of(with_new("ready", "ready")).serving_workload == new.meta.name
    lost = replace(old, status=workload("im.1", "waiting", "waiting").status)
    assert status_of(with_new("ready", "starting", old=lost)).serving_workload == new.meta.name, "one is more than none"


def test_what_is_put_in_the_place_of_a_change_under_way_ends_that_one() -> None:
    old = made(inference_model("im"), workload("im.1", "ready"))
    second = replace(made(inference_model("im"), workload("im.1-12345678", "starting"), env=MODE))
    third = inference_model("im", serving="1", env=[{"name": "MODE", "value": "slow"}])
    wanted = names(decide(third, version("1"), (old, second)))
    assert len(wanted) == 2
    assert "im.1" in wanted
    assert "im.1-12345678" not in wanted
    back = decide(inference_model("im", serving="1"), version("1"), (old, second))
    assert names(back) == ["im.1"], "taken back, nothing was changed"
    ready = status_of(back).condition("Ready")
    assert ready is not None
    assert ready.true


def test_more_or_fewer_replicas_are_the_same_workload() -> None:
    old = made(inference_model("im"), workload("im.1", "ready"))
    [child] = decide(inference_model("im", serving="1", replicas=3), version("1"), (old,)).children
    assert (child.meta.name, child.spec["replicas"]) == ("im.1", 3)


def test_a_change_that_cannot_start_leaves_the_old_one_and_says_so() -> None:
    old = made(inference_model("im"), workload("im.1", "ready"))
    changed = inference_model("im", serving="1", env=MODE)
    [new, _] = decide(changed, version("1"), (old,)).children
    failed = replace(new, status=workload(new.meta.name, "failed", message="no module named x").status)
    decision = decide(changed, version("1"), (old, failed))
    assert set(names(decision)) == {"im.1", new.meta.name}
    ready = status_of(decision).condition("Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == ("LoadFailed", "no module named x; the previous replicas keep serving")
    assert status_of(decision).url


def test_what_never_becomes_ready_is_told_after_a_while() -> None:
    child = made(inference_model("im"), workload("im.1", "starting"))
    [available] = child.status["conditions"]
    for since, reason, again in ((NOW, "Starting", True), (NOW - START_LIMIT, "NotReadyInTime", False)):
        told = {**available, "lastTransitionTime": format_time(since)}
        decision = decide(
            inference_model("im"), version("1"), (replace(child, status={**child.status, "conditions": [told]}),)
        )
        ready = status_of(decision).condition("Ready")
        assert ready is not None
        assert ready.reason == reason
        assert (decision.requeue_after is not None) == again


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
        (
            inference_model("im", outputs=[{"name": "predict_proba", "datatype": "FP64", "shape": [-1, 3]}]),
            version("1", trusted=(False,)),
            [
                "sklearn",
                "--entrypoint",
                "file-0",
                "--outputs",
                '[{"name": "predict_proba", "datatype": "FP64", "shape": [-1, 3]}]',
            ],
        ),
    ],
)
def test_the_workload(resource: Resource, target: Resource, flags: list[str]) -> None:
    [child] = decide(resource, target).children
    assert not examine(WorkloadSpec, child.spec, "spec", Context()).faults
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
        (inference_model("im", "2", serving="1"), version("2", artifacts="all"), "InvalidSpec", "spec.artifacts"),
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
        store, serving = MemoryStore(), Serving(URL, Context())
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
    assert list(Serving(URL, Context()).keys(owned)) == [Ref("InferenceModel", "im")]
    assert list(Serving(URL, Context()).keys(child)) == []


def node(name: str, **spec: Any) -> Resource:
    labels = spec.pop("labels", {})
    return Resource("Node", Meta(name, labels=labels), spec)


PI = node("pi", layer="edge", labels={"room": "7"})


@pytest.mark.parametrize(
    ("spec", "target", "nodes", "reason", "word"),
    [
        ({"image": "a/b:1"}, None, (), "ContainersUnsupported", "no container images"),
        ({"deployToLayer": "edge"}, version("1"), (), "NodeNotFound", "there is no node in layer edge"),
        ({"deployToLayer": "edge"}, version("1"), (node("box"),), "NodeNotFound", "no node in layer edge"),
        ({"deployToLayer": "edge"}, version("1"), (PI,), "NodeNotReady", "node 'pi' does not accept work"),
        ({"nodeName": "box"}, version("1"), (), "NodeNotFound", "there is no node 'box'"),
        ({"nodeName": "box"}, version("1"), (node("box"),), "NodeNotReady", "'box'"),
        ({"nodeName": "pi"}, version("1"), (PI,), "PlacementConflict", "its layer is edge, not cloud"),
        (
            {"deployToLayer": "edge", "nodeName": "pi", "nodeSelector": {"room": "8"}}, version("1"), (PI,),
            "PlacementConflict", "its label room is '7', not '8'",
        ),
        ({"nodeSelector": {"room": "7"}}, version("1"), (PI,), "NodeNotFound", "layer cloud with room=7"),
        (
            {"deployToLayer": "edge", "nodeSelector": {"kubernetes.io/hostname": "pi"}}, version("1"), (PI,),
            "NodeNotReady", "'pi'",
        ),
        ({"checkpoint": "c1"}, version("1"), (), "CheckpointNotFound", "'c1'"),
        (
            {"frameworkType": "lookup"}, version("1"), (),
            "UnsupportedFramework",
            "framework 'lookup' is not supported here; supported are sklearn, xgboost, lightgbm, onnx, tensorflow, ",
        ),
        ({}, version("1", framework="paddle"), (), "UnsupportedFramework", "'paddle'"),
        ({"gpu": 0.5}, version("1"), (), "NoGpu", "this machine has none; remove spec.gpu to run on CPUs"),
        ({}, version("1", artifacts=[], image="a/b:1"), (), "ContainersUnsupported", "iris.1 is a container image"),
        (
            {}, version("1", artifacts=[], framework="python", entrypoint="os:system", code={"digest": DIGEST}), (),
            "NoFiles", "iris.1 has no files",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_here_is_accepted_and_says_why(
    spec: dict[str, Any], target: Resource | None, nodes: tuple[Resource, ...], reason: str, word: str
) -> None:
    old = workload("im.0", "ready")
    decision = decide(inference_model("im", "1", serving="0", **spec), target, (old,), nodes=nodes)
    status = status_of(decision)
    accepted, ready = status.condition("Accepted"), status.condition("Ready")
    assert accepted is not None
    assert ready is not None
    assert accepted.true
    assert (ready.status, ready.reason) == ("False", reason)
    assert word in ready.message
    assert decision.children == (old,), "whatever runs, runs on"
    assert (status.serving_version, status.ready_replicas) == ("0", 1)


def test_the_seed_waits_for_its_node() -> None:
    spec = {
        "modelName": "facialexpression", "deployToLayer": "edge", "frameworkType": "tensorflow", "image": "",
        "nodeSelector": {"kubernetes.io/hostname": "precision-5820"}, "nodeName": "precision-5820",
        "manifest": [
            {"version": "3", "downloadURL": "http://h/3.tar.gz", "sha256sum": "d" * 64},
            {"version": "4", "downloadURL": "http://h/4.tar.gz", "sha256sum": "1" * 64},
        ],
        "targetVersion": "4", "servingPort": 8501, "replicas": 1,
    }  # fmt: skip
    seed = Resource("InferenceModel", Meta("facialexpression"), spec)
    decision = decide(seed)
    assert decision.children == ()
    told = [(item.type, item.status, item.reason) for item in status_of(decision).conditions]
    assert told == [("Accepted", "True", "Accepted"), ("Ready", "False", "NodeNotFound")]


def test_variables_of_the_environment_go_to_the_workload_and_secrets_as_references() -> None:
    variables = [
        {"name": "MODE", "value": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]
    [child] = decide(inference_model("im", env=variables), version("1")).children
    assert child.spec["env"] == {"MODE": "fast"}
    assert child.spec["secretEnv"] == {"TOKEN": {"name": "hub", "key": "token"}}
    [plain] = decide(inference_model("im"), version("1")).children
    assert not {"env", "secretEnv"} & plain.spec.keys(), "what runs must not be restarted by a field that says nothing"


def test_a_replica_without_its_secret_tells_why() -> None:
    waiting = replica(0, "waiting").model_copy(update={"reason": "SecretNotFound", "message": "TOKEN needs key 'x'"})
    child = made(inference_model("im"), workload("im.1", "waiting"))
    child = replace(child, status={**child.status, "replicas": [waiting.wire()]})
    ready = status_of(decide(inference_model("im"), version("1"), (child,))).condition("Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == ("SecretNotFound", "TOKEN needs key 'x'")


def pointing(target: str | None, **more: Any) -> Resource:
    resource = inference_model("im", "1", **more)
    spec = {name: value for name, value in resource.spec.items() if name != "targetVersion"}
    return replace(resource, spec=spec if target is None else {**spec, "targetVersion": target})


@pytest.mark.parametrize(
    ("target", "told", "follow", "generation", "meant"),
    [
        ("1", None, False, 1, "1"),
        ("prod", None, False, 1, "2"),
        ("beta", None, False, 1, "beta"),
        (None, None, False, 1, "3"),
        ("prod", "1", False, 1, "1"),  # resolved when it was applied
        ("prod", "1", False, 2, "2"),  # and again with another spec
        ("prod", "1", True, 1, "2"),
        (None, "1", True, 1, "3"),
        (None, "1", False, 1, "1"),
    ],
)
def test_which_version_is_meant(
    target: str | None, told: str | None, follow: bool, generation: int, meant: str
) -> None:
    resource = pointing(target, followAlias=follow, generation=generation)
    resource = replace(resource, status={"targetVersion": told, "observedGeneration": 1} if told else {})
    owner = model(current="3", aliases={"prod": "2"})
    assert resolve_version(resource, InferenceModelSpec.of(resource), owner) == meant
    if target is None and told is None:
        assert resolve_version(resource, InferenceModelSpec.of(resource), None) is None


def test_what_is_meant_is_told_where_the_spec_does_not_say_it() -> None:
    assert status_of(decide(pointing("prod"), version("2"))).target_version == "2"
    assert status_of(decide(pointing("2"), version("2"))).target_version is None
    refused = status_of(decide(pointing(None), None)).condition("Accepted")
    assert refused is not None
    assert (refused.reason, "no current version" in refused.message) == ("VersionNotFound", True)


def test_an_alias_or_a_node_that_changes_wakes_those_that_name_it() -> None:
    async def main() -> None:
        store, serving = MemoryStore(), Serving(URL, Context())
        aliased = await store.create(replace(pointing("prod"), status={}), "ann")
        placed = await store.create(inference_model("placed", nodeName="pi"), "ann")
        for resource in (aliased, placed):
            assert await serving.load(store, resource.ref)
        assert list(serving.keys(model())) == [aliased.ref]
        assert list(serving.keys(PI)) == [placed.ref]
        await store.create(model(aliases={"prod": "2"}), "ann")
        await store.create(version("2"), "ann")
        facts = await serving.load(store, aliased.ref)
        assert facts is not None
        assert facts.target is not None
        assert list(serving.keys(version("2"))) == [aliased.ref]

    virtual.run(main())


def test_a_workload_says_which_model_it_serves() -> None:
    """By a label: what runs already is given it, and its spec, which decides what runs, stays as it is."""
    [child] = decide(inference_model("face", model_name="iris"), version("1")).children
    assert child.meta.labels == {MODEL_LABEL: "iris"}
    assert MODEL_LABEL not in str(child.spec)


def test_what_is_not_to_be_had_here_is_said_and_the_rest_served() -> None:
    resource = inference_model("im", servingPort=8501)
    accepted = status_of(decide(resource, version("1"))).condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("True", "AcceptedWithWarnings")
    assert "spec.servingPort: ignored: this engine opens no dedicated port" in accepted.message


def test_a_machine_that_is_a_node_takes_what_asks_for_it() -> None:
    box = node("box", layer="cloud", labels={"room": "7"})
    controller = Serving(URL, Context(), here="box")

    def reason(**spec: Any) -> str:
        facts = ServingFacts(inference_model("im", **spec), version("1"), None, (), (box,))
        ready = status_of(controller.decide(facts, NOW)).condition("Ready")
        assert ready is not None
        return ready.reason

    assert reason(nodeName="box", nodeSelector={"kubernetes.io/hostname": "box"}) == "Starting"
    assert reason(nodeSelector={"room": "7"}) == "Starting"
    assert reason(nodeName="box", nodeSelector={"room": "8"}) == "PlacementConflict"
    assert reason(nodeSelector={"room": "8"}) == "NodeNotFound"


def test_an_archive_on_its_way_is_told_and_changes_nothing() -> None:
    entry = {"version": "2", "downloadURL": "http://h/2.tgz", "sha256sum": "2" * 64}
    resource = inference_model("im", "2", serving="1", manifest=[entry])
    old = workload("im.1", "ready")
    told: tuple[tuple[Literal["fetching", "failed"], str], ...]
    told = (("fetching", "Fetching"), ("failed", "FetchFailed"))
    for state, reason in told:
        facts = ServingFacts(resource, None, None, (old,), fetched=FetchProgress(state, "5 MiB so far"))
        decision = Serving(URL, Context()).decide(facts, NOW)
        assert decision.children == (old,)
        seen = status_of(decision).condition("Ready")
        assert seen is not None
        assert (seen.reason, seen.message) == (reason, "5 MiB so far")
    other = version("2", source={"url": "http://h/2.tgz", "sha256sum": "3" * 64})
    conflict = status_of(decide(resource, other, (old,))).condition("Ready")
    assert conflict is not None
    assert conflict.reason == "VersionConflict"
    same = version("2", source={"url": "http://h/2.tgz", "sha256sum": "2" * 64})
    assert names(decide(resource, same, (old,))) == ["im.2", "im.1"]
