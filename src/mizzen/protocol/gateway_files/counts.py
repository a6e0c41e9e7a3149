"""Counts of a gateway, in a file for the other gateways and the plane.

Each gateway replaces `run/counts/<gateway>.json` once a second while anything changes. So any gateway can serve the
metrics of all, and the plane can keep a history without calling gateways. Counts only grow during the life of a
process; `pid` and `start` identify the process.
"""

from __future__ import annotations

import msgspec

from mizzen.protocol.gateway_files.status_files import StatusFiles

FOLDER = "counts"
"""In the run folder."""
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of all histograms of seconds; one more bucket holds the rest."""
BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds for calls per batch."""


class RequestCounts(msgspec.Struct, frozen=True):
    """Counts of one callable name and version. Names without requests are omitted."""

    namespace: str
    model: str
    version: str
    codes: dict[int, int]
    buckets: list[int]
    """Requests by duration, in the buckets of BOUNDS, not cumulative."""
    seconds: float
    in_flight: int
    failed_seconds: float = 0.0
    """Of all requests that were not answered with 200."""
    defaults: dict[str, int] = {}
    """Requests answered by a default, by reason; their code is 200."""
    of: str = ""
    """The model whose versions answered; empty: `model`."""


class CacheCounts(msgspec.Struct, frozen=True):
    """A gateway's answer cache of one served version."""

    hits: int
    shared: int
    """Requests that waited for an identical call."""
    misses: int
    bytes: int
    entries: int
    evicted: int
    followers: int = 0
    """Requests that wait for an identical call now."""


class ServerCounts(msgspec.Struct, frozen=True):
    """Queue and replicas of one served version, as this gateway sees them."""

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
    """Calls by the time they waited for a replica, in the buckets of BOUNDS, not cumulative."""
    waited_seconds: float
    compute_seconds: float
    """Sum over all calls: how long their batch was in the model."""
    sizes: list[int]
    """Batches by number of calls, in the buckets of BATCH_BOUNDS, not cumulative."""
    batch_items: int
    model: str = ""
    """The model of the version."""
    input_seconds: float = 0.0
    """Sums over all calls: how long the runtime read their batch, and wrote the answers."""
    output_seconds: float = 0.0
    cache: CacheCounts | None = None


class GraphNodeCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of one node of a graph."""

    namespace: str
    graph: str
    node: str
    ran: int = 0
    """Messages that it processed."""
    answered: int = 0
    """Answered calls of its implementation, and their total time."""
    seconds: float = 0.0
    codes: dict[int, int] = {}
    """Codes of failed calls."""
    chosen: dict[str, int] = {}
    """Messages that its route sent, by child; lists all possible children."""
    partial: int = 0
    """Merges of incomplete arrivals."""
    shadowed: dict[int, int] = {}
    """Copies that it got as a shadow, by code, and their total time."""
    shadow_seconds: float = 0.0
    agreed: int = 0
    """Of those: answers that equal the returned one, and answers that differ."""
    differed: int = 0
    disagreed: list[tuple[str, str, int, float]] = []
    """For each pair of ensemble members: how often both answered, and the sum of their disagreement."""


class RewardCounts(msgspec.Struct, frozen=True):
    """Rewards for one child of a routing node; `node` and `arm` are empty if there was no choice."""

    namespace: str
    model: str
    node: str
    arm: str
    count: int
    sum: float
    """Of rewards."""


class AccuracyCounts(msgspec.Struct, frozen=True):
    """Feedback with ground truth, for one version at one node."""

    namespace: str
    model: str
    node: str
    version: str
    count: int
    sum: float
    """Of the accuracy of each answer, from 0 to 1."""


class TraceCounts(msgspec.Struct, frozen=True):
    """Requests whose spans were exported or lost."""

    sent: int
    lost: int


class Counts(msgspec.Struct, frozen=True):
    gateway: str
    """The name of the process, such as gateway-0."""
    pid: int
    start: float
    """Start of the process, in seconds since 1970."""
    at: float
    """Time of writing, in seconds since 1970."""
    cpu_seconds: float
    resident_bytes: int
    requests: list[RequestCounts]
    served: list[ServerCounts]
    refused: dict[int, int]
    """Requests that reached no model, by code."""
    traced: TraceCounts | None = None
    """None: tracing is off."""
    graphs: list[GraphNodeCounts] = []
    feedback: list[RewardCounts] = []
    judged: list[AccuracyCounts] = []


FILES = StatusFiles(msgspec.json.Decoder(Counts).decode)
write, read, sweep = FILES.write, FILES.read, FILES.sweep
