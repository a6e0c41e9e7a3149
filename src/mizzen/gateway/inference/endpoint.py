"""Endpoints, calls of them, and the codec that reads the body of a call and writes its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from mizzen.access.policy import Target
from mizzen.gateway.cache.cached_queue import CachedQueue
from mizzen.gateway.inference.default_outputs import DefaultOutput
from mizzen.gateway.inference.response_parameters import Members, ResponseParameters
from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.signature import Hello
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.telemetry.counters import Counters
from mizzen.graph import table_types


class Codec(Protocol):
    """One protocol. It has no state: everything about a request is in its call."""

    def read(self, call: InferenceCall, body: bytes, head: RequestHead) -> None:
        """Fill in `item`, `id`, `seconds` and `plain`."""

    def answer(self, call: InferenceCall, payload: bytes) -> tuple[bytes, bytes]:
        """The body and the header lines of an answer that is not `plain`."""

    def default(self, call: InferenceCall, default: DefaultOutput, why: bytes) -> tuple[bytes, bytes] | None:
        """Body and header lines of the default output for its `item`; None if an output is missing."""


class CallableGraph(Protocol):
    """A graph whose nodes are bound to what they call (`graphs.bound_graph`)."""

    @property
    def graph(self) -> table_types.CompiledGraph: ...

    @property
    def ready(self) -> bool:
        """Whether each node can be called now."""

    @property
    def callable(self) -> bool:
        """Whether each node can be called now, or once a replica was started for it."""

    @property
    def reason(self) -> str:
        """Why a request would wait or fail; empty if it would not."""

    @property
    def hello(self) -> Hello | None:
        """Its inputs and outputs, as far as the models that it calls have declared them."""

    def request_replica(self, now: float) -> None: ...

    def may_hold(self, now: float) -> bool: ...


@dataclass(slots=True, eq=False)
class Endpoint:
    """One callable name and version: the target of a URL."""

    namespace: str
    name: str
    version: str
    asked_version: str | None
    """The version or alias in the URL, if there is one."""
    target: Target
    """The object that the access policy checks."""
    queues: tuple[Queue, ...]
    submit: Callable[[Call], None]
    timeout: float
    response_prefix: bytes
    """The start of the body of every V2 answer."""
    counters: Counters
    new_id: Callable[[], bytes]
    """The id of a request without one. If records are kept, the id says where the record will be."""
    codec: Codec
    unserved: str = ""
    """The error message if nothing serves it or is about to; it names the command that would."""
    cache: CachedQueue | None = None
    """The cache that may know a body without reading it; only for V2, and if a single server answers."""
    default: DefaultOutput | None = None
    """The default output, if there is one."""
    notes: ResponseParameters | None = None
    """Parameters of every answer, and its record; a graph sets them per call."""
    bound: CallableGraph | None = None
    """The graph, if it is one."""
    kept: table_types.RecordLimits | None = None
    """Limits of the records that are kept for feedback; None: no records."""

    @property
    def graph(self) -> table_types.CompiledGraph | None:
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
        """Whether a request would be answered: at once, or once a replica was started for it."""
        if self.bound is not None:
            return self.bound.callable
        return self.ready or any(queue.server.wakes for queue in self.queues)

    @property
    def reason(self) -> str:
        """Why a request would have to wait; empty if it would not."""
        if self.bound is not None:
            return self.bound.reason
        return "" if self.ready else next((queue.server.phase for queue in self.queues if queue.server.wakes), "")

    def request_replica(self, now: float) -> None:
        """A caller asked for something that only a replica knows: start one if there is none."""
        if self.bound is not None:
            self.bound.request_replica(now)
        elif not self.ready:
            for queue in self.queues:
                queue.request_replica(now)

    def with_codec(self, codec: Codec) -> Endpoint:
        """The same endpoint for another protocol."""
        return replace(self, codec=codec, cache=None)

    def may_hold(self, now: float) -> bool:
        if self.bound is not None:
            return self.bound.may_hold(now)
        return any(queue.may_hold(now) for queue in self.queues)


class Work(Protocol):
    """Work for a call outside of a queue, such as a run through a graph."""

    def abandon(self) -> None:
        """The call has ended: drop the result."""


class NamedCall(Call):
    """A call of an endpoint by its name. It can move to another endpoint that gets the same name."""

    __slots__ = ("endpoint", "work")

    endpoint: Endpoint
    work: Work | None
    """The run through the graph, if the endpoint is a graph."""

    def move(self, endpoint: Endpoint) -> None:
        """Its endpoint is no longer served, but its name is: go to the new endpoint."""
        raise NotImplementedError


class InferenceCall(NamedCall):
    """All data of one inference request. A Codec fills in what the body says, and writes the answer."""

    __slots__ = ("codec", "id_json", "members", "named", "node_calls", "notes", "plain", "seconds", "user")

    def reset(self, endpoint: Endpoint, head: RequestHead, size: int, began: float) -> None:
        """Set every field, also those of the base classes, for a request whose body is not read yet."""
        self.endpoint = endpoint
        self.codec = endpoint.codec
        self.head = head
        self.size = size
        self.began = self.deadline = began
        self.seconds = endpoint.timeout
        """How long it may take."""
        self.pending = True
        self.retry_alone = False
        self.work = None
        self.item = None
        self.id = self.id_json = b""
        self.named = True
        """The caller gave the request an id."""
        self.plain = False
        """The answer is V2 in JSON, as nearly always: then no codec is needed to write it."""
        self.user = ""
        """The end user, if a graph may choose by it."""
        self.notes: ResponseParameters | None = endpoint.notes
        """Parameters of the answer, and its record."""
        self.members: Members = ()
        """The answers that an ensemble combined, if records are kept."""
        self.node_calls = 0
        """The number of calls made for it, in nested graphs too."""

    def end_early(self, head: RequestHead, id_: bytes, size: int, now: float) -> None:
        """Set the fields that are read of a request that ends at once: it was refused, or its answer was known."""
        self.pending = False
        self.head = head
        self.id = id_
        self.size = size
        self.began = now
