"""Records are written by one process and found by any, within their bounds."""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.graph.table_types import RecordLimits
from mizzen.selection.records import segments
from mizzen.selection.records.lookup import find
from mizzen.selection.records.record import RoutingRecord, encode_record
from mizzen.selection.records.writer import LINGER_SECONDS, RETRY_SECONDS, RecordLog

WHAT = encode_record(3, [("a", "b", 0.9)], [("a", ""), ("b", "1")])
RECORD = RoutingRecord(3, [("a", "b", 0.9)], [("a", ""), ("b", "1")])
OUTPUTS = b'[{"name":"predict","datatype":"INT64","shape":[1],"data":[1]}]'
DAY = 86400.0


class Wall:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def log(tmp_path: Path, wall: Wall) -> Iterator[RecordLog]:
    log = RecordLog(tmp_path, 7, kept(), wall=wall)
    yield log
    log.close()


def kept(max_bytes: int = 64 << 20, max_seconds: float = DAY) -> RecordLimits:
    return RecordLimits(uid="u", max_bytes=max_bytes, max_seconds=max_seconds)


def written(log: RecordLog, what: bytes = WHAT, user: bytes = b"", outputs: bytes = OUTPUTS) -> bytes:
    id_ = log.reserve()
    log.write(id_, what, user, outputs)
    return id_


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.seg"))


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_record_is_found_as_it_was_written(tmp_path: Path, log: RecordLog, wall: Wall) -> None:
    id_ = log.reserve()
    wall.now += 2.5
    log.write(id_, WHAT, "zoë".encode(), OUTPUTS)
    found = find(tmp_path, "u", id_)
    assert found is not None
    assert found == (id_, wall.now, "zoë", OUTPUTS, RECORD)


def test_an_id_fits_into_urls_and_headers(log: RecordLog) -> None:
    ids = {log.reserve() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(rb"[0-9a-f]{32}", id_) for id_ in ids)


def test_what_was_reserved_and_never_written_is_unknown(tmp_path: Path, log: RecordLog) -> None:
    unwritten, neighbour = log.reserve(), written(log)
    assert find(tmp_path, "u", unwritten) is None
    assert find(tmp_path, "u", neighbour) is not None


def test_nothing_is_on_disk_before_it_is_needed(tmp_path: Path, log: RecordLog) -> None:
    assert not list(tmp_path.iterdir())
    log.close()
    assert not list(tmp_path.iterdir())


def test_records_that_end_in_any_order_keep_apart(tmp_path: Path, log: RecordLog) -> None:
    ids = [log.reserve() for _ in range(50)]
    for place, id_ in reversed(list(enumerate(ids))):
        log.write(id_, encode_record(place, [], []), b"", b"")
    assert [found.what.generation for id_ in ids if (found := find(tmp_path, "u", id_))] == list(range(50))


@settings(deadline=None)
@given(
    generation=st.integers(0, 2**53),
    decisions=st.lists(st.tuples(st.text(), st.text(), st.floats(0, 1)), max_size=5),
    ran=st.lists(st.tuples(st.text(), st.text()), max_size=5),
    user=st.text(max_size=segments.MAX_USER // 4),
    outputs=st.binary(max_size=segments.MAX_OUTPUTS),
)
def test_whatever_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    generation: int,
    decisions: list[tuple[str, str, float]],
    ran: list[tuple[str, str]],
    user: str,
    outputs: bytes,
) -> None:
    folder = tmp_path_factory.mktemp("records")
    wall = Wall()
    log = RecordLog(folder, 0, kept(), wall=wall)
    try:
        id_ = written(log, encode_record(generation, decisions, ran), user.encode(), outputs)
        found = find(folder, "u", id_)
    finally:
        log.close()
    assert found == (id_, wall.now, user, outputs, RoutingRecord(generation, decisions, ran))


def test_of_an_answer_that_is_too_large_is_kept_that_it_was(tmp_path: Path, log: RecordLog) -> None:
    largest = find(tmp_path, "u", written(log, outputs=b"x" * segments.MAX_OUTPUTS))
    beyond = find(tmp_path, "u", written(log, outputs=b"x" * (segments.MAX_OUTPUTS + 1)))
    assert largest is not None
    assert beyond is not None
    assert largest.outputs == b"x" * segments.MAX_OUTPUTS
    assert beyond.outputs is None
    assert beyond.what == RECORD


def test_a_user_that_is_too_long_is_nobody(tmp_path: Path, log: RecordLog) -> None:
    found = find(tmp_path, "u", written(log, user=b"x" * (segments.MAX_USER + 1)))
    assert found is not None
    assert found.user == ""


def test_a_record_that_no_segment_can_hold_is_lost_alone(tmp_path: Path, log: RecordLog) -> None:
    huge = written(log, encode_record(1, [("n" * 300_000, "", 0.0)], []))
    assert find(tmp_path, "u", huge) is None
    assert log.lost == 1
    assert find(tmp_path, "u", written(log)) is not None


def test_a_full_segment_is_followed_by_a_larger_one(tmp_path: Path, log: RecordLog) -> None:
    ids = [written(log, outputs=b"x" * 4000) for _ in range(200)]
    assert all(find(tmp_path, "u", id_) for id_ in ids)
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert len(sizes) > 1
    assert sizes == sorted(sizes)
    assert log.lost == 0


def test_slots_alone_can_fill_a_segment(tmp_path: Path, log: RecordLog) -> None:
    ids = [log.reserve() for _ in range(150_000)]
    assert len(files(tmp_path)) > 2
    for id_ in ids[:: len(ids) // 100]:
        log.write(id_, WHAT, b"", OUTPUTS)
        assert find(tmp_path, "u", id_) is not None
    assert find(tmp_path, "u", ids[1]) is None
    assert log.lost == 0


def test_a_record_may_end_after_its_segment_is_full(tmp_path: Path, log: RecordLog) -> None:
    early = [log.reserve() for _ in range(100)]
    while len(files(tmp_path)) < 3:
        written(log, outputs=b"x" * 4000)
    for id_ in early:
        log.write(id_, WHAT, b"", OUTPUTS)
    assert all(find(tmp_path, "u", id_) for id_ in early)


def test_one_that_ends_much_too_late_is_lost(tmp_path: Path, log: RecordLog, wall: Wall) -> None:
    early = log.reserve()
    for _ in range(2):
        wall.now += max(DAY, LINGER_SECONDS + 1)
        written(log)
    log.write(early, WHAT, b"", OUTPUTS)
    assert log.lost == 1


def test_bytes_are_bounded_by_removing_the_oldest_segment(tmp_path: Path, wall: Wall) -> None:
    most = 1 << 20
    log = RecordLog(tmp_path, 0, kept(most), wall=wall)
    ids = []
    for place in range(2000):
        ids.append(written(log, outputs=b"x" * 2000))
        log.add_client_id(ids[-1], b"mine-%d" % place)
        assert total(tmp_path) <= most
    log.close()
    known = [find(tmp_path, "u", id_) is not None for id_ in ids]
    assert known == sorted(known), "the oldest go first"
    assert sum(known) * 2000 > most * 0.75
    assert log.lost == 0


def test_what_is_too_old_is_unknown_and_its_segment_goes(tmp_path: Path, wall: Wall) -> None:
    log = RecordLog(tmp_path, 0, kept(max_seconds=3600.0), wall=wall)
    old = written(log)
    first = files(tmp_path)
    wall.now += 3600.0
    assert find(tmp_path, "u", old, since=wall.now - 3600.0) is not None
    assert find(tmp_path, "u", old, since=wall.now - 3599.0) is None
    young = written(log)
    assert first[0] in files(tmp_path), "some of it might not be that old"
    wall.now += 3600.0 / 8 + LINGER_SECONDS + 1
    written(log)
    assert first[0] not in files(tmp_path)
    assert find(tmp_path, "u", old) is None
    assert find(tmp_path, "u", young, since=wall.now - 3600.0) is not None
    log.close()


def test_a_gateway_that_starts_again_goes_on_with_a_new_segment(tmp_path: Path, wall: Wall) -> None:
    ids = []
    for _ in range(3):
        log = RecordLog(tmp_path, 4, kept(), wall=wall)
        ids.append(written(log))
        log.close()
    assert [path.name for path in files(tmp_path)] == ["00000001.seg", "00000002.seg", "00000003.seg"]
    assert all(find(tmp_path, "u", id_) for id_ in ids)


def test_what_was_there_before_a_restart_is_within_the_bound(tmp_path: Path, wall: Wall) -> None:
    most = 256 << 10
    for _ in range(40):
        log = RecordLog(tmp_path, 4, kept(most), wall=wall)
        written(log)
        log.close()
        assert total(tmp_path) <= most


def test_two_of_one_number_do_not_share_a_segment(tmp_path: Path, wall: Wall) -> None:
    """One ends while its successor has begun."""
    both = [RecordLog(tmp_path, 0, kept(), wall=wall) for _ in range(2)]
    ids = [written(log, encode_record(place, [], [])) for place, log in enumerate(both)]
    ids += [written(log, encode_record(place + 2, [], [])) for place, log in enumerate(both)]
    assert [found.what.generation for id_ in ids if (found := find(tmp_path, "u", id_))] == [0, 1, 2, 3]
    for log in both:
        log.close()


def test_an_id_belongs_to_one_uid_and_one_gateway(tmp_path: Path, wall: Wall) -> None:
    logs = [RecordLog(tmp_path, number, kept(), wall=wall) for number in (0, 1)]
    other = RecordLog(tmp_path, 0, RecordLimits(uid="v", max_bytes=1 << 20, max_seconds=DAY), wall=wall)
    ids = [written(log, encode_record(place, [], [])) for place, log in enumerate([*logs, other])]
    for log in (*logs, other):
        log.close()
    assert [found.what.generation for id_ in ids[:2] if (found := find(tmp_path, "u", id_))] == [0, 1]
    assert find(tmp_path, "v", ids[1]) is None
    assert find(tmp_path, "v", ids[0]) is None
    assert find(tmp_path, "w", ids[0]) is None


@pytest.mark.parametrize("gateway", [-1, 0xFFFF])
def test_a_number_that_no_id_can_hold_is_refused(tmp_path: Path, wall: Wall, gateway: int) -> None:
    with pytest.raises(ValueError, match="is not within"):
        RecordLog(tmp_path, gateway, kept(), wall=wall)


def test_where_nothing_can_be_written_predictions_go_on(
    tmp_path: Path, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "records"
    folder.write_text("in the way")
    log = RecordLog(folder, 0, kept(), wall=wall)
    with caplog.at_level(logging.WARNING):
        ids = [written(log) for _ in range(3)]
        log.add_client_id(ids[0], b"mine")
    assert log.lost == 3
    assert len(set(ids)) == 3
    assert all(re.fullmatch(rb"[0-9a-f]{32}", id_) for id_ in ids)
    assert len(caplog.records) == 1
    assert find(folder, "u", ids[0]) is None
    folder.unlink()
    written(log)
    assert log.lost == 4, "it is not tried at every request"
    wall.now += RETRY_SECONDS
    assert find(folder, "u", written(log)) is not None
    assert log.lost == 4
    log.close()


def test_a_full_disk_leaves_no_file_and_loses_no_prediction(
    tmp_path: Path, wall: Wall, log: RecordLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(log, outputs=b"x" * 4000)

    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        while not log.lost:
            written(log, outputs=b"x" * 4000)
        assert len(files(tmp_path)) == 1
        log.add_client_id(before, b"mine")
    assert find(tmp_path, "u", b"mine") is None
    assert find(tmp_path, "u", before) is not None
    wall.now += RETRY_SECONDS
    again = written(log)
    log.add_client_id(again, b"mine")
    assert find(tmp_path, "u", b"mine") is not None


def test_a_file_system_that_cannot_allocate_is_written_to(
    tmp_path: Path, log: RecordLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    assert find(tmp_path, "u", written(log)) is not None


def test_other_bounds_count_for_what_is_there(tmp_path: Path, wall: Wall) -> None:
    before = RecordLog(tmp_path, 0, kept(64 << 20), wall=wall)
    ids = [written(before, outputs=b"x" * 4000) for _ in range(200)]
    before.add_client_id(ids[0], b"mine")
    before.close()
    assert total(tmp_path) > 512 << 10
    after = RecordLog(tmp_path, 0, kept(512 << 10), wall=wall)
    assert find(tmp_path, "u", written(after)) is not None
    assert total(tmp_path) <= 512 << 10
    assert find(tmp_path, "u", ids[0]) is None
    after.close()


def test_what_ends_after_the_log_was_closed_is_lost(tmp_path: Path, log: RecordLog) -> None:
    id_ = log.reserve()
    log.close()
    log.write(id_, WHAT, b"", OUTPUTS)
    assert log.lost == 1
    assert find(tmp_path, "u", id_) is None


_WRITER = """
import os, sys, time
from pathlib import Path
from mizzen.graph.table_types import RecordLimits
from mizzen.selection.records.writer import RecordLog
from mizzen.selection.records.record import encode_record

limits = RecordLimits(uid="u", max_bytes=64 << 20, max_seconds=86400.0)
log = RecordLog(Path(sys.argv[1]), int(sys.argv[2]), limits, wall=time.time)
for place in range(10_000_000):
    id_ = log.reserve()
    log.write(id_, encode_record(place, [], []), b"", b"x" * (place % 100))
    log.add_client_id(id_, b"%s-%d" % (sys.argv[2].encode(), place % 1000))
    os.write(1, id_ + b"\\n")
"""


def test_what_a_killed_process_wrote_is_found_by_others(tmp_path: Path, wall: Wall) -> None:
    for gateway in ("1", "2"):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), gateway], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            ids = [process.stdout.readline().strip() for _ in range(5000)]
            assert find(tmp_path, "u", ids[-1]) is not None, "at once, while it goes on"
            process.send_signal(signal.SIGKILL)
            ids += [line.strip() for line in process.stdout if line.endswith(b"\n")]
        places = [found.what.generation for id_ in ids if (found := find(tmp_path, "u", id_))]
        assert places == list(range(len(ids)))
        named = find(tmp_path, "u", gateway.encode() + b"-7")
        assert named is not None
        assert named.what.generation % 1000 == 7
    successor = RecordLog(tmp_path, 1, kept(), wall=wall)
    assert find(tmp_path, "u", written(successor)) is not None
    assert find(tmp_path, "u", ids[0]) is not None
    successor.close()
