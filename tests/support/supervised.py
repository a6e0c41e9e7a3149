"""A real supervisor in a folder of the test's own, ended by pid whatever the test did."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.supervisor.client import SupervisorGone, ask
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.launch import alive, launch
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import Boot, Listener, ProcessSpec, ProcessView, State

SLEEPS = "import time; time.sleep(600)"
T = TypeVar("T")

IGNORES_TERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); " + SLEEPS
)

KEEPS = """
import asyncio, json, os, pathlib
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.revive import keep
print("keeping", flush=True)
home = Home.of(pathlib.Path(os.environ["MIZZEN_DATA_DIR"]))
asyncio.run(keep(home, json.loads(os.environ["MIZZEN_LISTENERS"]), delay=float(os.environ["DELAY"])))
"""


def may_write_notes() -> ConfinementPolicy:
    """For programs of tests that leave notes in the temporary folders of their tests."""
    return ConfinementPolicy(write=(tempfile.gettempdir(),))


class Supervised:
    def __init__(self, data_dir: Path) -> None:
        self.home = Home.of(data_dir)
        self.home.prepare()
        self._supervisors: dict[int, str] = {}

    def spec(self, key: str, code: str = SLEEPS, **fields: Any) -> ProcessSpec:
        argv = (sys.executable, "-S", "-c", code)
        return replace(ProcessSpec(key=key, argv=argv, log=str(self.home.logs / f"{key}.log")), **fields)

    def keeper(self, key: str, *, delay: float = 0, code: str = KEEPS) -> ProcessSpec:
        """Holds the listening sockets and brings a killed supervisor back, as plane and gateways do."""
        argv = (sys.executable, "-P", "-c", code)
        return self.spec(key, argv=argv, listeners=True, env={"DELAY": str(delay)})

    def start(self, *processes: ProcessSpec, listeners: tuple[Listener, ...] = (), stop_timeout: float = 1.0) -> None:
        Boot(listeners, processes, stop_timeout).write(self.home.boot)
        launch(self.home, python=sys.executable)
        self.note()

    def note(self) -> int:
        """The living supervisor's pid, kept for the end of the test."""
        info = alive(self.home)
        assert info is not None
        self._supervisors[info["pid"]] = info["start"]
        pid: int = info["pid"]
        return pid

    def kill(self) -> None:
        """kill -9 of the supervisor; returns when it is dead."""
        pid = self.note()
        os.kill(pid, signal.SIGKILL)
        until(lambda: procfs.start_of(pid) is None)

    def apply(self, spec: ProcessSpec) -> ProcessView:
        return ProcessView.from_json(ask(self.home, "apply", process=spec.to_json())["process"])

    def views(self) -> dict[str, ProcessView]:
        views = map(ProcessView.from_json, ask(self.home, "list")["processes"])
        return {view.key: view for view in views}

    def running(self, key: str) -> ProcessView:
        """Its view as soon as it runs; a supervisor that is being replaced is waited for."""

        def look() -> ProcessView | None:
            try:
                view = self.views().get(key)
            except SupervisorGone:
                return None
            return view if view is not None and view.state is State.RUNNING else None

        return until(look)

    def pid(self, key: str) -> int:
        pid = self.running(key).pid
        assert pid is not None
        return pid

    def log(self, key: str) -> str:
        path = self.home.logs / f"{key}.log"
        return path.read_text() if path.exists() else ""

    def stop(self, *, graceful: bool = True) -> None:
        ask(self.home, "stop", graceful=graceful)
        for pid, start in self._supervisors.items():
            until(lambda pid=pid, start=start: procfs.start_of(pid) != start)  # type: ignore[misc]

    def end(self) -> None:
        info = alive(self.home)
        if info is not None:
            self._supervisors[info["pid"]] = info["start"]
        self.home.info.unlink(missing_ok=True)  # from here on nobody revives
        for pid, start in self._supervisors.items():
            procfs.send(pid, start, signal.SIGKILL)
        survivors.end_at_once(self.home)
        if not self.home.run.is_relative_to(self.home.data_dir):
            shutil.rmtree(self.home.run)  # the short folder that a long path of a test got


@contextmanager
def supervised(data_dir: Path) -> Iterator[Supervised]:
    plane = Supervised(data_dir)
    try:
        yield plane
    finally:
        plane.end()


def until(look: Callable[[], T | None], seconds: float = 60.0) -> T:
    """The first true answer. The limit is only there so that a broken test ends."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")
