"""The sampler over real files and real processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mizzen.protocol.gateway_files.counts import write
from mizzen.supervisor.processes import procfs
from mizzen.usage.history import COARSE_SECONDS, FINE_SECONDS
from mizzen.usage.inventory import Inventory, ServedVersion, WorkloadRole
from mizzen.usage.rates import ProcessUsage
from mizzen.usage.sampler import NoUsage, Sampler
from tests.support.planes import wait_until
from tests.support.usage.counted import counts, requests, served

KEY = ("default", "iris", "1")
KNOWN = Inventory(
    {KEY: ServedVersion(("iris-1",), 1, 1)}, {"u": WorkloadRole(KEY, "iris-1")}, {("default", "iris-1"): "iris"}
)


class Scene:
    """A folder with counts, processes as they are said to be, and a clock that is put forward by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = 1000.0
        self.processes = {f"gateway-{n}": ProcessUsage(10 + n, "s", 0.0, 1) for n in (0, 1)}
        self.sampler = Sampler(folder, self, lambda: KNOWN, clock=lambda: self.time)

    def read_usage(self) -> dict[str, ProcessUsage]:
        return self.processes

    def restarts(self) -> dict[str, int]:
        return {}

    def counted(self, asked: int, gateway: int = 0, pid: int = 0) -> None:
        told = counts(
            requests({200: asked}), served(asked, asked), gateway=f"gateway-{gateway}", pid=pid or 10 + gateway,
            at=self.time,
        )  # fmt: skip
        write(self.folder, told)

    def step(self, asked: int | None = None) -> None:
        self.time += FINE_SECONDS
        if asked is not None:
            self.counted(asked)
        self.sampler.sample()


def test_now_speaks_of_the_last_ten_seconds(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(0)
    assert scene.sampler.now().served[KEY].requests == 0.0
    for asked in (*range(1000, 10_000, 1000), 9020, 9040, 9060, 9080, 9100):
        scene.step(asked)
    now = scene.sampler.now()
    assert now.grown.seconds == pytest.approx(10.0)
    assert now.served[KEY].requests == pytest.approx(10.0)


def test_gateways_that_do_not_live_are_not_counted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.counted(100, gateway=1, pid=999)  # of its predecessor
    scene.counted(100, gateway=7)
    scene.step(10)
    assert list(scene.sampler.now().sample.gateways) == ["gateway-0"]
    (tmp_path / "gateway-0.json").write_bytes(b"{half")
    assert scene.sampler.now().sample.gateways == {}


def test_points_are_kept_of_two_seconds_and_of_half_a_minute(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for number in range(2 * COARSE_SECONDS // FINE_SECONDS + 1):
        scene.step(20 * number)
    fine = scene.sampler.history.points_of(KEY, 0.0, fine=True)
    coarse = scene.sampler.history.points_of(KEY, 0.0, fine=False)
    assert (len(fine), len(coarse)) == (2 * COARSE_SECONDS // FINE_SECONDS, 2)
    assert {round(point.requests, 3) for _, point in (*fine, *coarse)} == {10.0}


def test_a_clock_that_is_put_back_makes_no_rates(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(0)
    scene.step(100)
    scene.time = 500.0
    scene.step(200)
    assert scene.sampler.now().served[KEY].requests == 0.0
    scene.step(220)
    assert scene.sampler.now().served[KEY].requests == pytest.approx(10.0)


def test_where_nobody_looks_nothing_is_told() -> None:
    assert NoUsage().now().served == {}


def test_what_a_process_uses_is_of_that_process() -> None:
    used = procfs.resource_usage(os.getpid())
    assert used is not None
    start, spent, held = used
    assert start == procfs.start_of(os.getpid())
    assert held > 1_000_000
    wait_until(lambda: (procfs.resource_usage(os.getpid()) or ("", 0.0, 0))[1] > spent, "its CPU time is counted")
    assert procfs.resource_usage(2**22 + 1) is None
