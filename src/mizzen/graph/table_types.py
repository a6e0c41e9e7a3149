"""Plan and Table: the compiled form of all resources, and everything a gateway needs to answer requests.

The plane writes a Table as an immutable JSON file (write, then rename). Gateways read it and keep serving the last good
one; they can start from it while the plane is down. Server ids are `<namespace>/<InferenceModel name>`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FORMAT = 1


class Server(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One served version: the replicas behind one queue."""

    id: str
    model: str
    version: str
    addresses: tuple[str, ...]
    """`unix:<path>` of each existing or expected replica: a gateway keeps retrying those that do not answer."""
    files: str = ""
    """Digest of the version's files. A replica whose hello names other files does not serve this version. Empty on
    either side: unknown, and not compared."""
    batch_size: int = 64
    """Maximum number of requests per batch."""
    batch_auto: bool = False
    """The gateway finds the batch size, up to `batch_size`, that the model answers well within `timeout_ms`."""
    batch_wait: float = 0.0
    """Seconds that a batch may wait to fill, counted from the arrival of its oldest request."""
    timeout_ms: int | None = None
    idempotent: bool = True
    scaled: bool = False
    """The number of replicas follows the load: gateways report their demand to the plane."""
    wakes: bool = False
    """If no replica is ready, one is starting, or a request starts one: requests may wait for it."""
    phase: str = ""
    """Progress of that start, for people."""
    cache_bytes: int = 0
    """Maximum bytes of answers that a gateway caches; 0: no cache."""


class ConstantOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output with fixed values."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any]
    """Flat."""
    each_row: bool = False
    """The value of one row, to be repeated for each row of a request."""


class Service(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target that is called over HTTP: a container of a graph, or an external service."""

    id: str
    """`<namespace>/<graph>/<container>`; for an external service its URL and protocol, shared by all callers."""
    addresses: tuple[str, ...]
    """`http://host:port` of each replica that has not failed. Empty: no replica; `missing` may say why."""
    path: str
    """Path of the prediction endpoint."""
    protocol: Literal["v2", "v1", "seldon"] = "v2"
    missing: str = ""
    """Why no replica can answer, for people."""


class Callee(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node, a route or a merge calls: a served name in the same namespace, or a Service."""

    name: str = ""
    """An inference name, looked up in the same Table."""
    version: str = ""
    """A version or an alias of it; empty: the current version."""
    service: str = ""
    """The id of a Service, if `name` is empty."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bandit, with all its parameters."""

    name: Literal["egreedy", "ucb1", "thompson", "exp3"]
    epsilon: float = 0.0
    c: float = 2.0
    eta: float = 0.03
    gamma: float = 0.05
    share: float = 0.001
    per_user: bool = False


class Routing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node chooses among its children. Nodes are referred to by their index in the graph."""

    kind: Literal["split", "mab", "call"]
    children: tuple[int, ...]
    """The children that may be chosen, in graph order: all but shadows."""
    weights: tuple[float, ...] = ()
    """Of a split, for each of `children`; empty: all equal."""
    key: str = ""
    """Of a split: `user`, or `header:` and a lower-case header name, whose value decides. Empty: random."""
    shadows: tuple[int, ...] = ()
    """Children that get a copy; their answers are compared and discarded."""
    policy: Policy | None = None
    call: Callee | None = None


class Merging(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node merges its arrivals into one message."""

    kind: Literal["mean", "vote", "call"]
    weights: tuple[float, ...] = ()
    """For each dependency, in order; empty: all equal."""
    partial: bool = False
    """At the deadline, merge the messages that have arrived."""
    threshold: float | None = None
    call: Callee | None = None
    incremental: bool = False
    """`call` is called for each arrival, not once for all."""


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node: it merges its arrivals, calls its implementation, and routes the result to its children."""

    name: str
    dependencies: tuple[int, ...] = ()
    """In the order of the spec. Empty: the node gets the request."""
    children: tuple[int, ...] = ()
    merge: Merging | None = None
    call: Callee | None = None
    """None: it passes its message on unchanged."""
    route: Routing | None = None
    """None: to all children."""
    timeout_ms: int | None = None
    skip: bool = False
    """A failure drops its branch, not the request."""
    lacking: str = ""
    """Why it cannot run here at all, regardless of replicas. Requests that reach it fail with 503 and this text."""


class GraphInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a graph declares."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class CompiledGraph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compiled MLGraph. Each node follows its dependencies; otherwise the order is that of the spec."""

    uid: str
    """Of the MLGraph: learned state belongs to this object, not to a later one of the same name."""
    generation: int
    nodes: tuple[Node, ...]
    timeout_ms: int | None = None
    inputs: tuple[GraphInput, ...] = ()
    headers: tuple[str, ...] = ()
    """Request headers, in lower case, that are forwarded with every call."""
    away: dict[str, str] = {}
    """Nodes whose service or container did not answer the plane's last probe, and why. Gateways still call them,
    because they may answer by now."""


class RecordLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of the records that gateways store so that feedback can be matched to answers."""

    uid: str
    """Of the MLGraph or InferenceModel."""
    max_bytes: int
    max_seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer one name: call the least busy server of one version, or run a graph."""

    servers: tuple[str, ...] = ()
    graph: CompiledGraph | None = None
    default: tuple[ConstantOutput, ...] = ()
    """The answer if no server is ready or none answers in time. Empty: the caller gets an error."""
    kept: RecordLimits | None = None


class Route(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One callable name in one namespace."""

    namespace: str
    name: str
    version: str
    """Reported as model_version."""
    model: str = ""
    """The model whose versions answer, if it is not `name`: callers of that model may call this name."""
    plan: Plan
    versions: dict[str, Plan] = {}
    """For `/versions/<v>/`: every served version of this name."""
    aliases: dict[str, str] = {}
    """For `/versions/<alias>/`: the version behind the alias, whether or not it is served now."""


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    serial: int = 0
    """Grows with each published table; taken from the store's resource version."""
    store: str = ""
    """The id of that store. A start compares both with the store that it finds."""
    servers: tuple[Server, ...] = ()
    services: tuple[Service, ...] = ()
    routes: tuple[Route, ...] = ()


_decode = msgspec.json.Decoder(Table).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(table: Table) -> bytes:
    return _encode(table)


def decode(data: bytes) -> Table:
    """Raises ValueError if this is not a table, or has another format."""
    table = _decode(data)
    if table.format != FORMAT:
        raise ValueError(f"table format {table.format} is not {FORMAT}: plane and gateway differ in version")
    return table
