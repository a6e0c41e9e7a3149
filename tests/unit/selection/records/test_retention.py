"""What is left over is removed, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from mizzen.graph.table_types import RecordLimits
from mizzen.selection.records import client_id_index
from mizzen.selection.records.lookup import find
from mizzen.selection.records.record import encode_record
from mizzen.selection.records.retention import sweep
from mizzen.selection.records.writer import LINGER_SECONDS, RecordLog

HOUR = 3600.0


class Wall:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def written(log: RecordLog, chosen: bytes = b"mine") -> bytes:
    id_ = log.reserve()
    log.write(id_, encode_record(1, [], []), b"", b"")
    log.add_client_id(id_, chosen)
    return id_


def log_of(folder: Path, uid: str, gateway: int, wall: Wall) -> RecordLog:
    return RecordLog(folder, gateway, RecordLimits(uid=uid, max_bytes=1 << 20, max_seconds=HOUR), wall=wall)


def test_there_may_be_nothing(tmp_path: Path) -> None:
    sweep(tmp_path / "none", {}, 0.0)
    sweep(tmp_path, {"u": HOUR}, 0.0)


def test_graphs_that_are_gone_take_their_records_with_them(tmp_path: Path) -> None:
    wall = Wall()
    logs = [log_of(tmp_path, uid, 0, wall) for uid in ("gone", "stays")]
    gone, stays = (written(log) for log in logs)
    os.utime(tmp_path / "gone", (wall.now, wall.now))
    sweep(tmp_path, {"stays": HOUR}, wall.now + LINGER_SECONDS)
    assert find(tmp_path, "gone", gone) is not None, "it may have begun since the living were counted"
    sweep(tmp_path, {"stays": HOUR}, wall.now + LINGER_SECONDS + 1)
    assert [path.name for path in tmp_path.iterdir()] == ["stays"]
    assert find(tmp_path, "stays", stays) is not None
    assert find(tmp_path, "gone", gone) is None
    # A gateway that has not heard of it harms nobody, and what it makes anew goes with the next sweep.
    written(logs[0])
    wall.now += HOUR
    written(logs[0])
    os.utime(tmp_path / "gone", (wall.now, wall.now))
    sweep(tmp_path, {"stays": HOUR}, wall.now + LINGER_SECONDS + 1)
    assert [path.name for path in tmp_path.iterdir()] == ["stays"]
    for log in logs:
        log.close()


def test_what_a_gateway_left_is_found_until_it_is_too_old(tmp_path: Path) -> None:
    wall = Wall()
    log = log_of(tmp_path, "u", 0, wall)
    id_ = written(log)
    log.close()
    home = tmp_path / "u" / "0"
    wall.now += HOUR
    sweep(tmp_path, {"u": HOUR}, wall.now)
    assert find(tmp_path, "u", id_) is not None
    wall.now += HOUR / 8 + LINGER_SECONDS + 1
    sweep(tmp_path, {"u": HOUR}, wall.now)
    assert [path.name for path in home.iterdir()] == [client_id_index.NAME]
    os.utime(home, (wall.now, wall.now))
    sweep(tmp_path, {"u": HOUR}, wall.now + LINGER_SECONDS + 1)
    assert not home.exists()
    assert (tmp_path / "u").exists()


def test_a_gateway_that_was_quiet_for_long_goes_on(tmp_path: Path) -> None:
    wall = Wall()
    log = log_of(tmp_path, "u", 0, wall)
    written(log)
    wall.now += 3 * HOUR
    home = tmp_path / "u" / "0"
    sweep(tmp_path, {"u": HOUR}, wall.now)
    os.utime(home, (wall.now - HOUR, wall.now - HOUR))
    sweep(tmp_path, {"u": HOUR}, wall.now)
    assert not home.exists()
    id_ = written(log, b"yours")
    assert find(tmp_path, "u", id_) is not None
    assert find(tmp_path, "u", b"yours") is not None
    log.close()


def test_what_is_no_segment_is_removed_when_it_is_old(tmp_path: Path) -> None:
    home = tmp_path / "u" / "3"
    home.mkdir(parents=True)
    now = 1_700_000_000.0
    for name, age in (("00000001.seg", 3 * HOUR), ("00000002.seg", 0.0), ("notes.txt", 9 * HOUR)):
        (home / name).write_bytes(b"not ours")
        os.utime(home / name, (now - age, now - age))
    sweep(tmp_path, {"u": HOUR}, now)
    assert sorted(path.name for path in home.iterdir()) == ["00000002.seg", "notes.txt"]
