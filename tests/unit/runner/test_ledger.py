"""What runners of one set know together: added to by each, read by all, and mended after whoever was killed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mizzen.runner.checkpoints.ledger import Complete, LedgerFile
from mizzen.runs.paths import JobPlace

ONE = Complete("a signature", 5.0)


@pytest.fixture
def job(tmp_path: Path) -> JobPlace:
    return JobPlace(tmp_path, "uid")


def file_of(job: JobPlace) -> Path:
    return job.folder / ".checkpoints.jsonl"


def known(ledgers: LedgerFile) -> dict[str, Complete]:
    with ledgers.open() as ledger:
        return dict(ledger.complete)


def test_what_one_runner_writes_the_others_know(job: JobPlace) -> None:
    mine, other = LedgerFile(job), LedgerFile(job)
    assert known(other) == {}
    with mine.open(sync=True) as ledger:
        ledger.record_complete("c-1", ONE)
        ledger.record_complete("c-2", ONE)
        ledger.doubt({"half": "x"})
    with other.open() as ledger:
        assert (ledger.pending(), ledger.doubtful) == (["c-1", "c-2"], {"half": "x"})
        ledger.forget("c-2")
        ledger.trust("half")
        assert ledger.note("c-2", "odd")
    with mine.open() as ledger:
        assert (ledger.pending(), ledger.doubtful) == (["c-1"], {})
        assert not ledger.note("c-2", "odd"), "it was told already"


def test_what_is_past_goes_and_runners_that_are_under_way_notice(job: JobPlace) -> None:
    mine, other = LedgerFile(job), LedgerFile(job)
    for at in range(50):
        with mine.open() as ledger:
            ledger.record_complete("c-1", Complete("s", float(at), id="id" if at == 49 else ""))
            ledger.note("c-1", f"note {at}")
    assert known(other)["c-1"].at == 49.0
    size = file_of(job).stat().st_size
    other.compact()
    assert file_of(job).stat().st_size < size / 10
    with mine.open() as ledger:
        ledger.record_complete("c-2", ONE)
    assert known(other) == known(LedgerFile(job)) == {"c-1": Complete("s", 49.0, id="id"), "c-2": ONE}


def test_a_change_costs_a_line_however_many_there_were(job: JobPlace) -> None:
    ledgers = LedgerFile(job)
    sizes = [0]
    for at in range(100):
        with ledgers.open() as ledger:
            ledger.record_complete(f"c-{at:03}", ONE)
        sizes.append(file_of(job).stat().st_size)
    assert {after - before for before, after in pairwise(sizes)} == {sizes[1]}


def test_half_a_line_of_somebody_who_was_killed_is_cut_off(job: JobPlace) -> None:
    with LedgerFile(job).open() as ledger:
        ledger.record_complete("c-1", ONE)
    with file_of(job).open("ab") as file:
        file.write(b'no json\n["complete", "c-2", 3]\n["complete", "c-3", {"odd": 1}]\n["complete", "c-4", {"sig')
    ledgers = LedgerFile(job)
    with ledgers.open() as ledger:
        ledger.record_complete("c-5", ONE)
    assert known(ledgers) == known(LedgerFile(job)) == {"c-1": ONE, "c-5": ONE}


def test_what_was_changed_when_something_went_wrong_is_not_written(job: JobPlace) -> None:
    ledgers = LedgerFile(job)

    def fail() -> None:
        with ledgers.open() as ledger:
            ledger.record_complete("c-1", ONE)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert known(ledgers) == {}


def test_a_ledger_that_is_gone_begins_anew(job: JobPlace) -> None:
    ledgers = LedgerFile(job)
    with ledgers.open() as ledger:
        ledger.record_complete("c-1", ONE)
    file_of(job).unlink()
    assert known(ledgers) == {}
