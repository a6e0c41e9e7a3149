"""Specs that never passed admission: every controller says `Accepted=False` once, and then nothing moves any more."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.blobs.file_store import FileBlobs
from mizzen.controllers import acceptance
from mizzen.controllers.acceptance import Acceptance, AcceptanceFacts
from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.facts import GraphFacts
from mizzen.controllers.models import ModelFacts, Models
from mizzen.controllers.monitors import ModelMonitors, MonitorFacts
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.controllers.training import decide
from mizzen.controllers.training.admission_queue import AdmissionQueue
from mizzen.controllers.training.controller import TrainingJobs
from mizzen.controllers.training.facts import TrainingFacts
from mizzen.controllers.training.results import JobResults
from mizzen.controllers.versions import VersionFacts, Versions
from mizzen.controllers.workloads import WorkloadFacts, Workloads
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource, Status
from mizzen.reconcile.controller import Decision
from mizzen.reconcile.loop import Loop
from mizzen.stores.lookup import Lookup
from mizzen.stores.records.protocol import Principal
from mizzen.stores.sqlite.store import SqliteStore
from tests.support.controllers.objects import NOBODY, NOW, model, version
from tests.support.examples import examples
from tests.unit.controllers.engine import ScriptedEngine

OWN = ("Model", "ModelVersion", "InferenceModel", "MLGraph", "TrainingJob", "Monitor", "Workload")
BAD: dict[str, Any] = {
    "modelName": ["iris"], "replicas": "many", "dag": 7, "components": 7, "verbs": 7, "layer": 7, "track": 7,
}  # fmt: skip


def test_every_kind_has_somebody_who_accepts_it() -> None:
    kinds = {kind.name for kind in catalog.KINDS if not kind.virtual}
    assert kinds == {*acceptance.KINDS, *OWN}


@pytest.mark.parametrize("kind", acceptance.KINDS)
def test_a_bad_stored_spec_is_not_accepted_and_everything_else_stays(kind: str) -> None:
    other = Condition.model_validate(
        {"type": "Ready", "status": "True", "reason": "Mine", "lastTransitionTime": "t0", "observedGeneration": 1}
    )
    told = {"conditions": [other.wire()], "phase": "Running", "inner": {"a": [1, None]}, "observedGeneration": 1}
    stored = Resource(kind, Meta("x", generation=2), {"nonsense": 1, **BAD}, told)
    status = Acceptance(kind, Context(), *NOBODY).decide(AcceptanceFacts(stored), NOW).status
    assert status is not None
    written = status.wire()
    assert (written["phase"], written["inner"], written["observedGeneration"]) == ("Running", told["inner"], 2)
    [accepted, kept] = status.conditions
    assert (accepted.type, accepted.status, accepted.reason) == ("Accepted", "False", "InvalidSpec")
    assert kept == other
    assert Acceptance(kind, Context(), *NOBODY).decide(AcceptanceFacts(_going(stored)), NOW) == Decision()


def _going(resource: Resource) -> Resource:
    return Resource(resource.kind, Meta("x", deleted=NOW), resource.spec, resource.status)


FIELDS = sorted({field.alias or name for kind in catalog.KINDS for name, field in kind.spec.model_fields.items()})
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(-1, 1) | st.sampled_from(("", "a", "iris:1", "v1", "é")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*FIELDS, "name", "spec", "value", "split", "type")), inner, max_size=4)
    ),
    max_leaves=8,
)
SPECS = st.dictionaries(st.sampled_from(FIELDS), DATA, max_size=6)


@settings(max_examples=examples(100), deadline=None)
@given(kind=st.sampled_from([kind.name for kind in catalog.KINDS if not kind.virtual]), spec=SPECS)
def test_no_spec_makes_a_controller_fail(kind: str, spec: dict[str, Any]) -> None:
    resource = Resource(kind, Meta("x", uid="u", generation=1), spec)
    decision = _decide(resource)
    assert decision.status is not None
    accepted = decision.status.condition("Accepted")
    assert accepted is not None
    assert accepted.message or accepted.true
    if accepted.reason == "InvalidSpec":
        assert decision.children == ()


def _decide(resource: Resource) -> Decision:
    known = Context()
    match resource.kind:
        case "Model":
            return Models(known).decide(ModelFacts(resource, (), frozenset()), NOW)
        case "ModelVersion":
            return Versions(known).decide(VersionFacts(resource, ()), NOW)
        case "InferenceModel":
            return Serving("http://x", known).decide(ServingFacts(resource, None, None, ()), NOW)
        case "MLGraph":
            return Graphs("http://x", known).decide(GraphFacts(resource), NOW)
        case "TrainingJob":
            return decide.decide(TrainingFacts(resource), known, "", NOW)
        case "Monitor":
            return _monitors().decide(MonitorFacts(resource), NOW)
        case "Workload":
            return Workloads(ScriptedEngine()).decide(WorkloadFacts(resource), NOW)
        case kind:
            return Acceptance(kind, known, *NOBODY).decide(AcceptanceFacts(resource), NOW)


def _monitors() -> ModelMonitors:
    return ModelMonitors(Context(), Path(), control_url="http://x", installed=lambda _: True)


def test_the_loop_comes_to_rest_with_bad_specs_of_all_kinds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
        known = Context()
        serving = (Serving("http://x", known), Graphs("http://x", known))
        shares = AdmissionQueue(1, 1, enqueue=lambda _: None)
        results = JobResults(tmp_path, FileBlobs(tmp_path / "blobs").documents)
        training = TrainingJobs(known, shares, results, Lookup(*NOBODY), now=lambda: NOW)
        working = (Models(known), Versions(known), *serving, training, _monitors(), Workloads(ScriptedEngine()))
        loop = Loop(
            store, [*working, *(Acceptance(kind, known, *NOBODY) for kind in acceptance.KINDS)], now=lambda: NOW
        )
        refs = [(await store.create(Resource(kind, Meta("x"), BAD), "ann")).ref for kind in (*acceptance.KINDS, *OWN)]
        task = asyncio.create_task(loop.run())
        try:
            async with asyncio.timeout(60):
                for ref in refs:
                    await _eventually(partial(_refused, store, ref))
        finally:
            task.cancel()
            await asyncio.wait({task})
            await store.close()

    with caplog.at_level(logging.WARNING, "mizzen.reconcile"):
        asyncio.run(main())
    assert not caplog.records


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.005)


async def _refused(store: SqliteStore, ref: Ref) -> bool:
    resource = await store.get(ref)
    status = Status.of(resource)
    accepted = status.condition("Accepted")
    return accepted is not None and accepted.status == "False" and status.observed_generation == 1


SERVING = {
    "name": "serve", "type": "model-serving",
    "properties": {"predictors": [{"name": "default", "modelVersion": "iris:4"}]},
}  # fmt: skip
NAMING: dict[str, tuple[dict[str, Any], str]] = {
    "Application": ({"components": [SERVING]}, "component 'serve' needs iris version 4, which does not exist"),
    "RoleBinding": (
        {"subjects": ["ada"], "verbs": ["read"], "target": {"model": "iris"}}, "nothing is called 'iris' yet",
    ),
}  # fmt: skip


def test_what_a_spec_waits_for_is_told_until_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "RECHECK_SECONDS", 0.05)

    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
        known = Context(capabilities=frozenset({"containers"}))
        loop = Loop(
            store, [Acceptance(kind, known, store.identities, store.secrets) for kind in NAMING], now=lambda: NOW
        )
        refs = [(await store.create(Resource(kind, Meta("x"), NAMING[kind][0]), "ann")).ref for kind in NAMING]
        task = asyncio.create_task(loop.run())
        try:
            async with asyncio.timeout(60):
                for ref in refs:
                    await _eventually(partial(_says, store, ref, NAMING[ref.kind][1]))
                await _eventually(partial(_says, store, refs[-1], "there is no user 'ada' yet: mizzen user add ada"))
                await store.create(Resource("Model", Meta("iris"), model().spec), "ann")
                await store.create(Resource("ModelVersion", Meta("iris.4"), version("4").spec), "ann")
                await store.identities.add_principal(Principal("ada", NOW, "ann"))
                for ref in refs:
                    await _eventually(partial(_says, store, ref, ""))
        finally:
            task.cancel()
            await asyncio.wait({task})
            await store.close()

    asyncio.run(main())


async def _says(store: SqliteStore, ref: Ref, part: str) -> bool:
    """Accepted, with this in its message; without a word when it is empty."""
    accepted = Status.of(await store.get(ref)).condition("Accepted")
    if accepted is None or not accepted.true:
        return False
    return part in accepted.message if part else accepted.message == ""
