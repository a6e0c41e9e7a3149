"""Parts that the Plans of models and of graphs share: replica addresses, default answers and record limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mizzen.errors import Invalid
from mizzen.graph.table_types import ConstantOutput, RecordLimits
from mizzen.kinds.parts import tensors
from mizzen.kinds.parts.tensors import TensorValue
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import Feedback
from mizzen.kinds.text import durations
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus

NO_SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def addresses_of(workload: Resource) -> tuple[str, ...]:
    """Return the address of every replica that has not failed. A restarted replica keeps its address."""
    if workload.deleting:
        return ()
    replicas = sorted(WorkloadStatus.of(workload).replicas, key=lambda replica: replica.index)
    try:
        wanted = WorkloadSpec.of(workload).replicas
    except Invalid:
        wanted = len(replicas)
    return tuple(r.address for r in replicas if r.address and r.state != "failed" and r.index < wanted)


def constants_of(
    answer: Iterable[TensorValue] | None, shapes: Mapping[str, tuple[int, ...]] = NO_SHAPES
) -> tuple[ConstantOutput, ...]:
    """Return a default answer. Its row is repeated if the output has one row per request row, or has no known shape."""
    return tuple(
        ConstantOutput(
            name=tensor.name,
            datatype=tensor.datatype,
            shape=tensor.shape,
            data=tensors.flat(tensor.data),
            each_row=tensor.shape[:1] == (1,) and shapes.get(tensor.name, (-1,))[:1] == (-1,),
        )
        for tensor in answer or ()
    )


def record_limits_of(resource: Resource, feedback: Feedback | None) -> RecordLimits | None:
    """Return the limits of the records that match feedback to answers; None without feedback."""
    if feedback is None:
        return None
    return RecordLimits(
        uid=resource.meta.uid, max_bytes=feedback.max_bytes, max_seconds=durations.seconds(feedback.max_age)
    )


def graph_mark(uid: str, generation: int) -> str:
    """Name a compiled generation of a graph, where the plane tracks what gateways know: graphs have no addresses."""
    return f"graph:{uid}@{generation}"
