"""Counts as a gateway would write them, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS, Counts, RequestCounts, ServerCounts

NONE = [0] * (len(BOUNDS) + 1)


def requests(
    codes: Mapping[int, int], *, bucket: int = 3, model: str = "iris", version: str = "1", flying: int = 0
) -> RequestCounts:
    """All of them in one bucket."""
    buckets = [*NONE]
    buckets[bucket] = sum(codes.values())
    return RequestCounts("default", model, version, dict(codes), buckets, 0.1, flying)


def served(
    batches: int = 0, calls: int = 0, *, server: str = "iris-1", waiting: int = 0, shed: int = 0
) -> ServerCounts:
    sizes = [0] * (len(BATCH_BOUNDS) + 1)
    sizes[0] = batches
    return ServerCounts(
        server=f"default/{server}", version="1", waiting=waiting, waiting_bytes=0, in_flight=0, replicas=1, room=64,
        shed=shed, expired=0, retried=0, waits=[*NONE], waited_seconds=0.0, compute_seconds=0.0, sizes=sizes,
        batch_items=calls,
    )  # fmt: skip


def counts(
    *what: RequestCounts | ServerCounts, gateway: str = "gateway-0", pid: int = 1, start: float = 0.0, at: float = 0.0
) -> Counts:
    return Counts(
        gateway=gateway, pid=pid, start=start, at=at, cpu_seconds=1.0, resident_bytes=1, refused={},
        requests=[each for each in what if isinstance(each, RequestCounts)],
        served=[each for each in what if isinstance(each, ServerCounts)],
    )  # fmt: skip
