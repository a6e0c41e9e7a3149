"""The machine among job sets: who has how much of it, who is next, and what the others wait for.

A set gets all that it asks for, or waits. Those that wait go by priority, then by age, and nobody overtakes: a small
job behind a large one waits as well, or the large one might do so for ever. One that asks for more than there is waits
in nobody's way. Kept in memory; what is given is written in the status of each job, and read from there at a start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.text.quantities import in_bytes

_DUST = 1e-6
"""Tenths do not add up to one exactly."""
_MOST_NAMED = 3
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job set needs, all of its replicas together."""

    cpus: float = 0.0
    memory: int = 0
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Job:
    ref: Ref
    uid: str
    ask: Ask
    priority: int
    created: datetime

    @property
    def order(self) -> tuple[int, datetime, Ref]:
        """The first is next."""
        return -self.priority, self.created, self.ref


class Shares:
    def __init__(self, cpus: float, memory: int, gpus: float = 0, *, poke: Callable[[Ref], None]) -> None:
        """`poke` is told of the job that can start now."""
        self.whole = Ask(cpus, memory, gpus)
        self._poke = poke
        self._holding: dict[Ref, _Job] = {}
        self._waiting: dict[Ref, _Job] = {}

    def note(
        self, ref: Ref, uid: str, ask: Ask, *, priority: int = 0, created: datetime | None = None, admitted: bool
    ) -> None:
        """That it is there, and has its share or waits for one; nobody is given any. For the start of a plane."""
        job = _Job(ref, uid, ask, priority, created or _LONG_AGO)
        if admitted:
            self._waiting.pop(ref, None)
            self._holding[ref] = job
        elif self._is_possible(ask):
            self._waiting[ref] = job

    def look(
        self, ref: Ref, uid: str, ask: Ask, *, priority: int = 0, created: datetime | None = None, admitted: bool
    ) -> Verdict:
        """Whether it may run. `admitted`: it was told so before, which stands, whatever there is."""
        job = _Job(ref, uid, ask, priority, created or _LONG_AGO)
        held = self._holding.get(ref)
        if held is not None and held.uid != uid:  # another one had this name
            self.leave(ref)
            held = None
        if held is not None or admitted:
            self._waiting.pop(ref, None)
            # What runs was started with what it asked for then.
            self._holding[ref] = held or job
            return Verdict(admitted=True)
        if not self._is_possible(ask):
            self.leave(ref)
            return Verdict(admitted=False, reason="TooLarge", message=self._too_large(ask))
        self._waiting[ref] = job
        if self._next() is not job or not self._fits(ask):
            return Verdict(admitted=False, reason="WaitingForShare", message=self._wait(job))
        del self._waiting[ref]
        self._holding[ref] = job
        self._tell()
        return Verdict(admitted=True)

    def leave(self, ref: Ref) -> None:
        """It has no share and waits for none: it ended, or cannot be started anyway."""
        held, waited = self._holding.pop(ref, None), self._waiting.pop(ref, None)
        if held is not None or waited is not None:
            self._tell()

    @property
    def used(self) -> Ask:
        asks = [job.ask for job in self._holding.values()]
        return Ask(sum(ask.cpus for ask in asks), sum(ask.memory for ask in asks), sum(ask.gpus for ask in asks))

    def _tell(self) -> None:
        first = self._next()
        if first is not None and self._fits(first.ask):
            self._poke(first.ref)

    def _next(self) -> _Job | None:
        return min(self._waiting.values(), key=lambda job: job.order, default=None)

    def _fits(self, ask: Ask) -> bool:
        used = self.used
        return _within(
            # What it does not ask for may be short.
            Ask(
                ask.cpus and used.cpus + ask.cpus,
                ask.memory and used.memory + ask.memory,
                ask.gpus and used.gpus + ask.gpus,
            ),
            self.whole,
        )

    def _is_possible(self, ask: Ask) -> bool:
        return _within(ask, self.whole)

    def _too_large(self, ask: Ask) -> str:
        wanted = [
            f"asks for {asked}; this machine has {has}"
            for asked, has, enough in _compared(ask, self.whole)
            if not enough
        ]
        return "; ".join(wanted)

    def _wait(self, job: _Job) -> str:
        used = self.used
        left = Ask(
            max(0.0, self.whole.cpus - used.cpus),
            max(0, self.whole.memory - used.memory),
            max(0.0, self.whole.gpus - used.gpus),
        )
        said = []
        for (asked, free, enough), (_, whole, _), name in zip(
            _compared(job.ask, left), _compared(job.ask, self.whole), ("cpus", "memory", "gpus"), strict=True
        ):
            if not enough:
                said.append(f"needs {asked}; {free} of {whole} free: {self._holders(name)}")
        before = sum(other.order < job.order for other in self._waiting.values())
        if before:
            said.append("1 job is before it" if before == 1 else f"{before} jobs are before it")
        return "; ".join(said)

    def _holders(self, name: str) -> str:
        having = sorted(
            ((getattr(job.ask, name), job.ref) for job in self._holding.values() if getattr(job.ask, name)),
            key=lambda pair: (-pair[0], pair[1]),
        )
        named = [f"{ref.name} has {_said(name, amount)}" for amount, ref in having[:_MOST_NAMED]]
        more = len(having) - len(named)
        return ", ".join([*named, *([f"{more} more have some"] if more else [])])


def sum_of(asks: list[Ask], defaulted: int, whole: Ask) -> Ask:
    """All replicas together. `defaulted` of them do not say how many processors they need: one each, as far as there
    are any beside those of the others."""
    cpus = sum(ask.cpus for ask in asks)
    total = Ask(cpus, sum(ask.memory for ask in asks), sum(ask.gpus for ask in asks))
    return replace(total, cpus=cpus + min(float(defaulted), max(0.0, whole.cpus - cpus)))


def _within(ask: Ask, whole: Ask) -> bool:
    return ask.cpus <= whole.cpus + _DUST and ask.memory <= whole.memory and ask.gpus <= whole.gpus + _DUST


def _compared(ask: Ask, there: Ask) -> list[tuple[str, str, bool]]:
    """Of processors, memory and GPUs: what is asked for and what is there, in words, and whether it is enough."""
    return [
        (_counted("CPU", ask.cpus), f"{_round(there.cpus)}", ask.cpus <= there.cpus + _DUST),
        (f"{in_bytes(ask.memory)} of memory", in_bytes(there.memory), ask.memory <= there.memory),
        (_counted("GPU", ask.gpus), f"{_round(there.gpus)}", ask.gpus <= there.gpus + _DUST),
    ]


def _counted(word: str, number: float) -> str:
    return f"{_round(number)} {word}{'' if number == 1 else 's'}"


def _said(name: str, amount: float) -> str:
    return in_bytes(int(amount)) if name == "memory" else _round(amount)


def _round(number: float) -> str:
    return f"{round(number, 3):g}"
