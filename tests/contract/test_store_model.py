"""Every store against the simplest thing that could keep the same promises: a dict and two lists."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mizzen.errors import AlreadyExists, Conflict, Expired, MizzenError, NotFound
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.text import selectors
from mizzen.kinds.text.selectors import Selector
from mizzen.stores.store import Event, Where
from tests.contract.stores import INSPECTIONS, OPENERS, Home, Inspection, Opener, every_store, take, watching
from tests.support.examples import examples

KEPT = 6

NAMES = st.sampled_from(["a", "b", "c"])
FINALIZERS = st.sampled_from([(), ("x/1",), ("x/1", "x/2"), ("x/2",)])
LABELS = st.sampled_from([{}, {"l": "1"}, {"l": "2", "m": "1"}])
SPECS = st.sampled_from(
    [{}, {"n": 1}, {"n": 1.0}, {"n": True}, {"m": [1, {"b": 2}]}, {"aliasOf": "x"}, {"aliasOf": "y"}, {"aliasOf": 1}]
)
SELECTORS = st.sampled_from(
    [selectors.parse(text) for text in ("", "l=1", "l=2, m=1", "l in (1, 2)", "l notin (1)", "m", "!m", "l=1, l!=2")]
)
FIELDS = st.sampled_from([{}, {}, {"spec.aliasOf": "x"}, {"metadata.name": "a"}, {"metadata.namespace": "default"}])


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

    def selected(self, selector: Selector, fields: dict[str, str]) -> bool:
        known = {"metadata.name": self.name, "metadata.namespace": "default", "spec.aliasOf": self.spec.get("aliasOf")}
        return selectors.holds(selector, self.labels) and fields.items() <= known.items()


def exact(value: object) -> str:
    """Tells 1 from 1.0 and True, as JSON does."""
    return repr(value)


class Reference:
    def __init__(self) -> None:
        self.objects: dict[str, Simple] = {}
        self.events: list[tuple[str, Simple]] = []
        self.actions: dict[str, list[tuple[int, str]]] = {"a": [], "b": [], "c": []}
        """Of each name, the versions and words of its history."""

    def create(self, new: Simple) -> None:
        if new.name in self.objects:
            raise AlreadyExists("")
        self._keep("ADDED", replace(new, generation=1, deleting=False), "created")

    def update(self, new: Simple) -> None:
        old = self._current(new)
        wanted = replace(old, spec=new.spec, labels=new.labels, finalizers=new.finalizers)
        if exact(wanted) == exact(old):
            return
        if old.deleting and set(new.finalizers) - set(old.finalizers):
            raise Conflict("")
        action = None
        if exact(wanted.spec) != exact(old.spec):
            wanted = replace(wanted, generation=old.generation + 1)
            action = "updated"
        self._keep("DELETED" if old.deleting and not new.finalizers else "MODIFIED", wanted, action)

    def update_status(self, new: Simple, decision: str | None) -> None:
        old = self._current(new)
        if exact(old.status) != exact(new.status):
            self._keep("MODIFIED", replace(old, status=new.status), decision)

    def delete(self, name: str) -> None:
        if name not in self.objects:
            raise NotFound("")
        old = self.objects[name]
        if old.deleting:
            return
        type_ = "MODIFIED" if old.finalizers else "DELETED"
        self._keep(type_, replace(old, deleting=bool(old.finalizers)), "deleted")

    def history(self) -> list[tuple[str, int, int, str]]:
        """Of all names: name, number, version, word."""
        return [
            (name, number, version, action)
            for name, actions in sorted(self.actions.items())
            for number, (version, action) in enumerate(actions, start=1)
        ]

    def _current(self, new: Simple) -> Simple:
        if new.name not in self.objects:
            raise NotFound("")
        if new.rv not in (0, self.objects[new.name].rv):
            raise Conflict("")
        return self.objects[new.name]

    def _keep(self, type_: str, new: Simple, action: str | None) -> None:
        new = replace(new, rv=len(self.events) + 1)
        self.events.append((type_, new))
        if action:
            self.actions[new.name].append((new.rv, action))
        if type_ == "DELETED":
            del self.objects[new.name]
        else:
            self.objects[new.name] = new


class Machine(RuleBasedStateMachine):
    opener: Opener
    inspect: Inspection

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.store: Home = self.runner.run(self.opener(Path(self.folder.name), keep_events=KEPT))
        self.reference = Reference()
        self.unique = itertools.count()
        self.followed: AsyncGenerator[Event, None] | None = None
        self.seen = 0

    def teardown(self) -> None:
        self._stop_following()
        self.runner.run(self.store.close())
        self.inspect(Path(self.folder.name))
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

    @rule(name=NAMES, writers=st.integers(2, 5), labels=LABELS)
    def write_at_the_same_moment(self, name: str, writers: int, labels: dict[str, str]) -> None:
        """Each from what is there now, or to make it: exactly one of them succeeds, whichever it is."""
        old = self.reference.objects.get(name)
        base = old or Simple(name, {}, labels, ())
        wanted = [replace(base, labels=labels, spec={"aliasOf": f"u{next(self.unique)}"}) for _ in range(writers)]
        write = self.store.create if old is None else self.store.update

        async def race() -> list[Resource | BaseException]:
            return await asyncio.gather(*(write(one.resource(), "ann") for one in wanted), return_exceptions=True)

        results = self.runner.run(race())
        [winner] = [i for i, result in enumerate(results) if isinstance(result, Resource)]
        refusal = AlreadyExists if old is None else Conflict
        assert all(isinstance(result, refusal) for i, result in enumerate(results) if i != winner)
        if old is None:
            self.reference.create(wanted[winner])
        else:
            self.reference.update(wanted[winner])

    @rule(back=st.integers(0, KEPT + 2), kind=st.sampled_from(["Model", None]))
    def resume_a_watch(self, back: int, kind: str | None) -> None:
        since = max(0, len(self.reference.events) - back)
        rest = self.reference.events[since:]

        async def read() -> list[Event]:
            async with aclosing(watching(self.store, kind, str(since))) as watch:
                return await take(watch, len(rest))

        if not rest:
            return
        if len(rest) > KEPT:
            with pytest.raises(Expired):
                self.runner.run(read())
        else:
            assert exact([(event.type, Simple.of(event.resource)) for event in self.runner.run(read())]) == exact(rest)

    @rule()
    def follow(self) -> None:
        """One watch goes on over many writes: nothing is missing, unless it was too slow and is told so."""
        if self.followed is None:
            self.seen = max(0, len(self.reference.events) - KEPT)
            self.followed = watching(self.store, "Model", str(self.seen))
        rest = self.reference.events[self.seen :]
        watch, got = self.followed, list[Event]()

        async def read() -> None:
            for _ in rest:
                got.extend(await take(watch, 1))

        try:
            self.runner.run(read())
        except Expired:
            assert len(rest) - len(got) > KEPT
            self.followed = None
        found = [(event.type, Simple.of(event.resource)) for event in got]
        assert exact(found) == exact(rest[: len(got)])
        self.seen += len(got)

    @rule(back=st.integers(0, 40))
    def watch_history(self, back: int) -> None:
        since = max(0, len(self.reference.events) - back)
        wanted = sorted((version, f"model.{name}.{number}") for name, number, version, _ in self.reference.history())
        rest = [one for one in wanted if one[0] > since]

        async def read() -> list[Event]:
            async with aclosing(watching(self.store, "Revision", str(since))) as watch:
                return await take(watch, len(rest))

        events = self.runner.run(read()) if rest else []
        assert [(int(event.resource.meta.resource_version), event.resource.meta.name) for event in events] == rest

    @rule(limit=st.integers(1, 3), selector=SELECTORS, fields=FIELDS)
    def list_in_pages(self, limit: int, selector: Selector, fields: dict[str, str]) -> None:
        found = self.runner.run(self._pages("Model", Where(labels=selector, fields=fields), limit))
        expected = [one for _, one in sorted(self.reference.objects.items()) if one.selected(selector, fields)]
        assert exact([Simple.of(item) for item in found]) == exact(expected)

    @rule(limit=st.integers(1, 5), name=st.one_of(st.none(), NAMES), by=st.sampled_from(["spec.name", "spec.model"]))
    def list_history_in_pages(self, limit: int, name: str | None, by: str) -> None:
        where = Where() if name is None else Where(fields={by: name})
        found = self.runner.run(self._pages("Revision", where, limit))
        assert [
            (one.spec["name"], one.spec["number"], int(one.meta.resource_version), one.spec["action"]) for one in found
        ] == [one for one in self.reference.history() if name in (None, one[0])]

    @rule(name=NAMES)
    def read_history(self, name: str) -> None:
        history = self.runner.run(self.store.history(Ref("Model", name)))
        assert [revision.action for revision in history] == [word for _, word in self.reference.actions[name]]
        assert [revision.number for revision in history] == [i + 1 for i in range(len(history))]
        assert self.runner.run(self.store.family_history(Ref("Model", name))) == (history, None)

    @rule()
    def restart(self) -> None:
        self._stop_following()
        self.runner.run(self.store.close())
        self.store = self.runner.run(self.opener(Path(self.folder.name), keep_events=KEPT))

    @invariant()
    def the_present_agrees(self) -> None:
        listing = self.runner.run(self.store.list("Model"))
        expected = [one for _, one in sorted(self.reference.objects.items())]
        assert listing.resource_version == str(len(self.reference.events))
        assert exact([Simple.of(item) for item in listing.items]) == exact(expected)
        assert self.store.position("Model") == listing.resource_version

    async def _pages(self, kind: str, where: Where, limit: int) -> list[Resource]:
        page = await self.store.list(kind, where, limit=limit)
        items = [*page.items]
        while page.next:
            page = await self.store.list(kind, where, limit=limit, after=page.next)
            items += page.items
        return items

    def _stop_following(self) -> None:
        if self.followed is not None:
            self.runner.run(self.followed.aclose())
            self.followed = None

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


@pytest.mark.hypothesis  # so that `make test-properties` finds it
@every_store
def test_a_store_agrees_with_the_reference(opener: Opener) -> None:
    [name] = [name for name, one in OPENERS.items() if one is opener]
    members = {"opener": staticmethod(opener), "inspect": staticmethod(INSPECTIONS[name])}
    run_state_machine_as_test(
        type("StoreMachine", (Machine,), members),
        settings=settings(
            max_examples=examples(30), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
