"""Each own lint finds what it is for, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.lint import __main__ as lint
from tools.lint.files import repository_files

GOOD = '"""What this promises."""\n\nfrom __future__ import annotations\n\nANSWER = 42\n'


def test_files_are_those_git_would_track(tmp_path: Path) -> None:
    for command in (["git", "init", "-q"], ["git", "config", "core.excludesFile", ""]):
        subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("made/\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.py").write_text("")
    (tmp_path / "new.py").write_text("")
    (tmp_path / "picture.bin").write_bytes(b"\xff\xfe\x00\xff")
    assert [str(file.path) for file in repository_files(tmp_path)] == [".gitignore", "new.py"]


def test_without_git_what_is_made_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for folder in (".venv", ".mizzen-demo/logs", "build", ".ci"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("")
    (tmp_path / ".gitignore").write_text("")
    (tmp_path / "new.py").write_text("")
    assert [str(file.path) for file in repository_files(tmp_path)] == [".ci/a.py", ".gitignore", "new.py"]


def test_the_verdict_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    assert lint.main(tmp_path) == 0
    (tmp_path / "utils.py").write_text(GOOD)
    assert lint.main(tmp_path) == 1
    assert "utils.py:1: 'utils' says nothing" in capsys.readouterr().out
