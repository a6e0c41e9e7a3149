"""Ids that nobody was given, ids that clients chose, and files that are not what they should be."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.graph.table_types import RecordLimits
from mizzen.selection.records import client_id_index, segments
from mizzen.selection.records.lookup import find
from mizzen.selection.records.record import encode_record
from mizzen.selection.records.writer import RecordLog

KEPT = RecordLimits(uid="u", max_bytes=16 << 20, max_seconds=86400.0)
SMALL = RecordLimits(uid="u", max_bytes=64 << 10, max_seconds=86400.0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RecordLog]:
    log = RecordLog(tmp_path, 0, KEPT, wall=time.time)
    yield log
    log.close()


def written(log: RecordLog, number: int = 1, chosen: bytes = b"", outputs: bytes = b"") -> bytes:
    id_ = log.reserve()
    log.write(id_, encode_record(number, [], []), b"", outputs)
    if chosen:
        log.add_client_id(id_, chosen)
    return id_


def number(folder: Path, id_: bytes) -> int | None:
    found = find(folder, "u", id_)
    return None if found is None else found.what.generation


def test_an_id_is_found_only_with_its_word(tmp_path: Path, log: RecordLog) -> None:
    id_ = written(log)
    assert number(tmp_path, id_) == 1
    assert number(tmp_path, id_.upper()) == 1
    for place in range(len(id_)):
        other = b"1" if id_[place : place + 1] != b"1" else b"2"
        assert number(tmp_path, id_[:place] + other + id_[place + 1 :]) is None
    assert number(tmp_path, id_[:16] + b"0" * 16) is None


def test_one_id_does_not_tell_the_next(tmp_path: Path, log: RecordLog) -> None:
    first, second = written(log, 1), written(log, 2)
    assert number(tmp_path, second[:16] + first[16:]) is None


@pytest.mark.parametrize(
    "id_", [b"", b"x", b"g" * 32, b"0" * 32, b"f" * 32, b"0" * 31, b"../" * 10, "ü".encode(), b"\0" * 32]
)
def test_what_is_no_id_is_unknown(tmp_path: Path, log: RecordLog, id_: bytes) -> None:
    written(log)
    assert find(tmp_path, "u", id_) is None


@settings(deadline=None)
@given(id_=st.binary(max_size=40) | st.from_regex(rb"0{4}0{7}1[0-9a-f]{20}", fullmatch=True))
def test_no_guess_finds_anything(tmp_path_factory: pytest.TempPathFactory, id_: bytes) -> None:
    folder = tmp_path_factory.mktemp("records")
    log = RecordLog(folder, 0, SMALL, wall=time.time)
    ids = {written(log, chosen=b"\xff mine") for _ in range(3)}
    log.close()
    assert id_ in ids or find(folder, "u", id_) is None


def test_what_looks_like_a_record_within_an_answer_is_none(tmp_path: Path, log: RecordLog) -> None:
    """Its slot and its body are complete but for what only the header tells, and it stands where a slot might."""
    word = b"w" * 8
    what = encode_record(99, [], [])
    body = segments.HEAD.pack(word, time.time(), len(what), 0, 0) + what
    victim = written(log)
    size = files(tmp_path)[0].stat().st_size
    for _ in range(2):
        slot = segments.SLOT.pack(1, size - 3000, 0)
        written(log, outputs=body * 20 + slot * 100)
    data = files(tmp_path)[0].read_bytes()
    for place in range(segments.FIRST_SLOT, min(len(data) // segments.SLOT_BYTES, segments.MAX_SLOTS)):
        for guess in (word, bytes.fromhex(victim[16:].decode())[::-1]):
            assert number(tmp_path, segments.id_of(segments.RecordAddress(0, 1, place, guess))) is None


def test_an_id_that_a_client_chose_leads_to_the_record(tmp_path: Path, log: RecordLog) -> None:
    own = written(log, 1, b"mine")
    found = find(tmp_path, "u", b"mine")
    assert found is not None
    assert found.id == own
    assert find(tmp_path, "u", b"yours") is None


def test_of_one_chosen_id_the_newest_record_is_meant(tmp_path: Path) -> None:
    now = 1000.0
    logs = [RecordLog(tmp_path, gateway, KEPT, wall=lambda: now) for gateway in range(3)]
    for turn, log in enumerate((logs[0], logs[2], logs[1], logs[0])):
        now += 1
        written(log, turn, b"mine")
        assert number(tmp_path, b"mine") == turn
    # Reserved and named, and not ended yet: what is known is the one before.
    now += 1
    logs[1].add_client_id(logs[1].reserve(), b"mine")
    assert number(tmp_path, b"mine") == 3
    for log in logs:
        log.close()


def test_an_index_is_bounded_and_forgets_the_oldest_of_a_bucket(tmp_path: Path) -> None:
    now = 1000.0
    log = RecordLog(tmp_path, 0, SMALL, wall=lambda: now)
    size = client_id_index.size_for(SMALL.max_bytes)
    many = size // 10
    for place in range(many):
        now += 1
        written(log, place, b"id-%d" % place)
    log.close()
    assert (tmp_path / "u" / "0" / client_id_index.NAME).stat().st_size == size
    known = [number(tmp_path, b"id-%d" % place) for place in range(many)]
    assert all(found in (None, place) for place, found in enumerate(known))
    assert None in known
    assert known[-1] == many - 1
    assert known[-5:].count(None) == 0


def test_an_index_goes_on_after_a_restart(tmp_path: Path) -> None:
    for turn in range(2):
        log = RecordLog(tmp_path, 0, KEPT, wall=time.time)
        written(log, turn, b"turn-%d" % turn)
        log.close()
    assert [number(tmp_path, b"turn-0"), number(tmp_path, b"turn-1")] == [0, 1]


def test_an_index_that_is_not_one_is_replaced(tmp_path: Path) -> None:
    home = tmp_path / "u" / "0"
    home.mkdir(parents=True)
    (home / client_id_index.NAME).write_bytes(b"something else")
    assert find(tmp_path, "u", b"mine") is None
    log = RecordLog(tmp_path, 0, KEPT, wall=time.time)
    written(log, 5, b"mine")
    log.close()
    assert number(tmp_path, b"mine") == 5


@pytest.mark.parametrize("damage", ["empty", "short", "noise", "zeros", "folder", "unreadable"])
@pytest.mark.parametrize("name", ["00000001.seg", client_id_index.NAME])
def test_a_file_that_is_broken_is_as_good_as_none(tmp_path: Path, log: RecordLog, damage: str, name: str) -> None:
    id_ = written(log, 1, b"mine")
    other = RecordLog(tmp_path, 1, KEPT, wall=time.time)
    healthy = written(other, 2, b"healthy")
    other.close()
    path = tmp_path / "u" / "0" / name
    size = path.stat().st_size
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "unreadable":
        os.mkfifo(path) if os.geteuid() != 0 else path.symlink_to(path)
    else:
        path.write_bytes({"empty": b"", "short": b"MZ", "noise": os.urandom(size), "zeros": bytes(size)}[damage])
    if path.is_fifo():
        path.chmod(0)
    assert number(tmp_path, id_) == (None if name != client_id_index.NAME else 1)
    assert number(tmp_path, b"mine") is None
    assert number(tmp_path, healthy) == number(tmp_path, b"healthy") == 2


def test_no_bit_of_a_record_changes_unnoticed(tmp_path: Path, log: RecordLog) -> None:
    id_ = written(log, 300, outputs=b"what was answered")
    found = find(tmp_path, "u", id_)
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    for place in range(len(data) - 80, len(data)):
        data[place] ^= 0x10
        path.write_bytes(data)
        assert find(tmp_path, "u", id_) in (None, found)
        data[place] ^= 0x10
    path.write_bytes(data)
    assert find(tmp_path, "u", id_) == found


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.seg"))
