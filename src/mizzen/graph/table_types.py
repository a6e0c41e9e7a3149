"""Plan and Table: what the plane compiles resources into, and all a gateway needs to answer.

The plane writes a Table as an immutable JSON file (write, rename); gateways read it, keep serving the last good one,
and start from it when the plane is away. Ids of servers are `<namespace>/<InferenceModel name>`.
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
    """unix:<path> of each replica, present and expected: a gateway keeps trying those that do not answer."""
    files: str = ""
    """What the version is made of: a replica says the same in its hello, or it does not answer for this version. Empty,
    here or there: not known, and not compared."""
    batch_size: int = 64
    """Most requests of one batch."""
    batch_auto: bool = False
    """How many, up to that, is found out: as many as the model answers well within `timeout_ms`."""
    batch_wait: float = 0.0
    """Seconds that a batch may wait to fill, from the arrival of its oldest request."""
    timeout_ms: int | None = None
    idempotent: bool = True
    scaled: bool = False
    """How many replicas there are follows what is asked: gateways say so to the plane."""
    wakes: bool = False
    """Where no replica is ready, one is on its way, or is started for who asks: they may wait for it."""
    phase: str = ""
    """How far that is, in a person's words."""
    cache_bytes: int = 0
    """Most bytes of answers that a gateway keeps; 0: none are kept."""


class Constant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output whose values are given."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any]
    """Flat."""
    each_row: bool = False
    """It is that of one row, to be repeated for each row of a request."""


class Service(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is called over HTTP: a container of a graph, or a service of others."""

    id: str
    """`<namespace>/<graph>/<container>`, or what is called and how where it is not ours: one Service for all who do."""
    addresses: tuple[str, ...]
    """`http://host:port` of each replica that has a future. Empty: there is none, and `missing` may say why."""
    path: str
    """Where predictions are asked for."""
    protocol: Literal["v2", "v1", "seldon"] = "v2"
    missing: str = ""
    """Why nobody can answer, in a person's words."""


class Callee(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node, a route or a merge calls: something served in the same namespace, or a Service."""

    name: str = ""
    """An inference name, looked up in the same Table."""
    version: str = ""
    """A version or an alias of it; empty: what the name stands for."""
    service: str = ""
    """The id of a Service, where `name` is empty."""


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
    """Which children of a node are taken. Nodes are named by their place in the graph."""

    kind: Literal["split", "mab", "call"]
    children: tuple[int, ...]
    """Those that may be taken, in the order of the graph: all children but shadows."""
    weights: tuple[float, ...] = ()
    """Of a split, for each of `children`; empty: all alike."""
    key: str = ""
    """Of a split: `user`, or `header:` and its name in lower case, whose value decides. Empty: chance does."""
    shadows: tuple[int, ...] = ()
    """Children that get a copy, and whose answers are compared and dropped."""
    policy: Policy | None = None
    call: Callee | None = None


class Merging(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How what arrives at a node becomes one message."""

    kind: Literal["mean", "vote", "call"]
    weights: tuple[float, ...] = ()
    """For each dependency, in their order; empty: all alike."""
    partial: bool = False
    """At the deadline, what has arrived is merged."""
    threshold: float | None = None
    call: Callee | None = None
    incremental: bool = False
    """`call` is asked for each arrival, and not once for all."""


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node: it merges what arrives, calls what implements it, and routes what came of it to its children."""

    name: str
    dependencies: tuple[int, ...] = ()
    """As listed. None: it gets the request."""
    children: tuple[int, ...] = ()
    merge: Merging | None = None
    call: Callee | None = None
    """None: it passes on what it has."""
    route: Routing | None = None
    """None: to all children."""
    timeout_ms: int | None = None
    skip: bool = False
    """A failure drops its branch, and not the request."""
    lacking: str = ""
    """Why it cannot run at all here, whoever is ready: who reaches it is told so, with 503."""


class Tensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a graph declares."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compiled MLGraph. Each node stands behind all that it depends on, otherwise they are as written."""

    uid: str
    """Of the MLGraph: what is learnt belongs to it, and not to the next one of its name."""
    generation: int
    nodes: tuple[Node, ...]
    timeout_ms: int | None = None
    inputs: tuple[Tensor, ...] = ()
    headers: tuple[str, ...] = ()
    """Of the request, in lower case: they go with every call."""
    away: dict[str, str] = {}
    """Nodes whose service or container did not answer when the plane looked, and why. Who asks is sent there all the
    same: it may answer by now."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Records are kept, so that feedback finds what answered."""

    uid: str
    """Of the MLGraph or InferenceModel."""
    max_bytes: int
    max_seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer one name: ask the least busy of some servers of one version, or go through a graph."""

    servers: tuple[str, ...] = ()
    graph: Graph | None = None
    default: tuple[Constant, ...] = ()
    """Answers in their place when they do not in time, or none is ready. Empty: an error does."""
    kept: Kept | None = None


class Route(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One callable name in one namespace."""

    namespace: str
    name: str
    version: str
    """Reported as model_version."""
    model: str = ""
    """Whose versions answer, where that is not `name`: who may call that model may call this."""
    plan: Plan
    versions: dict[str, Plan] = {}
    """For /versions/<v>/: every version of this name that is served."""
    aliases: dict[str, str] = {}
    """For /versions/<alias>/: the version that answers for it, whether or not that is served just now."""


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    serial: int = 0
    """Grows with each published table; taken from the store's resource version."""
    servers: tuple[Server, ...] = ()
    services: tuple[Service, ...] = ()
    routes: tuple[Route, ...] = ()


_decode = msgspec.json.Decoder(Table).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(table: Table) -> bytes:
    return _encode(table)


def decode(data: bytes) -> Table:
    """ValueError when this is no table, or one of a newer format."""
    table = _decode(data)
    if table.format != FORMAT:
        raise ValueError(f"table format {table.format} is not {FORMAT}: plane and gateway differ in version")
    return table
