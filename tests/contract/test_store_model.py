"""Every store against the simplest thing that could keep the same promises: a dict and two lists."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mizzen.errors import AlreadyExists, Conflict, Expired, MizzenError, NotFound
from mizzen.kinds.meta import Meta, Ref, Resource
from mizzen.stores.store import Event, Store, Where
from tests.contract.stores import Opener, every_store, take

KEPT = 6

NAMES = st.sampled_from(["a", "b", "c"])
FINALIZERS = st.sampled_from([(), ("x/1",), ("x/1", "x/2"), ("x/2",)])
LABELS = st.sampled_from([{}, {"l": "1"}, {"l": "2", "m": "1"}])
SPECS = st.sampled_from([{}, {"n": 1}, {"n": 1.0}, {"n": True}, {"m": [1, {"b": 2}]}])


@dataclass(frozen=True)
class Simple:
    """What the model knows of an object."""

    name: str
    spec: dict[str, Any]
    labels: dict[str, str]
    finalizers: tuple[str, ...]
    status: dict[str, Any] = field(default_factory=dict)
    rv: int = 0
    generation: int = 1
    deleting: bool = False

    @classmethod
    def of(cls, resource: Resource) -> Simple:
        meta = resource.meta
        return cls(
            meta.name, dict(resource.spec), dict(meta.labels), meta.finalizers, dict(resource.status),
            int(meta.resource_version), meta.generation, resource.deleting,
        )  # fmt: skip

    def resource(self) -> Resource:
        meta = Meta(self.name, labels=self.labels, finalizers=self.finalizers, resource_version=str(self.rv or ""))
        return Resource("Model", meta, self.spec, self.status)


def exact(value: object) -> str:
    """Tells 1 from 1.0 and True, as JSON does."""
    return repr(value)


class Reference:
    def __init__(self) -> None:
        self.objects: dict[str, Simple] = {}
        self.events: list[tuple[str, Simple]] = []
        self.actions: dict[str, list[str]] = {"a": [], "b": [], "c": []}

    def create(self, new: Simple) -> None:
        if new.name in self.objects:
            raise AlreadyExists("")
        self._keep("ADDED", replace(new, generation=1, deleting=False))
        self.actions[new.name].append("created")

    def update(self, new: Simple) -> None:
        old = self._current(new)
        wanted = replace(old, spec=new.spec, labels=new.labels, finalizers=new.finalizers)
        if exact(wanted) == exact(old):
            return
        if old.deleting and set(new.finalizers) - set(old.finalizers):
            raise Conflict("")
        if exact(wanted.spec) != exact(old.spec):
            wanted = replace(wanted, generation=old.generation + 1)
            self.actions[new.name].append("updated")
        self._keep("DELETED" if old.deleting and not new.finalizers else "MODIFIED", wanted)

    def update_status(self, new: Simple, decision: str | None) -> None:
        old = self._current(new)
        if exact(old.status) == exact(new.status):
            return
        self._keep("MODIFIED", replace(old, status=new.status))
        if decision:
            self.actions[new.name].append(decision)

    def delete(self, name: str) -> None:
        if name not in self.objects:
            raise NotFound("")
        old = self.objects[name]
        if old.deleting:
            return
        self._keep("MODIFIED" if old.finalizers else "DELETED", replace(old, deleting=bool(old.finalizers)))
        self.actions[name].append("deleted")

    def _current(self, new: Simple) -> Simple:
        if new.name not in self.objects:
            raise NotFound("")
        if new.rv not in (0, self.objects[new.name].rv):
            raise Conflict("")
        return self.objects[new.name]

    def _keep(self, type_: str, new: Simple) -> None:
        new = replace(new, rv=len(self.events) + 1)
        self.events.append((type_, new))
        if type_ == "DELETED":
            del self.objects[new.name]
        else:
            self.objects[new.name] = new


class Machine(RuleBasedStateMachine):
    opener: Opener

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.store: Store = self.runner.run(self.opener(Path(self.folder.name), keep_events=KEPT))
        self.reference = Reference()

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    @rule(name=NAMES, spec=SPECS, labels=LABELS, finalizers=FINALIZERS)
    def create(self, name: str, spec: dict[str, Any], labels: dict[str, str], finalizers: tuple[str, ...]) -> None:
        new = Simple(name, spec, labels, finalizers)
        self._both(lambda: self.reference.create(new), lambda: self.store.create(new.resource(), "ann"))

    @rule(name=NAMES, spec=SPECS, labels=LABELS, finalizers=FINALIZERS, stale=st.sampled_from([0, 1, None]))
    def update(
        self, name: str, spec: dict[str, Any], labels: dict[str, str], finalizers: tuple[str, ...], stale: int | None
    ) -> None:
        new = Simple(name, spec, labels, finalizers, rv=self._version(name, stale))
        self._both(lambda: self.reference.update(new), lambda: self.store.update(new.resource(), "ann"))

    @rule(name=NAMES)
    def take_off_a_finalizer(self, name: str) -> None:
        if name in self.reference.objects:
            old = self.reference.objects[name]
            new = replace(old, finalizers=old.finalizers[1:])
            self._both(lambda: self.reference.update(new), lambda: self.store.update(new.resource(), "ann"))

    @rule(name=NAMES, status=SPECS, decision=st.sampled_from([None, "promoted"]), stale=st.sampled_from([0, 1, None]))
    def update_status(self, name: str, status: dict[str, Any], decision: str | None, stale: int | None) -> None:
        new = Simple(name, {}, {}, (), status, rv=self._version(name, stale))
        self._both(
            lambda: self.reference.update_status(new, decision),
            lambda: self.store.update_status(new.resource(), "ann", decision=decision),
        )

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self._both(lambda: self.reference.delete(name), lambda: self.store.delete(Ref("Model", name), "ann"))

    @rule(back=st.integers(0, KEPT + 2), kind=st.sampled_from(["Model", None]))
    def resume_a_watch(self, back: int, kind: str | None) -> None:
        since = max(0, len(self.reference.events) - back)
        rest = self.reference.events[since:]

        async def read() -> list[Event]:
            watch = cast("AsyncGenerator[Event, None]", self.store.watch(kind, str(since)))
            async with aclosing(watch):
                return await take(watch, len(rest))

        if not rest:
            return
        if len(rest) > KEPT:
            with pytest.raises(Expired):
                self.runner.run(read())
        else:
            assert exact([(event.type, Simple.of(event.resource)) for event in self.runner.run(read())]) == exact(rest)

    @rule(limit=st.integers(1, 3), labels=LABELS)
    def list_in_pages(self, limit: int, labels: dict[str, str]) -> None:
        async def read() -> list[Resource]:
            page = await self.store.list("Model", Where(labels=labels), limit=limit)
            items = [*page.items]
            while page.next:
                page = await self.store.list("Model", Where(labels=labels), limit=limit, after=page.next)
                items += page.items
            return items

        expected = [one for _, one in sorted(self.reference.objects.items()) if labels.items() <= one.labels.items()]
        assert exact([Simple.of(item) for item in self.runner.run(read())]) == exact(expected)

    @rule(name=NAMES)
    def read_history(self, name: str) -> None:
        history = self.runner.run(self.store.history(Ref("Model", name)))
        assert [revision.action for revision in history] == self.reference.actions[name]
        assert [revision.number for revision in history] == [i + 1 for i in range(len(history))]

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.runner.run(self.opener(Path(self.folder.name), keep_events=KEPT))

    @invariant()
    def the_present_agrees(self) -> None:
        listing = self.runner.run(self.store.list("Model"))
        expected = [one for _, one in sorted(self.reference.objects.items())]
        assert listing.resource_version == str(len(self.reference.events))
        assert exact([Simple.of(item) for item in listing.items]) == exact(expected)

    def _version(self, name: str, stale: int | None) -> int:
        """The stored version, one that is older by `stale`, or (None) no version at all."""
        if stale is None or name not in self.reference.objects:
            return 0
        return max(0, self.reference.objects[name].rv - stale)

    def _both(self, expected: Any, actual: Any) -> None:
        """Both do the same: the same refusal, or none."""

        async def act() -> None:
            await actual()

        refusal: type[MizzenError] | None = None
        try:
            expected()
        except MizzenError as error:
            refusal = type(error)
        if refusal is None:
            self.runner.run(act())
        else:
            with pytest.raises(refusal):
                self.runner.run(act())


@every_store
def test_a_store_agrees_with_the_reference(opener: Opener) -> None:
    machine = type("StoreMachine", (Machine,), {"opener": staticmethod(opener)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
