"""mizzen monitor, against the answers a plane gives."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.answers import Answers, answering
from tests.support.cli.command import Done, failed
from tests.support.cli.command import mizzen as command
from tests.support.golden import Golden

PATH = "/model/iris/monitor"
TOOL = "http://127.0.0.1:8470/model/iris/monitor/tool/"
SEEN = {
    "url": TOOL, "tool": "scalars", "ready": True,
    "status": {"conditions": [{"type": "Ready", "status": "True", "message": "TensorBoard is not installed"}]},
}  # fmt: skip


@pytest.fixture
def plane() -> Iterator[Answers]:
    with answering() as answers:
        answers.give["GET", PATH] = 200, SEEN
        yield answers


def asked(plane: Answers, folder: Path, *words: str) -> Done:
    return command("monitor", *words, cwd=folder, environ={"MIZZEN_URL": plane.url, "MIZZEN_TOKEN": "t"})


def test_it_is_started_and_waited_for(plane: Answers, tmp_path: Path) -> None:
    answers = [{**SEEN, "ready": False}, SEEN]
    plane.give["POST", PATH] = 201, {**SEEN, "ready": False}
    plane.give["GET", PATH] = lambda _: (200, answers.pop(0))
    done = asked(plane, tmp_path, "start", "iris", "--tool", "scalars")
    assert done.stdout == f"the monitor of iris (scalars) answers at {TOOL}\nTensorBoard is not installed\n"
    assert "mizzen monitor open iris" in done.stderr
    assert (plane.asked[0].body, answers) == ({"tool": "scalars"}, [])
    unready = asked(plane, tmp_path, "start", "iris", "--no-wait")
    assert unready.stdout.startswith(f"the monitor of iris (scalars) will answer at {TOOL}\n")


def test_it_is_shown_as_text_and_as_data(plane: Answers, tmp_path: Path) -> None:
    assert asked(plane, tmp_path, "show", "iris").stdout.startswith("the monitor of iris (scalars) answers at ")
    assert json.loads(asked(plane, tmp_path, "show", "iris", "-o", "json").stdout) == SEEN


def test_it_is_opened_by_a_ticket(plane: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def nothing_opens(url: str) -> bool:
        opened.append(url)
        return False

    monkeypatch.setattr(webbrowser, "open", nothing_opens)
    plane.give["POST", f"{PATH}/ticket"] = 201, {"url": f"{TOOL}?ticket=x"}
    assert asked(plane, tmp_path, "open", "iris", "--no-browser").stdout == f"{TOOL}?ticket=x\n"
    assert opened == []
    done = asked(plane, tmp_path, "open", "iris")
    assert opened == [f"{TOOL}?ticket=x"]
    assert "no browser could be started" in done.stderr


@pytest.mark.parametrize("words", [("show",), ("open", "--no-browser")])
def test_one_that_is_not_there_is_told_with_how_to_start_it(
    plane: Answers, tmp_path: Path, words: tuple[str, ...]
) -> None:
    plane.give["GET", PATH] = 404, {"reason": "NotFound", "message": "iris has no monitor"}
    verb, *more = words
    failed(asked(plane, tmp_path, verb, "iris", *more), "iris has no monitor", "'mizzen monitor start iris'")


def test_it_is_stopped(plane: Answers, tmp_path: Path, golden: Golden) -> None:
    plane.give["DELETE", PATH] = 200, {"deleted": True}
    golden.check(asked(plane, tmp_path, "stop", "iris").stdout)
