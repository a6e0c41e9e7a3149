"""Groups of this machine: a kill reaches every descendant, limits hold, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mizzen.confinement.cgroups import groups, hierarchies, search
from mizzen.confinement.cgroups.groups import Cgroup, Limits
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from tests.support import escapes
from tests.support.planes import wait_until

pytestmark = pytest.mark.skipif(not hierarchies.detect().kill, reason="this machine offers no groups")

WAIT = "import time; time.sleep(600)"


@pytest.fixture
def new_group() -> Iterator[Callable[..., Cgroup]]:
    made: list[Cgroup] = []

    def create(limits: Limits | None = None, within: Hierarchies | None = None) -> Cgroup:
        made.append(Cgroup.create(within or hierarchies.detect(), f"mizzen-test.{os.getpid()}.{len(made)}", limits))
        return made[-1]

    yield create
    for group in made:
        group.end(10)


def start(group: Cgroup, code: str) -> subprocess.Popen[str]:
    doors = group.open_doors()
    try:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", textwrap.dedent(code)],
            text=True, stdout=subprocess.PIPE, preexec_fn=lambda: groups.join(doors),  # noqa: PLW1509
        )  # fmt: skip
    finally:
        for door in doors:
            os.close(door)


def freezer() -> Hierarchies | None:
    """Version 1, also where version 2 is there."""
    mounts, own = hierarchies.read_mounts(), hierarchies.own_groups()
    found = hierarchies.choose([each for each in mounts if each.controllers], own, hierarchies.usable)
    return found if found.kill else None


@pytest.mark.parametrize("version", ["chosen", "freezer"])
def test_a_kill_reaches_what_left_its_session_and_its_parent(new_group: Callable[..., Cgroup], version: str) -> None:
    within = hierarchies.detect() if version == "chosen" else freezer()
    if within is None:
        pytest.skip("there is no freezer")
    word, group = escapes.new_word(), new_group(within=within)
    with start(group, f"{escapes.ESCAPE}\nescape('{word}')\n{WAIT}") as process:
        wait_until(lambda: escapes.sleeping(word), "it has escaped")
        assert group.members() >= {process.pid, *escapes.sleeping(word)}
        assert not group.remove(), "not while processes are in it"
        assert group.end(10)
        assert escapes.sleeping(word) == []
        assert process.wait() == -9
    assert not any(map(os.path.exists, group.folders))


@pytest.mark.parametrize("version", ["chosen", "freezer"])
def test_a_kill_ends_a_fork_bomb(new_group: Callable[..., Cgroup], version: str) -> None:
    within = hierarchies.detect() if version == "chosen" else freezer()
    if within is None or "pids" not in within.limits:
        pytest.skip("this machine cannot limit processes")
    group = new_group(Limits(pids=50), within)
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    with start(group, bomb) as process:
        wait_until(lambda: len(group.members()) >= 40, "it forks")
        assert len(group.members()) <= 50
        assert group.end(30)
        process.wait()


def test_memory_of_all_its_processes_is_limited_and_kills_are_counted(new_group: Callable[..., Cgroup]) -> None:
    if "memory" not in hierarchies.detect().limits:
        pytest.skip("this machine cannot limit memory")
    group = new_group(Limits(memory=64 << 20))
    hog = "import os\nfor _ in range(4):\n    pid = os.fork()\nkept = bytearray(os.urandom(1)) * (40 << 20)\n" + WAIT
    with start(group, hog) as process:
        wait_until(group.oom_kills, "the kernel has ended one of them")
        assert group.end(10)
        process.wait()


def test_changed_limits_apply_to_what_runs(new_group: Callable[..., Cgroup]) -> None:
    if "pids" not in hierarchies.detect().limits:
        pytest.skip("this machine cannot limit processes")
    group = new_group(Limits(pids=1))
    code = """
        import os, sys, time
        while True:
            try:
                pid = os.fork()
                break
            except OSError:
                time.sleep(0.01)
        if pid:
            print("forked", flush=True)
            time.sleep(600)
        time.sleep(600)
    """
    with start(group, code) as process:
        wait_until(lambda: process.pid in group.members(), "it runs")
        group.limit(Limits(pids=5))
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        group.end(10)


def test_groups_are_found_by_their_names_alone(new_group: Callable[..., Cgroup]) -> None:
    group = new_group(Limits())
    (found,) = search.groups_anywhere(group.name)
    assert found.name == group.name
    assert set(found.folders) == set(group.folders)
    with start(group, WAIT) as process:
        assert found.members() == {process.pid}
        found.end(10)
        process.wait()


def test_only_old_empty_groups_of_others_are_removed(new_group: Callable[..., Cgroup]) -> None:
    empty, used = new_group(), new_group()
    with start(used, WAIT) as process:
        search.remove_abandoned(hierarchies.detect(), time.time())
        assert all(map(os.path.exists, empty.folders)), "it may be about to be used"
        search.remove_abandoned(hierarchies.detect(), time.time() + 7200)
        assert not any(map(os.path.exists, empty.folders))
        assert used.members() == {process.pid}
        used.end(10)


def test_trying_leaves_nothing() -> None:
    hierarchies.choose(hierarchies.read_mounts(), hierarchies.own_groups(), hierarchies.usable)
    bases = {hierarchies.detect().kill, *hierarchies.detect().limits.values()}
    assert not [path for base in bases for path in Path(base).glob(f"mizzen-probe.{os.getpid()}")]
