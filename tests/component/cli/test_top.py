"""mizzen top: one table, the same as data, and the screen that is redrawn."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mizzen.cli.plane import top
from mizzen.cli.plane.top import Sort
from tests.support.answers import Answers, answering
from tests.support.cli.command import Done, failed, mizzen
from tests.support.golden import Golden


def model(name: str, asked: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "default", "name": name, "version": "1", "servers": [f"{name}-1"], "requestsPerSecond": asked,
        "errorsPerSecond": 0.0, "codesPerSecond": {}, "p50": None, "p95": None, "p99": None, "inFlight": 0,
        "waiting": 0, "callsPerBatch": None, "shedPerSecond": 0.0, "expiredPerSecond": 0.0, "retriedPerSecond": 0.0,
        "replicasReady": 1, "replicasWanted": 1, "memoryBytes": 0, "cpu": 0.0, **more,
    }  # fmt: skip


def usage(*models: dict[str, Any]) -> dict[str, Any]:
    processes = [{"name": "plane", "memoryBytes": 82_700_000, "cpu": 0.012, "restarts": 3}]
    return {"time": "2026-11-16T09:00:00Z", "seconds": 10.0, "models": list(models), "processes": processes}


BUSY = model(
    "iris", 157.3, errorsPerSecond=1.573, p50=0.0023, p95=0.0098, p99=0.238, inFlight=4, waiting=2, callsPerBatch=1.25,
    replicasReady=1, replicasWanted=2, memoryBytes=161_100_000, cpu=1.17,
)  # fmt: skip


@pytest.fixture
def plane() -> Iterator[Answers]:
    with answering() as answers:
        yield answers


def asked(plane: Answers, folder: Path, *words: str) -> Done:
    return mizzen("top", *words, cwd=folder, environ={"MIZZEN_URL": plane.url, "MIZZEN_TOKEN": "t"})


def test_one_table_is_printed_where_nobody_looks(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/usage"] = 200, usage(model("rose"), BUSY)
    done = asked(plane, tmp_path)
    assert done.returncode == 0
    assert [re.split(r" {2,}", line) for line in done.stdout.splitlines()] == [
        ["MODEL", "VERSION", "REQ/S", "ERR/S", "P50", "P95", "P99", "FLIGHT", "WAIT", "BATCH", "REPLICAS", "MEMORY",
         "CPU"],
        ["iris", "1", "157", "1.6 (1%)", "2.3 ms", "9.8 ms", "238 ms", "4", "2", "1.2", "1/2", "161.1 MB", "117%"],
        ["rose", "1", "0", "0", "-", "-", "-", "0", "0", "-", "1/1", "0 B", "0%"],
        [""],
        ["PROCESS", "MEMORY", "CPU", "RESTARTS"],
        ["plane", "82.7 MB", "1%", "3"],
    ]  # fmt: skip


def test_namespaces_are_told_when_there_are_several(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/usage"] = 200, usage(model("iris"), model("iris", namespace="lab"))
    lines = asked(plane, tmp_path, "--once").stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["NAMESPACE", "MODEL"], ["default", "iris"], ["lab", "iris"]]
    asked(plane, tmp_path, "--once", "-n", "lab")
    assert plane.asked[-1].path == "/usage?namespace=lab"


def test_nothing_served_is_said(plane: Answers, tmp_path: Path, golden: Golden) -> None:
    plane.give["GET", "/usage"] = 200, usage()
    done = asked(plane, tmp_path, "--once")
    assert done.stdout.startswith("PROCESS")
    golden.check(done.stderr)


def test_it_is_told_as_data_in_order(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/usage"] = 200, usage(model("a"), BUSY, model("b", p99=0.5))
    told = json.loads(asked(plane, tmp_path, "-o", "json", "--sort", "p99").stdout)
    assert [each["name"] for each in told["models"]] == ["b", "iris", "a"]
    assert told["processes"][0]["restarts"] == 3


@pytest.mark.parametrize("sort", Sort)
def test_every_order_has_its_field(sort: Sort) -> None:
    names = [each["name"] for each in top.sort_models([model("rose"), BUSY], sort)]
    assert names == ["iris", "rose"]


def test_without_a_plane_it_says_what_to_do(tmp_path: Path) -> None:
    failed(mizzen("top", cwd=tmp_path), "no plane", "start one with 'mizzen up'")


@pytest.mark.parametrize(
    ("width", "columns"),
    [(160, 13), (100, 12), (80, 10), (60, 7), (40, 5), (10, 4)],
)
def test_a_narrow_terminal_gets_fewer_columns_instead_of_cut_ones(width: int, columns: int) -> None:
    found = usage(BUSY, model("rose"))
    lines = next(rows for title, rows in top.build_tables(found, Sort.REQUESTS) if not title)
    shown = top.fit_columns(lines, width)
    assert (len(shown), len(shown[0])) == (len(lines), columns)
    assert (shown[0][:3], shown[1][:3]) == (("MODEL", "VERSION", "REQ/S"), ("iris", "1", "157"))
    console = Console(width=width, file=io.StringIO())
    console.print(top._screen(found, Sort.REQUESTS, "", width))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("…" in printed) == (width == 10)


class Screen:
    """A real terminal with the command in it."""

    def __init__(self, plane: Answers, folder: Path, words: tuple[str, ...]) -> None:
        self.terminal, inner = pty.openpty()
        self.before = termios.tcgetattr(inner)
        environ = {**os.environ, "MIZZEN_URL": plane.url, "MIZZEN_TOKEN": "t", "TERM": "xterm", "COLUMNS": "160"}
        environ.pop("MIZZEN_DATA_DIR", None)
        # A session of its own, so that Ctrl-C in this terminal reaches it and nobody else.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, *words], stdin=inner, stdout=inner, stderr=inner, cwd=folder,
            env=environ, start_new_session=True,
        )  # fmt: skip
        self._inner = inner
        self.seen = ""

    def until(self, text: str) -> None:
        end = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 1 << 16).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def press(self, keys: bytes) -> int:
        os.write(self.terminal, keys)
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self.terminal], [], [], 0.05)[0]:
                self.seen += os.read(self.terminal, 1 << 16).decode(errors="replace")
        assert termios.tcgetattr(self._inner) == self.before
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self._inner)


_IN_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv[0] = "mizzen"
from mizzen.cli.main import main
main()
"""


@contextmanager
def screen(plane: Answers, folder: Path, *words: str) -> Iterator[Screen]:
    shown = Screen(plane, folder, words or ("top",))
    try:
        yield shown
    finally:
        shown.close()


def test_the_screen_goes_on_when_the_plane_went_away_and_is_back(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/usage"] = 200, usage(BUSY)
    with screen(plane, tmp_path) as shown:
        shown.until("157 requests/s")
        shown.until("REPLICAS")
        plane.give["GET", "/usage"] = 0, b""
        shown.until("waiting for it")
        shown.until("iris")  # what was known last stays
        plane.give["GET", "/usage"] = 200, usage(model("rose", 12.0))
        shown.until("12 requests/s")
        shown.until("rose")
        assert shown.press(b"xq") == 0


def test_an_interrupt_leaves_the_terminal_as_it_was(plane: Answers, tmp_path: Path) -> None:
    plane.give["GET", "/usage"] = 200, usage()
    with screen(plane, tmp_path) as shown:
        shown.until("no model is served")
        assert shown.press(b"\x03") == 130
        assert "Traceback" not in shown.seen
