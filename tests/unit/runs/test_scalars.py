"""Scalars that training wrote: read as TensorBoard itself reads them, by step, and never more than was written."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary import Writer
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from mizzen.runs.paths import JobPlace, events
from mizzen.runs.scalars import reader, tfevents
from mizzen.runs.scalars.curve import KEPT, Curve, Point, thin_out
from mizzen.runs.scalars.reader import MonitoredJob, Read, Run, ScalarQuery, Scalars, Series
from tests.support.examples import examples

ALL = ScalarQuery(points=KEPT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where version 1 of `iris` logs in job `j`."""
    return log_dir(tmp_path, "1", "j")


def log_dir(data_dir: Path, version: str, job: str, replica: str = "") -> Path:
    place = events(data_dir, namespace="default", model="iris", version=version, job=job, replica=replica)
    place.mkdir(parents=True, exist_ok=True)
    return place


def read(data_dir: Path, wanted: ScalarQuery = ALL, *jobs: MonitoredJob) -> Read:
    return Scalars(data_dir).read("default", "iris", wanted, jobs)


def only(found: Read) -> Series:
    assert len(found.series) == 1, found
    return found.series[0]


def told(series: Series) -> list[tuple[int, float]]:
    return [(step, value) for step, value, _ in series.points]


def write(folder: Path, *points: tuple[int, float], tag: str = "loss") -> Path:
    """As TensorFlow 2 does. The file."""
    before = set(folder.glob("*"))
    writer = Writer(str(folder))
    for step, value in points:
        writer.add_scalar(tag, value, step, wall_time=1000.0 + step)
    writer.close()
    (file,) = set(folder.glob("*")) - before
    return file


def test_tensorboard_reads_the_same(tmp_path: Path, folder: Path) -> None:
    write(folder, *((step, math.sin(step)) for step in range(0, 300, 3)))
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    accumulator.Reload()
    theirs = [(each.step, each.tensor_proto.float_val[0]) for each in accumulator.Tensors("loss")]
    series = only(read(tmp_path))
    assert told(series) == theirs
    assert len(theirs) == 100
    assert series.points[1][2] == 1003.0
    assert (series.run, series.tag, series.source) == (Run("1", "j"), "loss", "events")


def test_scalars_in_all_spellings_and_nothing_else(tmp_path: Path, folder: Path) -> None:
    writer = EventFileWriter(str(folder))

    def add(step: int, *values: Summary.Value) -> None:
        writer.add_event(Event(wall_time=1.0, step=step, summary=Summary(value=values)))

    def tensor(tag: str, **fields: object) -> Summary.Value:
        return Summary.Value(tag=tag, tensor=TensorProto(**fields))

    add(1, Summary.Value(tag="simple", simple_value=0.5))  # PyTorch and TensorFlow 1
    add(2, scalar_pb("double", 0.25).value[0])
    add(3, tensor("content", dtype=2, tensor_content=b"\x00\x00\x00\x00\x00\x00\xf0\x3f"))
    add(4, tensor("int", dtype=3, int_val=[-7]), tensor("long", dtype=9, int64_val=[1 << 40]))
    add(-5, Summary.Value(tag="before", simple_value=1.0))
    two = {"dim": [{"size": 2}]}
    add(6, tensor("several", dtype=1, float_val=[1.0, 2.0], tensor_shape=two))
    add(6, tensor("text", dtype=7, string_val=[b"words"]))
    add(6, Summary.Value(tag="image", image=Summary.Image(height=1, width=1, encoded_image_string=b"x")))
    add(6, tensor("_hparams_/experiment", dtype=1, float_val=[0.0]))
    writer.close()
    found = {each.tag: told(each) for each in read(tmp_path).series}
    assert found == {
        "simple": [(1, 0.5)], "double": [(2, 0.25)], "content": [(3, 1.0)], "int": [(4, -7.0)],
        "long": [(4, float(1 << 40))], "before": [(-5, 1.0)],
    }  # fmt: skip


@given(st.binary(max_size=64))
@settings(max_examples=examples(200), deadline=None)
def test_checksums_are_those_of_tensorboard(data: bytes) -> None:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    assert tfevents.mask_crc(data) == masked_crc32c(data)


@given(st.binary(max_size=300))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_is_in_a_file_reading_it_ends_well(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    data_dir = tmp_path_factory.mktemp("any")
    place = log_dir(data_dir, "1", "j")
    for name in ("events.out.tfevents.1", "metrics.jsonl", "metrics.csv"):
        (place / name).write_bytes(data)
    for each in read(data_dir).series:
        assert each.points


def test_a_tail_that_is_not_whole_yet_is_read_when_it_is(tmp_path: Path, folder: Path) -> None:
    file = write(folder, *((step, float(step)) for step in range(5)))
    whole = file.read_bytes()
    for size in range(len(whole) - 40, len(whole)):
        file.write_bytes(whole[:size])
        found = read(tmp_path)
        assert not found.words
        assert told(only(found)) == [(step, float(step)) for step in range(4)]
    scalars = Scalars(tmp_path)
    assert len(only(scalars.read("default", "iris", ALL)).points) == 4
    file.write_bytes(whole)
    assert len(only(scalars.read("default", "iris", ALL)).points) == 5


def test_what_is_damaged_is_left_out_with_a_word(tmp_path: Path, folder: Path) -> None:
    file = write(folder, *((step, float(step)) for step in range(20)))
    content = bytearray(file.read_bytes())
    content[-30] ^= 0xFF
    file.write_bytes(content)
    found = read(tmp_path)
    assert told(only(found)) == [(step, float(step)) for step in range(19)]
    (word,) = found.words
    assert "1/j is damaged from byte" in word


def test_only_what_is_new_is_read_again(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(folder, *((step, float(step)) for step in range(1000)))
    size = file.stat().st_size
    spent: list[int] = []
    pread = os.pread

    def counted(handle: int, length: int, offset: int) -> bytes:
        data = pread(handle, length, offset)
        spent.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    scalars = Scalars(tmp_path)
    scalars.read("default", "iris", ALL)
    assert sum(spent) == size
    spent.clear()
    scalars.read("default", "iris", ALL)
    assert not sum(spent)
    with file.open("ab") as more:
        more.write(write(log_dir(tmp_path, "9", "other"), (1000, 1.0)).read_bytes())
    found = scalars.read("default", "iris", ScalarQuery(version="1"))
    assert found.series[0].points[-1][:2] == (1000, 1.0)
    assert sum(spent) < size / 10


def test_much_is_read_in_several_answers(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write(folder / f"part{number}", (1, 1.0))
    monkeypatch.setattr(reader, "BUDGET", 100)
    scalars = Scalars(tmp_path)
    answers = [scalars.read("default", "iris", ALL) for _ in range(4)]
    assert [len(each.series) for each in answers] == [1, 2, 3, 4]
    assert [each.behind for each in answers] == [True, True, True, False]


def test_a_file_that_is_another_now_is_read_from_its_beginning(tmp_path: Path, folder: Path) -> None:
    scalars, file = Scalars(tmp_path), folder / "metrics.csv"
    file.write_text("step,loss\n1,0.5\n2,0.25\n")
    assert told(only(scalars.read("default", "iris", ALL))) == [(1, 0.5), (2, 0.25)]
    file.write_text("step,loss,accuracy\n1,9,\n2,8,0.5\n3,7,0.6\n")
    found = {each.tag: told(each) for each in scalars.read("default", "iris", ALL).series}
    assert found == {"loss": [(1, 9), (2, 8), (3, 7)], "accuracy": [(2, 0.5), (3, 0.6)]}


def test_metric_files_are_lines_of_json_or_a_table(tmp_path: Path) -> None:
    lines = [
        {"step": 1, "time": 7.0, "metrics": {"loss": 0.5, "none": None, "word": "x", "yes": True}},
        {"step": 2, "loss": 0.25, "time": 8.0},
        {"metrics": {"loss": 1}},
    ]
    (log_dir(tmp_path, "1", "json") / "metrics.jsonl").write_text(
        "\n".join(map(json.dumps, lines)) + '\nno json\n{"step": 3, "metrics": {"loss": 0.1'
    )
    (log_dir(tmp_path, "1", "table") / "metrics.csv").write_text("epoch,step,val_loss\n0,10,0.5\n0,20,\n1,30,nan\n")
    (log_dir(tmp_path, "1", "words") / "metrics.csv").write_text("a,b\n1,2\n")
    found = read(tmp_path)
    by_job = {(each.run.job, each.tag): told(each) for each in found.series}
    assert by_job[("json", "loss")] == [(1, 0.5), (2, 0.25)]
    assert math.isnan(by_job[("json", "none")][0][1])
    assert [step for step, _ in by_job[("table", "val_loss")]] == [10, 30]
    assert set(by_job) == {("json", "loss"), ("json", "none"), ("table", "val_loss")}
    assert found.words == ("metrics.csv of 1/words has none of the columns step, global_step, iteration, epoch",)


def test_progress_reports_tell_what_nothing_else_tells(tmp_path: Path, folder: Path) -> None:
    write(folder, (1, 0.5))
    for replica in ("worker-0", "worker-1"):
        place = JobPlace(tmp_path, "uid").replica(replica)
        place.folder.mkdir(parents=True)
        report = {"step": 4, "total": 10, "metrics": {"loss": 9.0, "speed": 2.0}, "message": "", "time": 5.0}
        place.past_progress.write_text(json.dumps(report) + "\n")
    alone = JobPlace(tmp_path, "other").replica("master-0")
    alone.folder.mkdir(parents=True)
    alone.past_progress.write_text('{"step": 1, "metrics": {"loss": 3.0}}\n')
    jobs = (MonitoredJob("j", "uid", "1"), MonitoredJob("k", "other", ""))
    found = {(each.run, each.tag): (each.source, told(each)) for each in read(tmp_path, ALL, *jobs).series}
    assert found[Run("1", "j"), "loss"] == ("events", [(1, 0.5)])
    assert found[Run("1", "j", "worker-1"), "speed"] == ("progress", [(4, 2.0)])
    assert found[Run("unversioned", "k"), "loss"] == ("progress", [(1, 3.0)])


def test_of_two_files_that_tell_the_same_the_event_file_counts(tmp_path: Path, folder: Path) -> None:
    write(folder, (1, 0.5))
    (folder / "metrics.jsonl").write_text('{"step": 1, "metrics": {"loss": 0.6, "more": 1}}\n')
    found = {each.tag: each.source for each in read(tmp_path).series}
    assert found == {"loss": "events", "more": "metrics.jsonl"}


def test_folders_of_the_code_are_part_of_tags_and_replicas_are_not(tmp_path: Path, folder: Path) -> None:
    write(folder / "validation", (1, 0.5), tag="epoch_loss")
    write(log_dir(tmp_path, "2", "k", "worker-1") / "train", (1, 0.5), tag="epoch_loss")
    found = read(tmp_path)
    assert [(each.run, each.tag) for each in found.series] == [
        (Run("1", "j"), "validation/epoch_loss"), (Run("2", "k", "worker-1"), "train/epoch_loss"),
    ]  # fmt: skip
    assert found.tags == ("train/epoch_loss", "validation/epoch_loss")


def test_a_job_that_goes_on_from_a_checkpoint_tells_its_steps_anew(tmp_path: Path, folder: Path) -> None:
    first, second = (
        write(folder, *((step, 1.0) for step in range(10))),
        write(folder, *((step, 2.0) for step in (5, 7))),
    )
    first.rename(folder / "events.out.tfevents.1000.host")
    second.rename(folder / "events.out.tfevents.2000.host")
    assert told(only(read(tmp_path))) == [*((step, 1.0) for step in range(5)), (5, 2.0), (7, 2.0)]


def test_versions_stand_in_their_order_and_what_is_asked_for_is_told(tmp_path: Path) -> None:
    for version in ("10", "9", "blue"):
        write(log_dir(tmp_path, version, f"job-{version}"), (1, 1.0))
        write(log_dir(tmp_path, version, f"job-{version}"), (1, 1.0), tag="accuracy")
    assert [each.run.version for each in read(tmp_path, ScalarQuery(tag="loss")).series] == ["9", "10", "blue"]
    found = read(tmp_path, ScalarQuery(tag="loss", job="job-9"))
    assert (only(found).run.version, found.tags) == ("9", ("accuracy", "loss"))


def test_what_is_no_file_of_the_job_is_not_read(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "secret.csv"
    outside.write_text("step,salary\n1,9\n")
    (folder / "metrics.csv").symlink_to(outside)
    os.mkfifo(folder / "metrics.jsonl")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "metrics.csv").write_text("step,salary\n1,9\n")
    (folder / "link").symlink_to(elsewhere, target_is_directory=True)
    assert read(tmp_path).series == ()


def test_tags_are_bounded(tmp_path: Path, folder: Path) -> None:
    said = {f"tag{number}": 1.0 for number in range(400)}
    lines = [
        {"step": 1, "metrics": said | {"x" * 201: 1.0, "a\nb": 1.0}},
        {"step": 2, "metrics": {f"more{n}": 1 for n in range(400)}},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read(tmp_path)
    assert len(found.tags) == 500
    assert all(len(tag) <= 200 and tag.isprintable() for tag in found.tags)


def test_a_line_without_an_end_is_passed_over(tmp_path: Path, folder: Path) -> None:
    with (folder / "metrics.jsonl").open("w") as file:
        file.write("x" * (5 << 20) + "\n")
        file.write('{"step": 1, "metrics": {"loss": 0.5}}\n')
    scalars = Scalars(tmp_path)
    while (found := scalars.read("default", "iris", ALL)).behind:
        pass
    assert told(only(found)) == [(1, 0.5)]


VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan))


@given(st.lists(VALUES, min_size=1, max_size=400), st.integers(4, 60))
@settings(max_examples=examples(200), deadline=None)
def test_thinning_keeps_first_last_lowest_and_highest(values: list[float], most: int) -> None:
    points: list[Point] = [(step, value, 0.0) for step, value in enumerate(values)]
    kept = thin_out(points, most)
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    steps = [step for step, _, _ in kept]
    assert steps == sorted(set(steps))
    numbers = [value for value in values if math.isfinite(value)]
    if numbers:
        left = [value for _, value, _ in kept if math.isfinite(value)]
        assert (min(left), max(left)) == (min(numbers), max(numbers))


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), max_size=200))
@settings(max_examples=examples(200), deadline=None)
def test_steps_of_a_curve_only_grow(said: list[tuple[int, int]]) -> None:
    curve, expected = Curve(), dict[int, float]()
    for step, value in said:
        curve.add(step, float(value), 0.0)
        expected = {known: old for known, old in expected.items() if known < step} | {step: float(value)}
    assert {step: value for step, value, _ in curve} == expected


def test_long_curves_are_thinned_and_keep_their_ends_and_extremes() -> None:
    curve = Curve()
    for step in range(50_000):
        curve.add(step, 99.0 if step == 12_345 else -99.0 if step == 30_001 else 0.0, 0.0)
    points = list(curve)
    assert len(points) < 2 * KEPT
    assert (points[0][0], points[-1][0]) == (0, 49_999)
    assert {(12_345, 99.0), (30_001, -99.0)} <= {(step, value) for step, value, _ in points}
