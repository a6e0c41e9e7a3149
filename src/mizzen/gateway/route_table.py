"""Which URL stands for what: the lookup that a Table is turned into. Never changed, only replaced whole."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from mizzen.access.policy import Target
from mizzen.errors import NotFound, Unavailable
from mizzen.gateway.cache.cached_queue import Cached
from mizzen.gateway.inference.calls import Call
from mizzen.gateway.inference.default_outputs import Default
from mizzen.gateway.inference.protocols import V2, Dialect
from mizzen.gateway.inference.response_parameters import Notes
from mizzen.gateway.inference.signature import Hello
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry.metrics import Counters
from mizzen.graph import table_types
from mizzen.protocol.v2 import cited

DEFAULT_NAMESPACE = "default"


class Bound(Protocol):
    """A graph whose nodes know what they call."""

    @property
    def graph(self) -> table_types.Graph: ...

    @property
    def ready(self) -> bool:
        """Each node can be called now."""

    @property
    def callable(self) -> bool:
        """Each node can be called, now or when a replica was started for it."""

    @property
    def reason(self) -> str:
        """Why a request would have to wait, or cannot be answered; empty when neither."""

    @property
    def hello(self) -> Hello | None:
        """What it takes and gives, as far as what it calls has said."""

    def rouse(self, now: float) -> None: ...

    def may_hold(self, now: float) -> bool: ...


@dataclass(slots=True, eq=False)
class Endpoint:
    """One callable name and version: what a URL stands for."""

    namespace: str
    name: str
    version: str
    asked_version: str | None
    """The version or alias in the URL, if there is one."""
    target: Target
    """What it is for the policy."""
    queues: tuple[Queue, ...]
    submit: Callable[[Call], None]
    timeout: float
    head: bytes
    """The start of every answer's body."""
    counters: Counters
    new_id: Callable[[], bytes]
    """What a request is called whose caller does not say: for those who keep records, where its record will be."""
    dialect: Dialect = V2
    unserved: str = ""
    """Where nothing serves it and nothing is about to: so, with what would."""
    cache: Cached | None = None
    """Where bodies may be known that need not be read; only of V2, and where one server answers."""
    default: Default | None = None
    """What is answered when nobody answers."""
    notes: Notes | None = None
    """What is told and noted with each answer; a graph says it for each by itself."""
    bound: Bound | None = None
    """Where it is a graph."""
    kept: table_types.Kept | None = None
    """Records are kept, so that feedback finds what answered."""

    @property
    def graph(self) -> table_types.Graph | None:
        return None if self.bound is None else self.bound.graph

    @property
    def hello(self) -> Hello | None:
        if self.bound is not None:
            return self.bound.hello
        return next((queue.hello for queue in self.queues if queue.hello is not None), None)

    @property
    def ready(self) -> bool:
        if self.bound is not None:
            return self.bound.ready
        return any(queue.ready for queue in self.queues)

    @property
    def callable(self) -> bool:
        """Who asks is answered: at once, or when a replica was started for them."""
        if self.bound is not None:
            return self.bound.callable
        return self.ready or any(queue.server.wakes for queue in self.queues)

    @property
    def reason(self) -> str:
        """Why they would have to wait; empty when they would not."""
        if self.bound is not None:
            return self.bound.reason
        return "" if self.ready else next((queue.server.phase for queue in self.queues if queue.server.wakes), "")

    def rouse(self, now: float) -> None:
        """Somebody asks for what only a replica can tell."""
        if self.bound is not None:
            self.bound.rouse(now)
        elif not self.ready:
            for queue in self.queues:
                queue.rouse(now)

    def spoken(self, dialect: Dialect) -> Endpoint:
        """The same for those who ask in another protocol."""
        return replace(self, dialect=dialect, cache=None)

    def may_hold(self, now: float) -> bool:
        if self.bound is not None:
            return self.bound.may_hold(now)
        return any(queue.may_hold(now) for queue in self.queues)


@dataclass(slots=True, eq=False)
class Name:
    """One callable name."""

    current: Endpoint
    versions: dict[str, Endpoint]
    aliases: dict[str, Endpoint] = field(default_factory=dict)

    def asked(self, version: str | None, *, label: bool = False) -> Endpoint | None:
        """What this version, or alias, in a URL stands for; None: nothing. With `label` it can only be an alias."""
        if version is None:
            return self.current
        return (None if label else self.versions.get(version)) or self.aliases.get(version)


@dataclass(slots=True, eq=False)
class Routes:
    hot: dict[bytes, Endpoint] = field(default_factory=dict)
    """Infer URLs, byte for byte as a client writes them."""
    names: dict[tuple[str, str], Name] = field(default_factory=dict)
    """By namespace and name."""
    heard: frozenset[bytes] = frozenset()
    """Headers that graphs listen to, or send on, in lower case."""
    from_table: bool = True
    """False before the first good Table: what is not here may still be served."""

    def name(self, namespace: str, name: str) -> Name:
        found = self.names.get((namespace, name))
        if found is not None:
            return found
        if not self.from_table:
            raise Unavailable("the table cannot be read yet")
        place = "" if namespace == DEFAULT_NAMESPACE else f" in namespace '{cited(namespace)}'"
        known = [known for space, known in self.names if space == namespace]
        raise NotFound(f"no model '{cited(name)}'{place}{_did_you_mean(cited(name), known)}")

    def find(self, namespace: str, name: str, version: str | None, *, label: bool = False) -> Endpoint:
        """NotFound names what is missing, and what may have been meant. Unavailable before the first Table."""
        found = self.name(namespace, name)
        endpoint = found.asked(version, label=label)
        if endpoint is None:
            known = [*([] if label else found.versions), *found.aliases]
            given = cited(version or "")
            what = f"label '{given}' of '{name}' is known" if label else f"version '{given}' of '{name}' is served"
            raise NotFound(f"no {what}{_did_you_mean(given, known)}")
        return endpoint

    def target(self, namespace: str, name: str, version: str | None = None, *, label: bool = False) -> Target:
        """What a URL asks for, as the policy sees it: also when nothing of that name is served."""
        found = self.names.get((namespace, name))
        endpoint = None if found is None else found.asked(version, label=label)
        if endpoint is not None:
            return endpoint.target
        models = frozenset({name}) if found is None else found.current.target.models
        return Target(namespace, "Model", name, models=models, alias=version or "")


def _did_you_mean(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
