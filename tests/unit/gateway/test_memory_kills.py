from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.gateway import memory_kills
from mizzen.gateway.memory_kills import MemoryKills


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("0::/plane/replica-1\n", "plane/replica-1/memory.events"),
        ("5:pids:/a\n4:memory:/b\n0::/c\n", "memory/b/memory.oom_control"),
        ("4:cpu,memory:/\n", "memory/memory.oom_control"),
        ("5:pids:/a\n", None),
    ],
)
def test_the_file_is_that_of_the_cgroup(text: str, file: str | None) -> None:
    found = memory_kills._memory_cgroup(text)
    assert found == (None if file is None else Path("/sys/fs/cgroup") / file)


def test_a_kill_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 2\noom_kill 1\noom_group_kill 0\n")
    kills = MemoryKills(file)
    assert not kills.has_grown()
    file.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert kills.has_grown()
    file.unlink()
    assert not kills.has_grown(), "nothing is known of a cgroup that is gone"
    assert not MemoryKills(None).has_grown()
