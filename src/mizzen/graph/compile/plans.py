"""What Plans of models and of graphs have in common: addresses of replicas, default answers, what is kept for feedback;
and what a compiled graph is called. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mizzen.errors import Invalid
from mizzen.graph.table_types import Constant, Kept
from mizzen.kinds.parts import tensors
from mizzen.kinds.parts.tensors import Tensor
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import Feedback
from mizzen.kinds.text import durations
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus

UNKNOWN: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def addresses_of(workload: Resource) -> tuple[str, ...]:
    """Of every replica with a future: one that restarts comes back at its address, so gateways may wait there."""
    if workload.deleting:
        return ()
    replicas = sorted(WorkloadStatus.of(workload).replicas, key=lambda replica: replica.index)
    try:
        wanted = WorkloadSpec.of(workload).replicas
    except Invalid:
        wanted = len(replicas)
    return tuple(r.address for r in replicas if r.address and r.state != "failed" and r.index < wanted)


def constants_of(
    answer: Iterable[Tensor] | None, shapes: Mapping[str, tuple[int, ...]] = UNKNOWN
) -> tuple[Constant, ...]:
    """A default answer. Rows are repeated where the output is known to have one for each of the request, or nothing is
    known of it."""
    return tuple(
        Constant(
            name=tensor.name,
            datatype=tensor.datatype,
            shape=tensor.shape,
            data=tensors.flat(tensor.data),
            each_row=tensor.shape[:1] == (1,) and shapes.get(tensor.name, (-1,))[:1] == (-1,),
        )
        for tensor in answer or ()
    )


def kept_of(resource: Resource, feedback: Feedback | None) -> Kept | None:
    """The bounds of what is kept so that feedback finds what answered."""
    if feedback is None:
        return None
    return Kept(uid=resource.meta.uid, max_bytes=feedback.max_bytes, max_seconds=durations.seconds(feedback.max_age))


def graph_mark(uid: str, generation: int) -> str:
    """What a graph was compiled to, by this generation, for who keeps account of what gateways know: it stands there
    where addresses stand for processes."""
    return f"graph:{uid}@{generation}"
