"""Graphs over a store, with the loop that runs controllers: who is woken by what, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.facts import NoProber, ProbeRequest, ProbeResult
from mizzen.controllers.graphs.metadata_propagation import PROPAGATED
from mizzen.controllers.workloads import Workloads
from mizzen.kinds.graph.spec import MLGraphStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.loop import Loop
from mizzen.stores.store import Store
from tests.support.controllers.graphs import container, custom
from tests.support.controllers.objects import NOW, inference_model, model, ready
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore
from tests.unit.controllers.engine import ScriptedEngine
from tests.unit.kinds.graphs import dag, node

G = Ref("MLGraph", "g")


class Machine:
    def __init__(self, graphs: Graphs | None = None) -> None:
        self.store = MemoryStore()
        self.engine = ScriptedEngine()
        self.graphs = graphs or Graphs("http://x", Context())
        self.loop = Loop[Store](self.store, [self.graphs, Workloads(self.engine)], now=lambda: NOW)

    async def apply(self, spec: dict[str, Any], name: str = "g", **meta: Any) -> None:
        ref = Ref("MLGraph", name)
        if ref in self.store.objects:
            there = await self.store.get(ref)
            await self.store.update(replace(there, spec=spec, meta=replace(there.meta, **meta)), "ann")
        else:
            await self.store.create(Resource("MLGraph", Meta(name, **meta), spec), "ann")
        await self.rest()

    async def put(self, resource: Resource) -> None:
        stored = await self.store.create(resource, "ann")
        await self.store.update_status(replace(stored, status=resource.status), "ann")
        await self.rest()

    async def rest(self) -> None:
        await asyncio.sleep(5)

    def status(self, name: str = "g") -> MLGraphStatus:
        return MLGraphStatus.of(self.store.objects[Ref("MLGraph", name)])

    def reasons(self, name: str = "g") -> list[str]:
        return [one.reason for one in self.status(name).nodes]

    def accepted(self, name: str = "g") -> str:
        found = self.status(name).condition("Accepted")
        assert found is not None
        return found.reason

    def workloads(self) -> list[Resource]:
        return [one for ref, one in sorted(self.store.objects.items()) if ref.kind == "Workload"]


@contextlib.asynccontextmanager
async def running(graphs: Graphs | None = None) -> AsyncIterator[Machine]:
    machine = Machine(graphs)
    task = asyncio.create_task(machine.loop.run())
    try:
        yield machine
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def calling(name: str) -> dict[str, Any]:
    return dag(node("n", implementation={"kfservice": name}))


def served(command: str = "one", **fields: Any) -> dict[str, Any]:
    return dag({"name": "c"}, custom=custom(container(command=[command])), **fields)


def test_what_is_called_wakes_the_graph_when_it_comes_changes_and_goes() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(calling("iris"))
            assert machine.reasons() == ["nothing called 'iris' is served here"]
            await machine.put(model("iris", current="1"))
            assert machine.reasons() == ["version 1 of 'iris' is not served"]
            await machine.put(inference_model("a", serving="1", ready=ready()))
            assert machine.reasons() == [""]
            assert machine.status().phase == "Running"
            there = await machine.store.get(Ref("Model", "iris"))
            await machine.store.update_status(replace(there, status=model("iris", current="2").status), "ann")
            await machine.rest()
            assert machine.reasons() == ["version 2 of 'iris' is not served"]
            await machine.store.delete(Ref("Model", "iris"), "ann")
            await machine.rest()
            assert machine.reasons() == ["nothing called 'iris' is served here"]
            assert machine.status().phase == "Pending"

    virtual.run(main())


def test_second_names_are_followed() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.put(replace(model("flower"), status={"aliasOf": "iris"}))
            await machine.apply(calling("flower"))
            await machine.put(model("iris", current="1"))
            await machine.put(inference_model("a", serving="1", ready=ready()))
            assert machine.reasons() == [""]

    virtual.run(main())


def test_graphs_within_graphs() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(calling("middle"), "outer")
            await machine.apply(calling("s"), "middle")
            assert machine.reasons("outer") == ["'middle' is not ready: node 'n': nothing called 's' is served here"]
            await machine.put(inference_model("s", serving="1", ready=ready()))
            assert machine.reasons("outer") == [""]
            # The innermost now calls the outermost. What answers goes on: none of it is a cycle.
            await machine.apply(calling("outer"), "middle")
            assert [machine.accepted(name) for name in ("outer", "middle")] == ["GraphCycle"] * 2
            serving = machine.status("middle").serving
            assert serving is not None
            assert serving.spec == calling("s")
            assert [machine.status(name).phase for name in ("outer", "middle")] == ["Running"] * 2
            await machine.apply(calling("s"), "middle")
            assert [machine.accepted(name) for name in ("outer", "middle")] == ["Accepted"] * 2

    virtual.run(main())


def test_of_two_that_come_to_call_each_other_at_most_one_answers_so() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(calling("b"), "a")
            await machine.apply(calling("c"), "b")
            await machine.apply(calling("a"), "c")
            assert [machine.accepted(name) for name in "abc"] == ["GraphCycle"] * 3
            assert machine.status("c").serving is None
            await machine.store.delete(Ref("MLGraph", "b"), "ann")
            await machine.rest()
            assert [machine.accepted(name) for name in "ac"] == ["Accepted"] * 2

    virtual.run(main())


def test_a_container_runs_with_the_graph_and_goes_with_it() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(served(), labels={"team": "a"})
            [workload] = machine.workloads()
            assert (workload.meta.name, workload.spec["command"]) == ("g.c", ["one"])
            assert [owner.name for owner in workload.meta.owners] == ["g"]
            machine.engine.happen("ready", ["g.c"], only=frozenset({"starting"}))
            await machine.rest()
            assert machine.status().phase == "Running"
            before = dict(machine.engine.running)
            # A label changes; nothing is started again, and somebody else's label stays.
            there = await machine.store.get(workload.ref)
            theirs = replace(there.meta, labels={**there.meta.labels, "theirs": "x"})
            await machine.store.update(replace(there, meta=theirs), "bob")
            await machine.apply(served(), labels={"tier": "1"})
            [now] = machine.workloads()
            assert now.meta.labels == {MODEL_LABEL: "g", "tier": "1", "theirs": "x"}
            assert (now.meta.uid, now.meta.generation) == (workload.meta.uid, workload.meta.generation)
            assert machine.engine.running == before
            await machine.apply(served(), labels={})
            [now] = machine.workloads()
            assert now.meta.labels == {MODEL_LABEL: "g", "theirs": "x"}
            assert PROPAGATED not in now.meta.annotations
            await machine.store.delete(G, "ann")
            await machine.rest()
            assert machine.store.objects == {}
            assert machine.engine.running == {}

    virtual.run(main())


def test_a_new_spec_takes_over_and_the_old_container_ends() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(served(timeoutMs=1000))
            machine.engine.happen("ready", ["g.c"], only=frozenset({"starting"}))
            await machine.rest()
            await machine.apply(served("two"))
            serving = machine.status().serving
            assert serving is not None
            assert (serving.generation, len(machine.workloads())) == (1, 2)
            machine.engine.happen("ready", ["g.c"], only=frozenset({"starting"}))
            await machine.rest()
            serving = machine.status().serving
            assert serving is not None
            assert serving.generation == 2
            assert len(machine.workloads()) == 2, "time stands still in what decisions are told"

    virtual.run(main())


def test_a_write_of_the_same_changes_nothing() -> None:
    async def main() -> None:
        async with running() as machine:
            await machine.apply(served())
            machine.engine.happen("ready", ["g.c"], only=frozenset({"starting"}))
            await machine.rest()
            before = machine.store.version
            machine.loop.enqueue(G)
            await machine.rest()
            assert machine.store.version == before

    virtual.run(main())


class Watching(NoProber):
    def __init__(self) -> None:
        self.asked: list[tuple[list[str], dict[str, Any]]] = []
        self.forgotten: list[Ref] = []

    def probe(self, graph: Resource, questions: Any, known: Any) -> dict[str, ProbeResult]:
        assert all(isinstance(one, ProbeRequest) for one in questions.values())
        self.asked.append((list(questions), dict(known)))
        return dict(super().probe(graph, questions, known))

    def forget(self, ref: Ref) -> None:
        self.forgotten.append(ref)


def test_services_are_asked_for_accepted_specs_only_and_once_for_each() -> None:
    async def main() -> None:
        probing = Watching()
        async with running(Graphs("http://x", Context(), prober=probing)) as machine:
            await machine.apply(dag(node("a", "b", implementation={"svc": "one"})))
            assert probing.asked == []
            assert probing.forgotten
            await machine.apply(dag(node("a", implementation={"svc": "one"})))
            assert probing.asked[0] == (["one"], {})
            assert set(map(str, probing.asked[1:])) <= {str((["one"], {"one": "v2"}))}, "it is known from its status"
            await machine.apply(dag(node("a", implementation={"svc": "two"})))
            assert (["two"], {}) in probing.asked
            probing.forgotten.clear()
            await machine.store.delete(G, "ann")
            await machine.rest()
            assert probing.forgotten

    virtual.run(main())


class Told:
    """Gateways that know what they are told to."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def reaches(self, addresses: Any) -> bool:
        return any(address in self.known for address in addresses)

    def has_left(self, addresses: Any) -> bool:
        return self.known.isdisjoint(addresses)


def test_a_graph_is_ready_when_gateways_know_it_and_all_that_runs_for_it() -> None:
    async def main() -> None:
        traffic = Told()
        async with running(Graphs("http://x", Context(), traffic=traffic)) as machine:
            await machine.apply(served())
            machine.engine.happen("ready", ["g.c"], only=frozenset({"starting"}))
            await machine.rest()
            assert [(one.type, one.reason) for one in machine.status().conditions][-1] == ("Ready", "Routing")
            [workload] = machine.workloads()
            uid = machine.store.objects[G].meta.uid
            traffic.known |= {f"graph:{uid}@1"}
            await machine.rest()
            assert not machine.status().is_true("Ready")
            traffic.known |= {f"unix:/{workload.meta.uid}.0"}
            await machine.rest()
            assert machine.status().is_true("Ready")

    virtual.run(main())
