"""The queue that admits training jobs to the machine: which jobs hold resources, which is next, what others wait for.

Jobs are gang-scheduled: a job gets all that it requests, or waits. Waiting jobs are ordered by priority, then by age,
without overtaking: a small job behind a large one waits too, or the large one might starve. A job that requests more
than the machine has does not block others. The queue is in memory; each job's status records its admission, and the
queue is restored from there at a start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.text.quantities import format_bytes

_TOLERANCE = 1e-6
"""Absorbs rounding: tenths do not add up to exactly one."""
_MAX_NAMED = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """The resources of a job, all of its replicas together."""

    cpus: float = 0.0
    memory: int = 0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    ref: Ref
    uid: str
    request: ResourceRequest
    priority: int = 0
    created: datetime | None = None

    @property
    def order(self) -> tuple[int, datetime, Ref]:
        """Sort key: the job with the smallest one is next."""
        return -self.priority, self.created or _EPOCH, self.ref


class AdmissionQueue:
    def __init__(self, cpus: float, memory: int, gpus: float = 0, *, enqueue: Callable[[Ref], None]) -> None:
        """`enqueue` gets the job that can start now."""
        self.capacity = ResourceRequest(cpus, memory, gpus)
        self._enqueue = enqueue
        self._holding: dict[Ref, QueuedJob] = {}
        self._waiting: dict[Ref, QueuedJob] = {}

    def restore(self, job: QueuedJob, *, admitted: bool) -> None:
        """Add a job that holds resources or waits for them, without admitting any. For the start of a plane."""
        if admitted:
            self._waiting.pop(job.ref, None)
            self._holding[job.ref] = job
        elif _within(job.request, self.capacity):
            self._waiting[job.ref] = job

    def admit(self, job: QueuedJob, *, admitted: bool) -> Admission:
        """Whether the job may run. `admitted`: it was admitted before, and stays so even if the capacity shrank."""
        held = self._holding.get(job.ref)
        if held is not None and held.uid != job.uid:  # an earlier job had this name
            self.release(job.ref)
            held = None
        if held is not None or admitted:
            self._waiting.pop(job.ref, None)
            # A running job holds what it requested when it started.
            self._holding[job.ref] = held or job
            return Admission(admitted=True)
        if not _within(job.request, self.capacity):
            self.release(job.ref)
            return Admission(admitted=False, reason="TooLarge", message=self._explain_too_large(job.request))
        self._waiting[job.ref] = job
        if self._first_waiting() is not job or not self._fits(job.request):
            return Admission(admitted=False, reason="WaitingForShare", message=self._explain_wait(job))
        del self._waiting[job.ref]
        self._holding[job.ref] = job
        self._wake_next()
        return Admission(admitted=True)

    def release(self, ref: Ref) -> None:
        """Remove a job that ended, or that cannot be started anyway."""
        held, waited = self._holding.pop(ref, None), self._waiting.pop(ref, None)
        if held is not None or waited is not None:
            self._wake_next()

    @property
    def used(self) -> ResourceRequest:
        return sum_of([job.request for job in self._holding.values()], 0, self.capacity)

    def _wake_next(self) -> None:
        first = self._first_waiting()
        if first is not None and self._fits(first.request):
            self._enqueue(first.ref)

    def _first_waiting(self) -> QueuedJob | None:
        return min(self._waiting.values(), key=lambda job: job.order, default=None)

    def _fits(self, request: ResourceRequest) -> bool:
        used = self.used
        # A resource that it does not request may be overcommitted.
        after = ResourceRequest(
            request.cpus and used.cpus + request.cpus,
            request.memory and used.memory + request.memory,
            request.gpus and used.gpus + request.gpus,
        )
        return _within(after, self.capacity)

    def _explain_too_large(self, request: ResourceRequest) -> str:
        compared = _compare(request, self.capacity)
        return "; ".join(f"requests {asked}; this machine has {has}" for asked, has, enough in compared if not enough)

    def _explain_wait(self, job: QueuedJob) -> str:
        used = self.used
        left = ResourceRequest(
            max(0.0, self.capacity.cpus - used.cpus),
            max(0, self.capacity.memory - used.memory),
            max(0.0, self.capacity.gpus - used.gpus),
        )
        reasons = []
        for (requested, free, enough), (_, whole, _), name in zip(
            _compare(job.request, left), _compare(job.request, self.capacity), ("cpus", "memory", "gpus"), strict=True
        ):
            if not enough:
                reasons.append(f"needs {requested}; {free} of {whole} free: {self._holders(name)}")
        before = sum(other.order < job.order for other in self._waiting.values())
        if before:
            reasons.append("1 job is ahead of it" if before == 1 else f"{before} jobs are ahead of it")
        return "; ".join(reasons)

    def _holders(self, name: str) -> str:
        having = sorted(
            ((getattr(job.request, name), job.ref) for job in self._holding.values() if getattr(job.request, name)),
            key=lambda pair: (-pair[0], pair[1]),
        )
        named = [f"{ref.name} has {_format_amount(name, amount)}" for amount, ref in having[:_MAX_NAMED]]
        more = len(having) - len(named)
        return ", ".join([*named, *([f"{more} more hold some"] if more else [])])


def sum_of(requests: list[ResourceRequest], defaulted: int, whole: ResourceRequest) -> ResourceRequest:
    """The sum over all replicas. `defaulted` of them request no CPUs: each gets one, as far as the machine has CPUs
    left."""
    cpus = sum(request.cpus for request in requests)
    cpus += min(float(defaulted), max(0.0, whole.cpus - cpus))
    return ResourceRequest(cpus, sum(request.memory for request in requests), sum(request.gpus for request in requests))


def _within(request: ResourceRequest, whole: ResourceRequest) -> bool:
    return (
        request.cpus <= whole.cpus + _TOLERANCE
        and request.memory <= whole.memory
        and request.gpus <= whole.gpus + _TOLERANCE
    )


def _compare(request: ResourceRequest, there: ResourceRequest) -> list[tuple[str, str, bool]]:
    """For CPUs, memory and GPUs: the request and the available amount as text, and whether it is enough."""
    return [
        (_format_count("CPU", request.cpus), f"{_round(there.cpus)}", request.cpus <= there.cpus + _TOLERANCE),
        (f"{format_bytes(request.memory)} of memory", format_bytes(there.memory), request.memory <= there.memory),
        (_format_count("GPU", request.gpus), f"{_round(there.gpus)}", request.gpus <= there.gpus + _TOLERANCE),
    ]


def _format_count(word: str, number: float) -> str:
    return f"{_round(number)} {word}{'' if number == 1 else 's'}"


def _format_amount(name: str, amount: float) -> str:
    return format_bytes(int(amount)) if name == "memory" else _round(amount)


def _round(number: float) -> str:
    return f"{round(number, 3):g}"
