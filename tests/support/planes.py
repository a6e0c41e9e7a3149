"""A whole plane for a test: real processes in a temporary data dir, all gone afterwards whatever happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.support import commands
from tests.support.run_folder import shared_root

T = TypeVar("T")

ANY_PORTS = ("--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
FREE_PORTS = ("--detach", *ANY_PORTS)


@dataclass(frozen=True, slots=True)
class TestPlane:
    """A running plane and the ways a person has to it: the CLI, and what `status` says."""

    __test__ = False

    data_dir: Path
    control_url: str
    inference_url: str
    tls_url: str
    grpc_address: str

    def cli(
        self, *words: str, cwd: Path | None = None, check: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return run_cli(self.data_dir, *words, cwd=cwd, check=check, **environ)

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.cli("status", "-o", "json").stdout)
        return answer

    def token(self) -> str:
        return (self.data_dir / "admin-token").read_text().strip()

    def pids(self, key: str) -> list[int]:
        """Pids of the supervised process `key`, such as plane or gateway-0; `runtime` means every runtime."""
        found = []
        for process in members(self.data_dir):
            with contextlib.suppress(psutil.Error):
                name = process.environ().get("MIZZEN_PROCESS_KEY", "")
                if name == key or (key == "runtime" and name not in ("", "plane") and not name.startswith("gateway")):
                    found.append(process.pid)
        return found

    def pid(self, key: str) -> int:
        """The one process `key`; one that has just died is followed by another."""

        def only() -> int:
            found = self.pids(key)
            return found[0] if len(found) == 1 else 0

        return wait_until(only, f"there is one process {key}")


def run_cli(
    data_dir: Path, *words: str, cwd: Path | None = None, check: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
    done = commands.run(
        words,
        environ=environment | may_write_notes() | {"MIZZEN_DATA_DIR": str(data_dir), "COLUMNS": "200"} | environ,
        cwd=cwd or data_dir.parent,
        timeout=120,
    )
    if check and done.returncode:
        raise AssertionError(f"mizzen {' '.join(words)} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def may_write_notes() -> dict[str, str]:
    """The setting that lets models leave notes in folders of `run_folder.shared`."""
    return {"MIZZEN_MODEL_WRITE_PATHS": str(shared_root())}


@contextlib.contextmanager
def running_plane(data_dir: Path, *flags: str) -> Iterator[TestPlane]:
    try:
        yield started(data_dir, *flags)
    except BaseException:
        for log in sorted((data_dir / "logs").glob("*.log")):
            sys.stderr.write(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}\n")
        raise
    finally:
        run_cli(data_dir, "down", check=False)
        end_all(data_dir)


def started(data_dir: Path, *flags: str) -> TestPlane:
    """Who calls it sees to its end."""
    run_cli(data_dir, "up", *FREE_PORTS, *flags)
    status = json.loads(run_cli(data_dir, "status", "-o", "json").stdout)
    names = ("control_url", "inference_url", "tls_url", "grpc_address")
    return TestPlane(data_dir, *(status[name] for name in names))


def members(data_dir: Path) -> list[psutil.Process]:
    """Every living process of the plane in this data dir, whoever its parent is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            foreign = process.pid == os.getpid() or process.environ().get("MIZZEN_DATA_DIR") != str(data_dir)
            if not foreign and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_all_but_replicas(plane: TestPlane) -> None:
    """Nothing is left that could revive a supervisor.

    The supervisor is stopped first and killed last: it starts nothing again, and no other process sees it die, which
    would start another one.
    """
    status = plane.status()
    supervisor = status["supervisor_pid"]
    ours = [each["pid"] for each in status["processes"] if each["key"] == "plane" or each["key"].startswith("gateway")]
    os.kill(supervisor, signal.SIGSTOP)
    for pid in (*ours, supervisor):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(_is_alive, (*ours, supervisor))), "they are dead")


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(data_dir: Path) -> None:
    """Again and again: one that is killed last may have started another one before."""
    for _ in range(20):
        left = members(data_dir)
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)


def wait_until(condition: Callable[[], T], what: str, timeout: float = 60.0) -> T:
    """Poll something real until it holds. The limit is only there so that a broken test ends."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.05)
