"""Retention of a job's checkpoints: the newest, the best, and all served ones are kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.training import JobRetention
from mizzen.runs.checkpoints import Checkpoint


@dataclass(frozen=True, slots=True)
class ServedCheckpoints:
    """Checkpoints that servers name, by id, and files that they run with, by digest."""

    ids: frozenset[str] = frozenset()
    digests: frozenset[str] = frozenset()

    def holds(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.id in self.ids or any(file.digest in self.digests for file in checkpoint.files)


def find_surplus(
    checkpoints: Iterable[Checkpoint], retention: JobRetention | None, served: ServedCheckpoints
) -> list[Checkpoint]:
    """Checkpoints that may be removed; none when the spec sets no limit."""
    if retention is None or retention.checkpoints is None:
        return []
    ordered = sorted(checkpoints, key=lambda each: each.order, reverse=True)
    kept = {each.id for each in (*ordered[: retention.checkpoints], *_best(ordered, retention))}
    return [each for each in ordered if each.id not in kept and not served.holds(each)]


def find_served(servers: Iterable[Resource], workloads: Iterable[Resource]) -> ServedCheckpoints:
    """`servers` are InferenceModels; `workloads` are theirs, including old ones that serve until a switch."""
    named = (place.get("checkpoint") for server in servers for place in (server.spec, server.status))
    digests = (
        artifact.get("digest")
        for workload in workloads
        if workload.spec.get("purpose") == "serve"
        for artifact in workload.spec.get("artifacts", ())
    )
    return ServedCheckpoints(
        frozenset(name for name in named if isinstance(name, str)),
        frozenset(digest for digest in digests if isinstance(digest, str)),
    )


def _best(ordered: Sequence[Checkpoint], retention: JobRetention) -> Sequence[Checkpoint]:
    """Newest first among equals. Checkpoints without the metric do not count."""
    if retention.best is None or retention.metric is None:
        return ()
    metric, sign = retention.metric, -1 if retention.mode == "max" else 1
    measured = [each for each in ordered if metric in each.metrics]
    return sorted(measured, key=lambda each: sign * each.metrics[metric])[: retention.best]
