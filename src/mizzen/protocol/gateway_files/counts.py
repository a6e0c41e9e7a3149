"""What a gateway has counted, as it leaves it in a file for its siblings and for the plane.

Each gateway replaces `run/counts/<gateway>.json` whole, once a second while anything changes. So whichever of them is
scraped can show all, and the plane keeps a history without asking anybody. All counts grow as long as the process
lives; `pid` and `start` tell one life from the next.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from mizzen.protocol.gateway_files import status_files

FOLDER = "counts"
"""In the run folder."""
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of all histograms of seconds; one more bucket holds the rest."""
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Those of calls per batch."""


class Requests(msgspec.Struct, frozen=True):
    """Of one callable name and version. What nobody has asked for is left out."""

    namespace: str
    model: str
    version: str
    codes: dict[int, int]
    buckets: list[int]
    """How many took how long, each bucket for itself, by BOUNDS."""
    seconds: float
    in_flight: int
    failed_seconds: float = 0.0
    """Of all but those that were answered with 200."""
    defaults: dict[str, int] = {}
    """How many were answered by a default, by why; their code is 200."""
    of: str = ""
    """Whose versions answered them; empty: those of `model`."""


class Cache(msgspec.Struct, frozen=True):
    """Answers that a gateway keeps for one served version."""

    hits: int
    shared: int
    """Requests that waited for the call of another one."""
    misses: int
    bytes: int
    entries: int
    evicted: int
    followers: int = 0
    """Requests that wait for the call of another one now."""


class Served(msgspec.Struct, frozen=True):
    """Of one served version: its queue and its replicas, as this gateway sees them."""

    server: str
    """namespace/name of the InferenceModel."""
    version: str
    waiting: int
    waiting_bytes: int
    in_flight: int
    replicas: int
    room: int
    shed: int
    expired: int
    retried: int
    waits: list[int]
    """How many calls waited how long for a replica, each bucket for itself, by BOUNDS."""
    waited_seconds: float
    compute_seconds: float
    """Of all calls: how long their batch was in the model."""
    sizes: list[int]
    """How many batches had how many calls, each bucket for itself, by BATCH_BOUNDS."""
    batch_items: int
    model: str = ""
    """Whose version it is."""
    input_seconds: float = 0.0
    """Likewise of all calls: how long their runtime read their batch, and wrote the answers."""
    output_seconds: float = 0.0
    cache: Cache | None = None


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one node of a graph."""

    namespace: str
    graph: str
    node: str
    ran: int = 0
    """Messages that it had."""
    answered: int = 0
    """Calls of its implementation that were answered, and how long those took."""
    seconds: float = 0.0
    codes: dict[int, int] = {}
    """Of those that were not."""
    chosen: dict[str, int] = {}
    """Messages that its route sent, by child: all that it may send to."""
    partial: int = 0
    """Merges of less than was to come."""
    shadowed: dict[int, int] = {}
    """Copies that it got as a shadow, by code, and how long they took."""
    shadow_seconds: float = 0.0
    agreed: int = 0
    """Of those: answers like the one that was given, and others."""
    differed: int = 0
    disagreed: list[tuple[str, str, int, float]] = []
    """Of an ensemble, for two of its members: how often both answered, and the sum of how far they differed."""


class Rewarded(msgspec.Struct, frozen=True):
    """Feedback for what one node of a graph was routed to; both names are empty where nothing was chosen."""

    namespace: str
    model: str
    node: str
    arm: str
    count: int
    sum: float
    """Of rewards."""


class Judged(msgspec.Struct, frozen=True):
    """Feedback with the truth, for one version at one node."""

    namespace: str
    model: str
    node: str
    version: str
    count: int
    sum: float
    """Of how right each answer was, from 0 to 1."""


class Traced(msgspec.Struct, frozen=True):
    """Of requests whose spans were to be sent."""

    sent: int
    lost: int


class Counts(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    start: float
    """When it began, in seconds since 1970."""
    at: float
    """When it was written, likewise."""
    cpu_seconds: float
    resident_bytes: int
    requests: list[Requests]
    served: list[Served]
    refused: dict[int, int]
    """Requests that reached no model, by code."""
    traced: Traced | None = None
    """None: nothing is."""
    graphs: list[GraphNode] = []
    feedback: list[Rewarded] = []
    judged: list[Judged] = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Counts).decode


def write(folder: Path, counts: Counts) -> None:
    """OSError when it cannot be written."""
    status_files.write(folder, counts.gateway, _encode(counts))


def read(folder: Path) -> list[Counts]:
    """Those of all gateways that have written any, by name."""
    return status_files.read(folder, _decode)


def sweep(folder: Path, gateways: Collection[str]) -> None:
    status_files.sweep(folder, gateways, _decode)
