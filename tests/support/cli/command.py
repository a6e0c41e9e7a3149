"""The command line in this process, and the control API it talks to: starting Python for each command takes long."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mizzen.cli.main import main
from tests.support.answers import Answers, answering
from tests.support.server import harness
from tests.support.server.harness import TOKEN, Harness


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def mizzen(
    *words: str, cwd: Path, stdin: str = "", check: bool = False, environ: Mapping[str, str] | None = None
) -> Done:
    out, err = io.StringIO(), io.StringIO()
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd):
        patch.setattr(sys, "argv", ["mizzen", *words])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        for name in set(os.environ) - set(clean):
            patch.delenv(name)
        for name, value in (environ or {}).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            main()
    done = Done(int(end.value.code or 0), out.getvalue(), err.getvalue())
    assert not check or done.returncode == 0, done
    return done


@dataclass(frozen=True, slots=True)
class Plane:
    control: Harness
    inference: Answers
    folder: Path

    def __call__(self, *words: str, stdin: str = "", check: bool = True, token: str = TOKEN) -> Done:
        place = {"MIZZEN_URL": self.control.url, "MIZZEN_TOKEN": token}
        return mizzen(*words, cwd=self.folder, stdin=stdin, check=check, environ=place)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        return name


@contextlib.contextmanager
def commanding(folder: Path) -> Iterator[Plane]:
    with answering() as inference, pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness, "INFERENCE", inference.url)
        with harness.serving(folder) as control:
            yield Plane(control, inference, folder)


def failed(done: Done, says: str, hint: str = "", code: int = 1) -> None:
    assert done.returncode == code, done
    assert done.stdout == ""
    assert "error: " in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert (f"hint: {hint}" if hint else "") in done.stderr
