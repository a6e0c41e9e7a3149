"""What becomes a checkpoint, and what never does."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from mizzen.runner.checkpoints import entries
from mizzen.runner.checkpoints.publish import Publisher
from tests.support.planes import wait_until
from tests.support.runner.attempts import LIMIT, Attempts

SAVES = """
    import json, os, pathlib, sys, time
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])

    def rename(name, text):
        (folder / f".{name}").write_text(text)
        os.rename(folder / f".{name}", folder / name)

    def wait_for(name):
        while not (folder / name).exists():
            time.sleep(0.01)
"""


def names(attempts: Attempts) -> list[str]:
    return sorted(checkpoint.name for checkpoint in attempts.kept())


def test_what_is_renamed_into_place_is_a_checkpoint_at_once(attempts: Attempts) -> None:
    runner = attempts.start(f"{SAVES}\n    rename('step_100', 'weights')\n    time.sleep(600)")
    wait_until(attempts.kept, "a checkpoint while the command runs")
    runner.terminate()
    runner.wait(LIMIT)
    found = attempts.kept()[0]
    assert (found.name, found.step, found.job, found.version_uid) == ("step_100", 100, "iris-1-abcde", "v-uid")
    assert found.id.startswith("iris-1-abcde-")
    assert attempts.content(found) == {"step_100": b"weights"}


def test_what_is_written_in_place_is_one_when_the_command_ends_well(attempts: Attempts) -> None:
    attempts.run(
        f"""{SAVES}
    (folder / "last").mkdir()
    (folder / "last" / "weights").write_text("all of them")
    (folder / "last" / "deep").mkdir()
    (folder / "last" / "deep" / "more").write_text("and more")
    (folder / "last" / "link").symlink_to("weights")
    for name in (".hidden", "half.tmp", "half.part"):
        (folder / name).write_text("no")
    (folder / "empty").mkdir()
    """
    )
    assert names(attempts) == ["last"]
    assert attempts.content(attempts.kept()[0]) == {"deep/more": b"and more", "weights": b"all of them"}


@pytest.mark.parametrize("end", ["sys.exit(1)", "os.kill(os.getpid(), 9)"])
def test_what_was_written_in_place_by_a_command_that_failed_may_be_half_and_is_none(
    attempts: Attempts, end: str
) -> None:
    attempts.run(f"{SAVES}\n    rename('good', 'x')\n    (folder / 'half').write_text('h')\n    {end}")
    assert names(attempts) == ["good"]


def test_what_an_attempt_before_left_half_is_none_when_this_one_ends_well(attempts: Attempts) -> None:
    attempts.run(
        f"{SAVES}\n    (folder / 'half').write_text('h')\n    (folder / 'mended').write_text('h')\n    sys.exit(1)"
    )
    attempts.run(f"{SAVES}\n    (folder / 'mended').write_text('whole')", attempt=1)
    assert names(attempts) == ["mended"]
    assert attempts.content(attempts.kept()[0]) == {"mended": b"whole"}


def test_what_is_replaced_is_another_checkpoint_and_so_is_the_same_when_it_is_saved_again(attempts: Attempts) -> None:
    runner = attempts.start(
        f"""{SAVES}
    rename("best", "first")
    wait_for(".go-2")
    rename("best", "second")
    wait_for(".go-3")
    rename("best", "first")
    time.sleep(600)
    """
    )
    for count in (1, 2, 3):
        wait_until(lambda count=count: len(attempts.kept()) == count, f"{count} checkpoints")  # type: ignore[misc]
        (attempts.job.checkpoints / f".go-{count + 1}").touch()
    runner.terminate()
    runner.wait(LIMIT)
    assert [attempts.content(each)["best"] for each in attempts.kept()] == [b"first", b"second", b"first"]


def test_its_sha256_is_that_of_its_file_and_of_several_one_over_all(attempts: Attempts) -> None:
    attempts.run(
        f"""{SAVES}
    rename("alone", "weights")
    (folder / "several").mkdir()
    for name in "ab":
        (folder / "several" / name).write_text("weights")
    """
    )
    found = {each.name: each.sha256 for each in attempts.kept()}
    alone = hashlib.sha256(b"weights").hexdigest()
    assert found["alone"] == alone
    digest = f"sha256:{alone}"
    assert found["several"] == hashlib.sha256(f"a\0{digest}\0b\0{digest}\0".encode()).hexdigest()


def test_each_of_many_checkpoints_costs_two_lines_of_the_ledger(attempts: Attempts) -> None:
    """However many there are: that it is complete, and that it is published."""
    folder, ledger = attempts.job.checkpoints, attempts.job.folder / ".checkpoints.jsonl"
    folder.mkdir(parents=True)
    publisher = Publisher(attempts.task, attempts.job, attempts.blobs, lambda: None)
    publisher.begin()
    before = ledger.read_bytes().count(b"\n")
    many = [f"c-{number}" for number in range(100)]
    for name in many:
        (folder / name).write_text(name)
    publisher.on_rename(many)
    assert publisher.publish()
    assert names(attempts) == sorted(many)
    assert ledger.read_bytes().count(b"\n") - before == 2 * len(many)


def test_step_and_metrics_are_those_beside_it_else_of_its_name_and_the_last_report(attempts: Attempts) -> None:
    attempts.run(
        f"""{SAVES}
    pathlib.Path(os.environ["MIZZEN_PROGRESS"]).write_text(json.dumps({{"step": 7, "metrics": {{"loss": 0.5}}}}))
    (folder / ".told-1.meta.json").write_text(json.dumps({{"step": 3, "metrics": {{"loss": 0.25, "bad": None}}}}))
    rename("told-1", "a")
    (folder / "epoch=9.pt").write_text("b")
    (folder / "last").write_text("c")
    """
    )
    found = {each.name: (each.step, each.metrics) for each in attempts.kept()}
    assert found == {"told-1": (3, {"loss": 0.25}), "epoch=9.pt": (9, {"loss": 0.5}), "last": (7, {"loss": 0.5})}


def test_a_checkpoint_that_the_code_removes_at_once_is_none_and_no_fault(attempts: Attempts) -> None:
    ended = attempts.run(
        f"{SAVES}\n    for i in range(200):\n        rename(f'c-{{i}}', str(i))\n        (folder / f'c-{{i}}').unlink()"
    )
    assert ended.code == 0
    assert all(attempts.content(each) == {each.name: str(each.step).encode()} for each in attempts.kept())


def test_it_says_whether_it_may_be_unpickled_and_what_loads_it(attempts: Attempts) -> None:
    attempts.run(
        f"{SAVES}\n    (folder / 'tf').mkdir()\n    (folder / 'tf' / 'saved_model.pb').write_text('x')", trusted=True
    )
    found = attempts.kept()[0]
    assert (found.trusted, found.framework, found.entrypoint) == (True, "tensorflow", "saved_model.pb")


def test_a_folder_that_the_code_makes_anew_is_looked_at_again(attempts: Attempts) -> None:
    runner = attempts.start(
        f"""{SAVES}
    import shutil
    shutil.rmtree(folder)
    folder.mkdir()
    for i in range(1000):
        rename(f"c-{{i}}", str(i))
        time.sleep(0.05)
    """
    )
    wait_until(attempts.kept, "a checkpoint in the new folder")
    runner.terminate()
    runner.wait(LIMIT)


def test_a_job_whose_folder_is_gone_finds_its_newest_checkpoint_again(attempts: Attempts) -> None:
    attempts.run(f"{SAVES}\n    rename('c-1', 'one')\n    time.sleep(0.01)\n    rename('c-2', 'two')")
    shutil.rmtree(attempts.job.folder)
    ended = attempts.run(
        f"{SAVES}\n    print([(path.name, path.read_text()) for path in folder.glob('c-*')])", attempt=1
    )
    assert ended.code == 0, ended.message
    assert attempts.printed()[-1] == "[worker-0] [('c-2', 'two')]"
    assert len(attempts.kept()) == 2, "what was restored is the checkpoint that it was"
    assert attempts.run("print('again')", attempt=2).code == 0
    assert len(attempts.kept()) == 2, "also for the attempts to come"


def test_a_restarted_attempt_finds_the_folder_as_it_was(attempts: Attempts) -> None:
    attempts.run(f"{SAVES}\n    rename('c-1', 'one')\n    sys.exit(1)")
    attempts.run(f"{SAVES}\n    print((folder / 'c-1').read_text())", attempt=1)
    assert attempts.printed() == ["[worker-0] one"]
    assert len(attempts.kept()) == 1


def test_two_replicas_that_look_at_one_folder_make_one_checkpoint_of_it(attempts: Attempts) -> None:
    cluster = {"worker": ("127.0.0.1:1", "127.0.0.1:2")}
    other = attempts.start(f"{SAVES}\n    wait_for('.end')", cluster=cluster, replica="worker-1")
    attempts.until_begun("worker-1")
    ended = attempts.run(
        f"{SAVES}\n    rename('c-1', 'one')\n    (folder / 'last').write_text('in place')",
        cluster=cluster,
        replica="worker-0",
    )
    assert ended.code == 0
    (attempts.job.checkpoints / ".end").touch()
    assert other.wait(LIMIT) == 0
    assert names(attempts) == ["c-1", "last"]


@pytest.mark.parametrize(
    ("name", "step"),
    [("ckpt-100", 100), ("step_7.pt", 7), ("epoch=3", 3), ("model-20.tar.gz", 20), ("best", None), ("v2-final", None)],
)
def test_a_step_is_the_number_a_name_ends_with(name: str, step: int | None) -> None:
    assert entries.step_of(name) == step


@pytest.mark.parametrize("meta", ["[]", "{", '{"step": "x", "metrics": 3}', '{"metrics": {"a": "b", "c": true}}'])
def test_what_is_told_beside_a_checkpoint_may_be_anything(tmp_path: Path, meta: str) -> None:
    (tmp_path / ".c.meta.json").write_text(meta)
    assert entries.read_sidecar(tmp_path, "c") in (None, (None, {}))


def test_a_signature_changes_with_any_file_of_an_entry(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "a").write_text("a")
    first = entries.read_entry(tmp_path, "c")
    (folder / "b").write_text(json.dumps({}))
    second = entries.read_entry(tmp_path, "c")
    assert first is not None
    assert second is not None
    assert first.signature != second.signature
