"""Choosing hierarchies from what the kernel says, and groups of version 2 over a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.confinement.cgroups import hierarchies, search
from mizzen.confinement.cgroups.groups import Cgroup, Limits
from mizzen.confinement.cgroups.hierarchies import Hierarchies, Mount

VERSION_1 = """
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 30 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
"""
VERSION_2 = "31 30 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
OWN_1 = "8:pids:/\n6:freezer:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n9:name=systemd:/\n"


def test_version_1_has_a_folder_per_controller_and_kills_by_the_freezer() -> None:
    mounts, own = list(hierarchies.parse_mounts(VERSION_1)), hierarchies.parse_own(OWN_1)
    found = hierarchies.choose(mounts, own, lambda _: True)
    assert found.kill == "/sys/fs/cgroup/freezer"
    assert found.limits == {
        "memory": "/sys/fs/cgroup/memory/a/b", "pids": "/sys/fs/cgroup/pids", "cpu": "/sys/fs/cgroup/cpu,cpuacct",
    }  # fmt: skip
    assert found.missing == ()


def test_both_versions_kill_by_version_2_and_limit_by_version_1() -> None:
    mounts = [*hierarchies.parse_mounts(VERSION_1), Mount("/unified", "/", frozenset())]
    own = hierarchies.parse_own(OWN_1 + "0::/\n")
    found = hierarchies.choose(mounts, own, lambda _: True)
    assert found.kill == "/unified"
    assert found.limits["memory"] == "/sys/fs/cgroup/memory/a/b"


def test_version_2_limits_what_its_parent_allows(tmp_path: Path) -> None:
    own = tmp_path / "system.slice" / "mizzen.service"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("memory pids\n")
    mounts = [Mount(str(tmp_path), "/", frozenset())]
    found = hierarchies.choose(mounts, {"": "/system.slice/mizzen.service"}, lambda _: True)
    assert (found.kill, dict(found.limits)) == (str(own), {"memory": str(own), "pids": str(own)})
    assert found.missing == ("cpu",)


def test_a_supervisor_in_its_leaf_creates_groups_next_to_it() -> None:
    mount = Mount("/sys/fs/cgroup", "/", frozenset())
    assert hierarchies.folder_of(mount, {"": f"/x.service/{hierarchies.LEAF}"}) == "/sys/fs/cgroup/x.service"


@pytest.mark.parametrize(
    ("root", "path", "folder"),
    [("/", "/", "/cg"), ("/docker/1", "/docker/1/x", "/cg/x"), ("/docker/1", "/docker/12", ""), ("/", "/../x", "")],
)
def test_the_own_folder_is_below_what_is_mounted(root: str, path: str, folder: str) -> None:
    assert hierarchies.folder_of(Mount("/cg", root, frozenset()), {"": path}) == folder


def test_nothing_is_used_that_does_not_work_when_tried() -> None:
    mounts, own = list(hierarchies.parse_mounts(VERSION_1 + VERSION_2)), hierarchies.parse_own(OWN_1 + "0::/\n")
    assert hierarchies.choose(mounts, own, lambda _: False) == Hierarchies()
    limits_only = hierarchies.choose(mounts, own, lambda folder: folder.endswith("pids"))
    assert limits_only == Hierarchies(), "limits without a kill that reaches everything are not used"


def test_the_limits_of_version_2(tmp_path: Path) -> None:
    group = fake_group(tmp_path, "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")
    group.limit(Limits(memory=1 << 30, pids=64, cpu=0.5))
    files = {path.name: path.read_text() for path in (tmp_path / "g").iterdir()}
    assert files == {
        "memory.max": str(1 << 30), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "64",
        "cpu.max": "50000 100000",
    }  # fmt: skip
    group.limit(Limits())
    assert (tmp_path / "g" / "memory.max").read_text() == "max"
    assert (tmp_path / "g" / "cpu.max").read_text() == "max 100000"


def test_the_limits_of_version_1(tmp_path: Path) -> None:
    group = fake_group(tmp_path, "memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us")
    group.limit(Limits(memory=4096, cpu=0.001))
    assert (tmp_path / "g" / "memory.limit_in_bytes").read_text() == "4096"
    assert (tmp_path / "g" / "cpu.cfs_quota_us").read_text() == "1000", "the kernel accepts no less"
    assert (tmp_path / "g" / "pids.max").read_text() == "max"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n"),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ],
)
def test_kills_for_memory_are_counted_by_the_kernel(tmp_path: Path, name: str, text: str) -> None:
    group = fake_group(tmp_path, name)
    assert group.oom_kills() == 0
    (tmp_path / "g" / name).write_text(text)
    assert group.oom_kills() == 3


def test_a_kill_of_version_2_is_one_write(tmp_path: Path) -> None:
    fake_group(tmp_path, "cgroup.kill", "cgroup.procs").kill()
    assert (tmp_path / "g" / "cgroup.kill").read_text() == "1"


def test_names_tell_the_process_and_its_start(tmp_path: Path) -> None:
    prefix = search.prefix_of(str(tmp_path))
    assert prefix == search.prefix_of(str(tmp_path))
    assert prefix != search.prefix_of(str(tmp_path.parent))
    name = search.name_of(prefix, "a.b-1.0", "0123abcd")
    assert search.parse_name(prefix, name) == ("a.b-1.0", "0123abcd")
    assert search.parse_name(prefix, name + search.COMMAND) == ("a.b-1.0", "0123abcd")


def test_hierarchies_travel_as_text() -> None:
    found = Hierarchies("/cg", {"pids": "/cg"})
    assert Hierarchies.from_text(found.to_text()) == found
    assert Hierarchies.from_text("nonsense") == Hierarchies()


def fake_group(folder: Path, *files: str) -> Cgroup:
    (folder / "g").mkdir()
    for name in files:
        (folder / "g" / name).touch()
    return Cgroup("g", (str(folder / "g"),))
