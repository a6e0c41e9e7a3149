"""Plan and Table: what the plane compiles resources into, and all a gateway needs to answer.

The plane writes a Table as an immutable JSON file (write, rename); gateways read it, keep serving the last good one,
and start from it when the plane is away. Ids of servers are `<namespace>/<InferenceModel name>`.
"""

from __future__ import annotations

from typing import Any

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


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer one name. So far: ask the least busy of some servers of one version."""

    servers: tuple[str, ...]
    default: tuple[Constant, ...] = ()
    """Answers in their place when they do not in time, or none is ready. Empty: an error does."""


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
