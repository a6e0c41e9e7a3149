"""Which checkpoints of a job are kept: the newest, the best, and whatever is served. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.training import Retention
from mizzen.runs.checkpoints import Checkpoint


@dataclass(frozen=True, slots=True)
class Served:
    """What servers were told to serve, and what they run with."""

    ids: frozenset[str] = frozenset()
    digests: frozenset[str] = frozenset()

    def holds(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.id in self.ids or any(file.digest in self.digests for file in checkpoint.files)


def surplus(checkpoints: Iterable[Checkpoint], retention: Retention | None, served: Served) -> list[Checkpoint]:
    """Those that may go; none when nothing says how many are kept."""
    if retention is None or retention.checkpoints is None:
        return []
    ordered = sorted(checkpoints, key=lambda each: each.order, reverse=True)
    kept = {each.id for each in (*ordered[: retention.checkpoints], *_best(ordered, retention))}
    return [each for each in ordered if each.id not in kept and not served.holds(each)]


def served_by(servers: Iterable[Resource], workloads: Iterable[Resource]) -> Served:
    """`servers` are InferenceModels; `workloads` theirs, also those that answer until another one does."""
    said = (place.get("checkpoint") for server in servers for place in (server.spec, server.status))
    digests = (
        artifact.get("digest")
        for workload in workloads
        if workload.spec.get("purpose") == "serve"
        for artifact in workload.spec.get("artifacts", ())
    )
    return Served(
        frozenset(name for name in said if isinstance(name, str)),
        frozenset(digest for digest in digests if isinstance(digest, str)),
    )


def _best(ordered: Sequence[Checkpoint], retention: Retention) -> Sequence[Checkpoint]:
    """Newest first among equals. One without the metric is none of the best."""
    if retention.best is None or retention.metric is None:
        return ()
    metric, sign = retention.metric, -1 if retention.mode == "max" else 1
    measured = [each for each in ordered if metric in each.metrics]
    return sorted(measured, key=lambda each: sign * each.metrics[metric])[: retention.best]
