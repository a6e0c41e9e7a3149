"""Whatever stands among the checkpoints, a finished job ends; what is not kept is told, in its log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mizzen.runner.checkpoints import entries
from tests.component.runner.test_checkpoints import SAVES, names
from tests.support.runner.attempts import Attempts


def told(attempts: Attempts) -> list[str]:
    return [line.removeprefix("[worker-0] ") for line in attempts.printed() if "mizzen: " in line]


@pytest.mark.parametrize(
    "meta",
    [
        '{"step": true, "metrics": {"loss": 1' + 401 * "0" + ', "flag": true, "good": 2}}',
        '{"step": 1' + 401 * "0" + ', "metrics": {"good": 2}}',
        '{"step": 1e400, "metrics": {"good": 2, "bad": NaN}}',
    ],
)
def test_numbers_that_are_none_are_left_out_and_the_checkpoint_is_kept(attempts: Attempts, meta: str) -> None:
    ended = attempts.run(f"{SAVES}\n    (folder / '.c.meta.json').write_text('{meta}')\n    rename('c', 'x')")
    assert (ended.code, ended.reason) == (0, "")
    assert [(each.name, each.step, each.metrics) for each in attempts.kept()] == [("c", None, {"good": 2.0})]


def test_pipes_in_the_place_of_what_is_told_hold_up_nothing(attempts: Attempts) -> None:
    ended = attempts.run(
        f"""{SAVES}
    os.mkfifo(os.environ["MIZZEN_PROGRESS"])
    os.mkfifo(os.environ["MIZZEN_PROGRESS"] + "l")
    os.mkfifo(folder / ".c.meta.json")
    rename("c", "x")
    """
    )
    assert (ended.code, ended.reason) == (0, "")
    assert names(attempts) == ["c"]


def test_what_cannot_be_a_checkpoint_is_told_once_in_the_log_and_the_others_are_kept(attempts: Attempts) -> None:
    script = f"""{SAVES}
    deep = folder / "deep"
    deep.mkdir(exist_ok=True)
    at = os.open(deep, os.O_RDONLY)
    for _ in range(3000 if not os.listdir(at) else 0):
        os.mkdir("d", dir_fd=at)
        at, old = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(old)
    open(os.fsencode(folder) + b"/n\\xff", "w").close()
    if not (folder / "latest").is_symlink():
        (folder / "latest").symlink_to("good")
        os.mkfifo(folder / "pipe")
    (folder / ".with").mkdir()
    (folder / ".with" / "a").write_text("a")
    (folder / ".with" / "link").symlink_to("a")
    if not (folder / "with").exists():
        os.rename(folder / ".with", folder / "with")
        rename("good", "x")
    print("no newline at the end", end="", flush=True)
    """
    assert attempts.run(script).code == 0
    assert names(attempts) == ["good", "with"]
    assert "[worker-0] no newline at the end" in attempts.printed()
    link = "it is a link, a pipe, a socket or a device; only files and folders are stored"
    assert sorted(told(attempts)) == [
        f"mizzen: checkpoint 'deep' was not stored: its folders are nested more than {entries.DEEPEST} deep; "
        "pack them into one file",
        f"mizzen: checkpoint 'latest' was not stored: {link}",
        "mizzen: checkpoint 'n\\xff' was not stored: its name is not UTF-8",
        f"mizzen: checkpoint 'pipe' was not stored: {link}",
        "mizzen: checkpoint 'with' was stored without 1 links, pipes or sockets in it",
    ]
    before = told(attempts)
    assert attempts.run("print('again')", attempt=1).code == 0
    assert told(attempts) == before, "another attempt does not tell it again"


def test_what_is_left_out_by_a_command_that_fails_is_told_as_well(attempts: Attempts) -> None:
    attempts.run(f"{SAVES}\n    (folder / 'latest').symlink_to('x')\n    sys.exit(3)")
    assert len(told(attempts)) == 1


def test_an_entry_that_cannot_be_published_for_a_reason_of_its_own_is_left_out(attempts: Attempts) -> None:
    """Its manifest cannot be written: there is a folder in its place."""
    attempts.run(f"{SAVES}\n    rename('c', 'x')\n    sys.exit(1)")
    (kept,) = attempts.kept()
    uri = attempts.blobs.documents.uri(f"checkpoints/default/iris/1/{kept.id}.json")
    place = Path(uri.removeprefix("file://"))
    place.unlink()
    place.mkdir()
    (attempts.job.folder / ".checkpoints.jsonl").unlink()
    script = f"{SAVES}\n    os.rename(folder / 'c', folder / '.c')\n    os.rename(folder / '.c', folder / 'c')"
    ended = attempts.run(f"{script}\n    rename('d', 'y')", attempt=1)
    assert (ended.code, ended.reason) == (0, "")
    assert names(attempts) == ["d"]
    assert len(told(attempts)) == 1


def test_a_folder_is_walked_however_deep_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    for depth in range(entries.DEEPEST - 1):
        folder = folder / str(depth)
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    found = entries.read_entry(tmp_path, "c")
    assert found is not None
    assert len(found.files) == 1
    (folder / "one-more").mkdir()
    with pytest.raises(ValueError, match="pack them into one file"):
        entries.read_entry(tmp_path, "c")


def test_names_are_shown_in_one_line_whatever_they_are(tmp_path: Path) -> None:
    assert entries.printable_name("a\nb") == "a\\nb"
    assert entries.printable_name(os.fsdecode(b"a\xffb")) == "a\\xffb"
    assert entries.printable_name("ü") == "ü"
