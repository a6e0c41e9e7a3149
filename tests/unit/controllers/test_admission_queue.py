"""The machine among job sets: never more than there is, by priority and age, and nobody is passed over for ever."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.controllers.training.admission_queue import Admission, AdmissionQueue, QueuedJob, ResourceRequest
from mizzen.controllers.training.replicas import resource_request_of
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.training import TrainingJobSpec
from tests.support.controllers.objects import NOW
from tests.support.examples import examples
from tests.support.golden import Golden

GIB = 1 << 30


def ref(name: str) -> Ref:
    return Ref("TrainingJob", name)


class Line:
    """Shares of a machine with two processors, and who was poked."""

    def __init__(self, cpus: float = 2, memory: int = 4 * GIB, gpus: float = 1) -> None:
        self.poked: list[str] = []
        self.shares = AdmissionQueue(cpus, memory, gpus, enqueue=lambda ref: self.poked.append(ref.name))
        self.age = 0

    def look(self, name: str, cpus: float = 1, *, priority: int = 0, admitted: bool = False, **ask: float) -> Admission:
        self.age += 1
        whole = ResourceRequest(cpus, int(ask.get("memory", 0)), ask.get("gpus", 0.0))
        created = NOW + timedelta(seconds=ord(name[0]))
        return self.shares.admit(QueuedJob(ref(name), f"uid-{name}", whole, priority, created), admitted=admitted)


def test_jobs_get_their_shares_until_nothing_is_left_and_are_told_who_has_what(golden: Golden) -> None:
    line = Line()
    assert line.look("a").admitted
    assert line.look("b").admitted
    waits = line.look("c", cpus=2)
    assert (waits.admitted, waits.reason) == (False, "WaitingForShare")
    golden.check(waits.message)
    golden.check(line.look("d").message)


def test_a_set_gets_all_or_nothing_and_a_smaller_one_does_not_overtake() -> None:
    line = Line()
    assert line.look("a").admitted
    assert not line.look("b", cpus=2).admitted
    behind = line.look("c")
    assert (behind.admitted, behind.message) == (False, "1 job is ahead of it")
    line.shares.release(ref("a"))
    assert line.poked == ["b"]
    assert not line.look("c").admitted
    assert line.look("b", cpus=2).admitted


def test_a_higher_priority_goes_first_and_then_the_older() -> None:
    line = Line()
    assert line.look("a", cpus=2).admitted
    for name, priority in (("b", 0), ("c", 5), ("d", 5)):
        assert not line.look(name, cpus=2, priority=priority).admitted
    order = []
    for running in ("a", "c", "d"):
        line.shares.release(ref(running))
        order.append(line.poked[-1])
        assert line.look(order[-1], cpus=2, priority=0 if order[-1] == "b" else 5).admitted
    assert order == ["c", "d", "b"]


def test_what_can_never_fit_says_so_and_is_in_nobodys_way(golden: Golden) -> None:
    line = Line()
    huge = line.look("a", cpus=64, memory=8 * GIB)
    assert (huge.admitted, huge.reason) == (False, "TooLarge")
    golden.check(huge.message)
    assert line.look("b", cpus=2).admitted
    golden.check(line.look("c", cpus=0, gpus=2).message)


def test_memory_and_gpus_count_as_well(golden: Golden) -> None:
    line = Line()
    assert line.look("a", cpus=0.5, memory=3 * GIB, gpus=0.5).admitted
    golden.check(line.look("b", cpus=0.5, memory=2 * GIB).message)
    line.shares.release(ref("b"))
    golden.check(line.look("c", cpus=0.5, gpus=1).message)


def test_ten_tenths_are_one() -> None:
    line = Line(cpus=1)
    for name in "abcdefghij":
        assert line.look(name, cpus=0.1).admitted, name
    assert not line.look("k", cpus=0.1).admitted


def test_who_was_admitted_stays_so_even_where_there_is_less_now() -> None:
    line = Line(cpus=1)
    assert line.look("a", cpus=2, admitted=True).admitted
    assert line.look("b", cpus=2, admitted=True).admitted
    assert not line.look("c").admitted
    assert line.look("d", cpus=0, memory=GIB).admitted is False, "c is before it"
    line.shares.release(ref("c"))
    assert line.look("d", cpus=0, memory=GIB).admitted, "of memory there is enough"


def test_asking_again_changes_nothing_and_one_more_can_start_is_told() -> None:
    line = Line()
    line.look("z", cpus=2)
    assert not line.look("a").admitted
    assert not line.look("b").admitted
    line.shares.release(ref("z"))
    assert line.look("a").admitted
    assert line.look("a").admitted
    assert line.poked == ["a", "b"]


def test_another_job_of_the_same_name_has_not_the_share_of_the_one_before() -> None:
    line = Line()
    assert line.look("a", cpus=2).admitted
    line.shares.admit(QueuedJob(ref("b"), "uid-b", ResourceRequest(2), created=NOW), admitted=False)
    later = NOW + timedelta(hours=1)
    again = line.shares.admit(QueuedJob(ref("a"), "another", ResourceRequest(2), created=later), admitted=False)
    assert not again.admitted
    assert line.poked == ["b"]


def test_those_that_were_admitted_before_the_plane_started_count_before_anybody_new(golden: Golden) -> None:
    line = Line()
    line.shares.restore(QueuedJob(ref("old"), "uid-old", ResourceRequest(2), created=NOW), admitted=True)
    line.shares.restore(QueuedJob(ref("first"), "uid-first", ResourceRequest(1), created=NOW), admitted=False)
    golden.check(line.look("new").message)
    line.shares.release(ref("old"))
    assert line.poked == ["first"]


def test_what_replicas_do_not_say_is_one_processor_each_as_far_as_there_are_any() -> None:
    whole = ResourceRequest(2, 4 * GIB, 0)

    def ask(**spec: object) -> ResourceRequest:
        return resource_request_of(TrainingJobSpec.model_validate({"modelName": "iris", "version": "1", **spec}), whole)

    assert ask() == ResourceRequest(1)
    assert ask(replicas=8) == ResourceRequest(2)
    assert ask(replicas=8, resources={"cpu": "1"}) == ResourceRequest(8)
    assert ask(replicas=3, resources={"cpu": "500m", "memory": "1Gi"}, gpu=0.5) == ResourceRequest(1.5, 3 * GIB, 1.5)
    chief = {"replicas": 1, "resources": {"cpu": "2"}}
    assert ask(replicaSpecs={"Chief": chief, "Worker": {"replicas": 3}}) == ResourceRequest(2)
    container = {
        "name": "tensorflow",
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1}},
    }
    template = {"spec": {"containers": [{"name": "side"}, container]}}
    assert ask(replicaSpecs={"Worker": {"replicas": 2, "template": template}}) == ResourceRequest(3, 2 * GIB, 2)


@dataclass
class Crowd:
    """Jobs that come, are looked at when they are poked, and end."""

    asks: list[tuple[float, int]]
    line: Line = field(default_factory=Line)
    running: list[int] = field(default_factory=list)
    arrived: set[int] = field(default_factory=set)
    started: list[int] = field(default_factory=list)

    def look(self, number: int) -> None:
        cpus, priority = self.asks[number]
        created = NOW + timedelta(seconds=number)
        job = QueuedJob(ref(f"{number}"), f"{number}", ResourceRequest(cpus), priority, created)
        verdict = self.line.shares.admit(job, admitted=number in self.running)
        if verdict.admitted and number not in self.running:
            self.before_it_nobody_waits(number)
            self.running.append(number)
            self.started.append(number)

    def before_it_nobody_waits(self, number: int) -> None:
        waiting = [other for other in self.arrived if other not in self.started and self.asks[other][0] <= 2]
        first = min(waiting, key=lambda other: (-self.asks[other][1], other))
        assert first == number, f"{number} overtook {first}"

    def settle(self) -> None:
        while self.line.poked:
            self.look(int(self.line.poked.pop(0)))
        assert sum(self.asks[number][0] for number in self.running) <= 2 + 1e-6

    def end(self, number: int) -> None:
        self.running.remove(number)
        self.line.shares.release(ref(f"{number}"))


@settings(max_examples=examples(200), deadline=None)
@given(
    asks=st.lists(
        st.tuples(st.sampled_from((0.1, 0.5, 1.0, 1.5, 2.0, 3.0)), st.integers(-1, 1)), min_size=1, max_size=12
    ),
    picks=st.lists(st.integers(0, 11), min_size=1, max_size=30),
)
def test_whatever_comes_and_ends_the_machine_is_never_overcommitted_and_everybody_gets_a_turn(
    asks: list[tuple[float, int]], picks: list[int]
) -> None:
    crowd = Crowd(asks)
    coming, choices = list(range(len(asks))), itertools.cycle(picks)
    while coming or crowd.running:
        pick = next(choices)
        if coming and (pick % 2 or not crowd.running):
            number = coming.pop(0)
            crowd.arrived.add(number)
            crowd.look(number)
        else:
            crowd.end(crowd.running[pick % len(crowd.running)])
        crowd.settle()
    assert sorted(crowd.started) == [number for number, (cpus, _) in enumerate(asks) if cpus <= 2]
    assert crowd.line.shares.used == ResourceRequest()
