"""Monitors: which tool, as which process, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mizzen.controllers.monitors import ModelMonitors, MonitorFacts, ToolChoice, choose_tool
from mizzen.kinds import catalog
from mizzen.kinds.monitor import MonitorStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from mizzen.reconcile.controller import Decision
from mizzen.showing import gate
from tests.support.controllers.objects import NOW, meta, model, version, workload
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore

INSTALLED = frozenset({"tensorboard"})
DATA = Path("/data")


def monitor(name: str = "iris", **spec: Any) -> Resource:
    return Resource("Monitor", meta(name, created=NOW), {"modelName": "iris"} | spec)


def monitors(*, installed: bool = True) -> ModelMonitors:
    return ModelMonitors(Context(), DATA, control_url="http://here:1", installed=lambda _: installed)


def decided(resource: Resource | None = None, **facts: Any) -> Decision:
    there: dict[str, Any] = {"model": model(), "framework": "pytorch", "installed": INSTALLED} | facts
    return monitors().decide(MonitorFacts(resource or monitor(), **there), NOW)


def status(decision: Decision) -> MonitorStatus:
    assert isinstance(decision.status, MonitorStatus)
    return decision.status


def ready(decision: Decision) -> Condition:
    found = status(decision).condition("Ready")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("asked", "framework", "tool", "reason"),
    [
        (None, "tensorflow", "tensorboard", "Showing"),
        (None, "pytorch", "tensorboard", "Showing"),
        (None, "sklearn", "scalars", "Showing"),
        (None, "", "scalars", "Showing"),
        (None, "cobol", "scalars", "ToolUnknown"),
        ("tensorboard", "sklearn", "tensorboard", "Showing"),
        ("scalars", "pytorch", "scalars", "Showing"),
        ("wandb", "pytorch", "scalars", "ToolUnknown"),
    ],
)
def test_the_tool_is_the_one_asked_for_or_the_frameworks(
    asked: str | None, framework: str, tool: str, reason: str
) -> None:
    choice = choose_tool(asked, framework, INSTALLED)
    assert (choice.tool, choice.reason) == (tool, reason)


def test_a_tool_that_is_not_installed_is_replaced_and_that_is_said() -> None:
    choice = choose_tool("tensorboard", "", frozenset())
    assert choice == ToolChoice(
        "scalars",
        "ToolMissing",
        "tensorboard is not installed, so scalars are shown; to install it: pip install 'mizzen[tensorboard]'",
    )
    decision = decided(installed=frozenset())
    assert decision.children == ()
    assert (ready(decision).status, ready(decision).reason) == ("True", "ToolMissing")
    assert status(decision).url == "http://here:1/model/iris/monitor/page"
    assert decision.requeue_after  # somebody may install it


def test_tensorboard_is_a_process_that_shows_all_versions_below_our_path() -> None:
    decision = decided(monitor(env=[{"name": "A", "value": "b"}]))
    (wanted,) = decision.children
    command = wanted.spec["command"]
    assert command[:3] == ["python", "-m", "mizzen.showing.tensorboard"]
    assert {
        "--logdir=/data/events/default/iris", "--host=127.0.0.1", "--port=$(MIZZEN_PORT)",
        "--path_prefix=/model/iris/monitor/tool",
    } <= set(command)  # fmt: skip
    assert wanted.spec["readyPath"] == gate.READY, "of its own pages nothing is shown to everybody"
    assert wanted.spec["env"] == {"A": "b"}
    assert wanted.meta.labels == {"mizzen.dev/model": "iris"}
    accepted, findings = catalog.check_accepted(wanted, Context())
    assert accepted.true, findings
    assert (ready(decision).status, ready(decision).reason) == ("False", "Starting")
    assert (status(decision).tool, status(decision).url) == ("tensorboard", "http://here:1/model/iris/monitor/tool/")


def test_namespaces_have_paths_and_folders_of_their_own() -> None:
    there = monitor()
    (wanted,) = decided(replace(there, meta=replace(there.meta, namespace="team"))).children
    assert "--path_prefix=/ns/team/model/iris/monitor/tool" in wanted.spec["command"]
    assert "--logdir=/data/events/team/iris" in wanted.spec["command"]
    assert wanted.meta.namespace == "team"


def test_its_workload_never_has_the_name_of_a_served_version() -> None:
    one, other = decided(monitor()), decided(monitor("iris2"))
    names = [decision.children[0].meta.name for decision in (one, other)]
    assert names[0].startswith("iris.monitor-")
    assert names[0].partition(".")[2] != names[1].partition(".")[2]


@pytest.mark.parametrize(
    ("state", "expected"),
    [("ready", ("True", "Showing")), ("starting", ("False", "Seen")), ("waiting", ("False", "Seen"))],
)
def test_it_is_ready_when_its_process_answers(state: str, expected: tuple[str, str]) -> None:
    (wanted,) = decided().children
    decision = decided(children=(workload(wanted.meta.name, state),))
    assert (ready(decision).status, ready(decision).reason) == expected
    assert decision.children == (wanted,)


def test_a_process_that_is_going_is_not_the_one_that_is_wanted() -> None:
    (wanted,) = decided().children
    decision = decided(children=(workload(wanted.meta.name, "ready", deleting=True),))
    assert ready(decision).status == "False"


def test_of_several_over_one_model_the_oldest_counts() -> None:
    younger = monitor("board")
    younger = replace(younger, meta=replace(younger.meta, created=NOW + timedelta(seconds=1)))
    assert ready(decided(others=(younger,))).reason == "Starting"
    decision = decided(younger, others=(monitor(),))
    assert decision.children == ()
    assert (ready(decision).status, ready(decision).reason) == ("False", "OtherMonitor")
    assert "model 'iris' already has a monitor: Monitor/iris" in ready(decision).message
    gone = replace(monitor(), meta=replace(monitor().meta, deleted=NOW))
    assert ready(decided(younger, others=(gone,))).reason == "Starting"


def test_without_its_model_nothing_is_shown() -> None:
    decision = decided(model=None)
    assert (decision.children, ready(decision).reason) == ((), "ModelNotFound")
    assert status(decision).url is None


def test_a_spec_that_is_not_accepted_ends_nothing_that_runs() -> None:
    running = workload("iris.monitor-1", "ready")
    decision = decided(monitor(tool=7), children=(running,))
    assert decision.children == (running,)
    assert not status(decision).is_true("Accepted")


def test_what_is_deleted_wants_nothing() -> None:
    assert decided(replace(monitor(), meta=meta("iris", deleting=True))) == Decision()


def test_the_framework_is_the_models_or_that_of_its_newest_version() -> None:
    async def main() -> None:
        store, controller = MemoryStore(), monitors()
        await store.create(monitor(), "ann")
        stored = await store.create(model(), "ann")
        await store.update_status(replace(stored, status={"highestVersion": 2}), "ann")
        await store.create(version("2", framework="tensorflow"), "ann")
        facts = await controller.load(store, Ref("Monitor", "iris"))
        assert facts is not None
        assert (facts.framework, facts.installed) == ("tensorflow", INSTALLED)
        there = await store.get(Ref("Model", "iris"))
        await store.update(replace(there, spec={"framework": "sklearn"}), "ann")
        facts = await controller.load(store, Ref("Monitor", "iris"))
        assert facts is not None
        assert facts.framework == "sklearn"
        assert [*controller.keys(there)] == [Ref("Monitor", "iris")]
        assert [*controller.keys(version("2"))] == [Ref("Monitor", "iris")]

    virtual.run(main())
