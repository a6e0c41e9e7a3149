"""`make bench-training`: what a job set costs beside its own code, and what its logs cost.

CPU time, because it depends least on what else the machine does. A job is compared with the same script started by
hand, in turn; logs are written at a steady rate by the command, whose own time does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench import procfs
from tests.support import planes
from tests.support.training import Job, Trainer

SHORT = """
    import json, os, pathlib
    number = json.loads(os.environ.get("MIZZEN_PARAMS", '{"n": 1}'))["n"]
    (pathlib.Path(os.environ.get("MIZZEN_CHECKPOINT_DIR", ".")) / "square").write_text(str(number * number))
    print("square", number * number)
"""
WRITES = """
    import json, os, time
    params = json.loads(os.environ["MIZZEN_PARAMS"])
    line = b"2026-01-01 00:00:00 step 000000 loss 0.123456 accuracy 0.987654 learning rate 0.001 ......\\n"
    block = line * (params["rate"] // 50 // len(line))
    print("begins", flush=True)
    began = time.monotonic()
    for number in range(params["seconds"] * 50):
        os.write(1, block)
        time.sleep(max(0.0, began + (number + 1) / 50 - time.monotonic()))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU."""

    plane: float
    supervisor: float
    ended: float
    """Of all that the supervisor has seen the end of: runners and commands."""

    def __sub__(self, before: Cost) -> Cost:
        return Cost(self.plane - before.plane, self.supervisor - before.supervisor, self.ended - before.ended)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="mzt-") as folder, running(Path(folder)) as plane:
        many(plane, options.jobs)
        printed(plane, options.megabytes, options.seconds)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-training", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="short jobs, submitted at once")
    parser.add_argument("--megabytes", type=int, default=10, help="of logs per second")
    parser.add_argument("--seconds", type=int, default=30, help="for so long")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(folder / "data") as plane:
        yield plane


def many(plane: planes.TestPlane, count: int) -> None:
    trainer = Trainer(plane, "short")
    version = trainer.version({"train.py": SHORT})
    warm = trainer.start(version, hyperparameters={"n": 1})
    warm.ended()
    bare = by_hand(10)
    before, began = cost(plane), time.monotonic()
    most = 0.0
    jobs = [trainer.start(version, hyperparameters={"n": number}) for number in range(count)]
    posted = cost(plane) - before
    while ongoing(trainer, version):
        most = max(most, procfs.memory(plane.pid("plane")).rss_mb)
        time.sleep(1)
    took = time.monotonic() - began
    spent = cost(plane) - before
    failed = [job.id for job in jobs if job.now()["state"] != "Succeeded"]
    each = 1000 / count
    print(f"{count} short jobs at once: {took:.0f} s, {len(failed)} failed; plane at most {most:.0f} MB")
    print("CPU per job, ms")
    print(f"  plane                 {spent.plane * each:8.1f}   (of it taking the request {posted.plane * each:.1f})")
    print(f"  supervisor            {spent.supervisor * each:8.1f}")
    print(f"  runner and command    {spent.ended * each:8.1f}")
    print(f"  the script by hand    {bare * 1000:8.1f}")


def ongoing(trainer: Trainer, version: str) -> int:
    with trainer.http as client:
        answer = client.get(f"/model/{trainer.model}/train/{version}", params={"limit": 1})
        return len(answer.json()["items"])


def by_hand(times: int) -> float:
    """Seconds of CPU of the same script alone."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(textwrap.dedent(SHORT))
        before = children(None)
        for _ in range(times):
            subprocess.run([sys.executable, str(script)], check=True, capture_output=True, cwd=folder)
        return (children(None) - before) / times


def printed(plane: planes.TestPlane, megabytes: int, seconds: int) -> None:
    trainer = Trainer(plane, "printing")
    job = trainer.script(WRITES, hyperparameters={"rate": megabytes * 1_000_000, "seconds": seconds})
    job.wait_for_line("begins")
    runner = _runner(plane, job)
    before, alone, began = cost(plane), procfs.precise_cpu_seconds(runner), time.monotonic()
    while time.monotonic() < began + seconds * 0.8:
        time.sleep(0.5)
    took = time.monotonic() - began
    spent, watched = cost(plane) - before, procfs.precise_cpu_seconds(runner) - alone
    job.ended()
    share = 100 / took
    print(f"{megabytes} MB of logs a second: % of one core, without the command")
    print(f"  runner                {watched * share:8.2f}")
    print(f"  plane                 {spent.plane * share:8.2f}")
    print(f"  supervisor            {spent.supervisor * share:8.2f}")
    print(f"  all                   {(watched + spent.plane + spent.supervisor) * share:8.2f}")
    before, began = cost(plane), time.monotonic()
    size = read(trainer, job)
    spent = cost(plane) - before
    print(f"reading {size / 1e6:.0f} MB of them back: {spent.plane / (size / 1e6) * 1000:.2f} ms of CPU for each MB")


def read(trainer: Trainer, job: Job) -> int:
    headers = {"Authorization": f"Bearer {trainer.plane.token()}"}
    url = f"{trainer.plane.control_url}{job.path}/logs"
    with httpx2.stream("GET", url, headers=headers, timeout=600) as answer:
        return sum(len(chunk) for chunk in answer.iter_raw())


def cost(plane: planes.TestPlane) -> Cost:
    supervisor = int(plane.status()["supervisor_pid"])
    return Cost(
        procfs.precise_cpu_seconds(plane.pid("plane")), procfs.precise_cpu_seconds(supervisor), children(supervisor)
    )


def children(pid: int | None) -> float:
    """Seconds that those have used whose end this process has seen."""
    text = (procfs.PROC / ("self" if pid is None else str(pid)) / "stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return sum(map(int, fields[13:15])) / procfs.TICKS


def _runner(plane: planes.TestPlane, job: Job) -> int:
    for pid in procfs.with_environment("MIZZEN_DATA_DIR", str(plane.data_dir)):
        if "mizzen.runner" in procfs.command(pid):
            return pid
    raise AssertionError(f"no runner of {job.id}")


if __name__ == "__main__":
    sys.exit(main())
