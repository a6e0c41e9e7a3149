"""From what gateways say to how many replicas there should be, in virtual time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mizzen.controllers.scaling.autoscaler import Autoscaler
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.protocol.gateway_files import demand, status_files
from mizzen.protocol.gateway_files.demand import Demand, ServerDemand
from tests.support import pids

REF = Ref("InferenceModel", "im", "default")
ID = "default/im"


class World:
    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.folder = folder
        self.poked: list[Ref] = []
        self.scaler = self.made()

    def made(self) -> Autoscaler:
        return Autoscaler(self.folder, self.poked.append, clock=lambda: self.now)

    def say(self, gateway: str = "gateway-0", *, pid: int | None = None, **asked: Any) -> None:
        demand.write(self.folder, Demand(gateway, pid or os.getpid(), {ID: ServerDemand(**asked)}))

    def pass_(self, seconds: float = 0.05) -> bool:
        """Was somebody told that another number is right?"""
        self.now += seconds
        self.poked.clear()
        self.scaler.poll()
        return self.poked == [REF]

    def count(self, recorded: int | None = None, *, proven: bool = True, **scale: Any) -> int | None:
        scale = {"minReplicas": 1, "maxReplicas": 10} | scale
        replicas = scale.pop("replicas", 3)
        given = {"modelName": "m", "deployToLayer": "cloud", "replicas": replicas, "autoScale": scale}
        scaled = self.scaler.replicas(REF, InferenceModelSpec.model_validate(given), recorded, proven=proven)
        return None if scaled is None else scaled.replicas


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "demand")


def test_it_starts_with_replicas_within_the_limits(world: World) -> None:
    assert world.count() == 3
    world.scaler.forget(REF)
    assert world.count(replicas=30) == 10
    world.scaler.forget(REF)
    assert world.count(minReplicas=5) == 5


def test_requests_of_all_gateways_count_together(world: World) -> None:
    assert world.count(replicas=1) == 1
    world.say("gateway-0", in_flight=7.0)
    world.say("gateway-1", in_flight=4.5)
    assert world.pass_()
    assert world.count(1) == 3
    assert not world.pass_()


def test_one_that_is_gone_counts_no_more(world: World) -> None:
    world.count(replicas=1)
    world.say("gateway-1", in_flight=40.0, pid=pids.DEAD)
    assert not world.pass_()


def test_fewer_after_the_quiet_time_and_applying_again_changes_nothing(world: World) -> None:
    assert world.count(replicas=3) == 3
    assert not world.pass_(299.0)
    assert world.count(3, replicas=3) == 3
    assert world.pass_(1.5)
    assert world.count(3, replicas=3) == 1
    # Applied again, as it is: what is recorded by now is 1.
    assert world.count(1, replicas=3) == 1


def test_a_plane_that_starts_goes_on_with_what_is_recorded(world: World) -> None:
    assert world.count(7) == 7
    world.say(in_flight=9.0)
    world.pass_()
    world.now += 250
    world.scaler = world.made()
    assert world.count(7) == 7, "no jump"
    assert not world.pass_(299.0)
    assert world.pass_(2.0)
    assert world.count(7) == 3


def test_what_has_not_answered_yet_keeps_one(world: World) -> None:
    assert world.count(replicas=1, minReplicas=0, proven=False) == 1
    world.pass_(301.0)
    assert world.count(1, replicas=1, minReplicas=0, proven=False) == 1
    world.pass_(1.0)
    assert world.count(1, replicas=1, minReplicas=0) == 1
    assert world.pass_(301.0)
    assert world.count(1, replicas=1, minReplicas=0) == 0


def test_whoever_waits_wakes_it_also_when_the_plane_was_away(world: World) -> None:
    assert world.count(0, minReplicas=0) == 0
    world.say(awaited=True)
    assert world.pass_()
    assert world.count(0, minReplicas=0) == 1
    world.scaler = world.made()
    assert world.count(0, minReplicas=0) == 0
    assert world.pass_(), "the file says so until it says otherwise"


def test_who_is_asked_all_the_time_for_a_moment_each_does_not_sleep(world: World) -> None:
    assert world.count(replicas=1, minReplicas=0, quietSeconds=10) == 1
    for _ in range(30):
        world.say(used=True)
        assert not world.pass_(0.5)
        world.say(in_flight=0.0)
        assert not world.pass_(0.5)
    assert world.pass_(10.1)
    assert world.count(1, minReplicas=0, quietSeconds=10) == 0


def test_it_starts_with_replicas_also_where_one_of_them_is_standby(world: World) -> None:
    assert world.count(replicas=1, standby=1, proven=False) == 1
    world.scaler.forget(REF)
    assert world.count(replicas=2, standby=1, proven=False) == 2


def test_standby_is_added_and_kept_while_nobody_asks(world: World) -> None:
    assert world.count(replicas=1, standby=2) == 2
    world.say(in_flight=12.0)
    world.pass_()
    assert world.count(2, standby=2) == 5
    world.say(in_flight=0.0)
    world.pass_()
    world.pass_(301.0)
    assert world.count(5, standby=2) == 2


def test_what_is_not_scaled_is_forgotten(world: World) -> None:
    world.count(replicas=1)
    assert world.count(replicas=0) is None
    world.say(in_flight=40.0)
    assert not world.pass_()
    assert world.count(replicas=4) == 4, "loaded again, it begins with its replicas"


def test_of_those_that_rest_none_is_looked_at(world: World) -> None:
    assert world.count(0, minReplicas=0) == 0
    world.say(in_flight=3.0)
    assert world.pass_()
    assert world.count(0, minReplicas=0) == 1
    demand.write(world.folder, Demand("gateway-0", os.getpid(), {}))
    assert not world.pass_(299.0)
    assert world.scaler._active
    assert world.pass_(1.1)
    assert world.count(1, minReplicas=0) == 0
    assert not world.pass_()
    assert not world.scaler._active


def test_a_file_that_is_no_note_is_passed_over(world: World) -> None:
    world.count(replicas=1)
    status_files.write(world.folder, "gateway-9", b"{")
    assert not world.pass_()
