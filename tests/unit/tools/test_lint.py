"""Each own lint finds what it is for, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from tools import lint

GOOD = '"""What this promises."""\n\nfrom __future__ import annotations\n\nANSWER = 42\n'
ELSEWHERE = "/srv/checkout"


def messages(path: str, text: str = GOOD) -> list[str]:
    return [finding.message for finding in lint.check(lint.File(PurePosixPath(path), text), ELSEWHERE)]


@pytest.mark.parametrize(
    "path",
    [
        "src/mizzen/gateway/queueing/queue.py",
        "tests/unit/gateway/test_queues.py",
        "tests/conftest.py",
        "docs/basement.md",
    ],
)
def test_a_good_file_has_no_findings(path: str) -> None:
    assert messages(path) == []


@pytest.mark.parametrize(("lines", "warned", "refused"), [(400, 0, 0), (401, 1, 0), (600, 1, 0), (601, 0, 1)])
def test_long_files_are_warned_about_and_then_refused(lines: int, warned: int, refused: int) -> None:
    text = GOOD + "\n" * (lines - GOOD.count("\n"))
    findings = list(lint.size(lint.File(PurePosixPath("src/mizzen/long.py"), text)))
    assert [finding.warning for finding in findings] == [True] * warned + [False] * refused


@pytest.mark.parametrize("path", ["src/mizzen/utils.py", "src/mizzen/common/frames.py", "bench/helpers.py"])
def test_names_that_say_nothing_are_refused(path: str) -> None:
    (message,) = messages(path)
    assert "says nothing" in message


def test_a_package_of_ours_opens_with_a_docstring() -> None:
    assert len(messages("src/mizzen/gateway/__init__.py", "")) == 1
    assert messages("src/mizzen/gateway/__init__.py", '"""Charter."""\n') == []


def test_modules_with_code_postpone_annotations() -> None:
    (message,) = messages("src/mizzen/errors.py", '"""Doc."""\n\nimport os\n')
    assert "__future__" in message
    assert messages("src/mizzen/empty.py", "") == []


@pytest.mark.parametrize("path", ["tests/test_all.py", "tests/quick/test_all.py"])
def test_a_test_outside_every_tier_is_found(path: str) -> None:
    (message,) = messages(path)
    assert "tier" in message


@pytest.mark.parametrize("line", ["--index-url x", "--find-links x", "a @ https://h/a.whl", "--extra-index-url=x"])
def test_a_lock_names_no_registry(line: str) -> None:
    (message,) = messages("requirements/dev.txt", f"a==1\n{line}\n")
    assert "lock" in message
    assert messages("docs/index.md", f"{line}\n") == []


@pytest.mark.parametrize("path", ["/root" + "/x", "/home" + "/ann/x", "see /home" + "/ann", ELSEWHERE + "/src"])
def test_paths_of_one_machine_are_found(path: str) -> None:
    findings = list(lint.machine_paths(lint.File(PurePosixPath("docs/a.md"), f"fine\n{path}\n"), ELSEWHERE))
    assert [finding.line for finding in findings] == [2]


@pytest.mark.parametrize("text", ["~/x", "https://x.org/home" + "/ann", "`/home/<you>`", "/rootless"])
def test_other_paths_are_let_be(text: str) -> None:
    assert messages("docs/a.md", text) == []


def test_files_are_those_git_would_track(tmp_path: Path) -> None:
    for command in (["git", "init", "-q"], ["git", "config", "core.excludesFile", ""]):
        subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("made/\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.py").write_text("")
    (tmp_path / "new.py").write_text("")
    (tmp_path / "picture.bin").write_bytes(b"\xff\xfe\x00\xff")
    assert [str(file.path) for file in lint.repository_files(tmp_path)] == [".gitignore", "new.py"]


def test_without_git_what_is_made_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for folder in (".venv", ".mizzen-demo/logs", "build", ".ci"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("")
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "new.py").write_text("")
    assert [str(file.path) for file in lint.repository_files(tmp_path)] == [".ci/a.py", ".gitignore", "new.py"]


def test_the_verdict_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    assert lint.main(tmp_path) == 0
    (tmp_path / "utils.py").write_text(GOOD)
    assert lint.main(tmp_path) == 1
    assert "utils.py:1: 'utils' says nothing" in capsys.readouterr().out
