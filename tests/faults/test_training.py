"""Training while things go wrong: one clear end with its reason, or it goes on without a lost line; never for ever."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support import disks, planes
from tests.support.training import Job, Trainer

MB = 1 << 20

NUMBERS = """
    import os, pathlib, time
    folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
    saved = sorted(int(p.name.partition("-")[2]) for p in folder.glob("at-*"))
    at = saved[-1] if saved else 0
    while at < 3000:
        at += 1
        print("line", at, flush=True)
        if at % 50 == 0:
            (folder / f".at-{at}").write_text(str(at))
            os.rename(folder / f".at-{at}", folder / f"at-{at}")
            time.sleep(0.1)
"""
"""Goes on where it had saved last; every number is printed at least once."""


@pytest.fixture
def trainer(plane: planes.TestPlane) -> Trainer:
    return Trainer(plane, "numbers")


def numbers(job: Job) -> list[int]:
    return [int(line.split()[1]) for line in job.printed() if line.startswith("line ")]


def pids(plane: planes.TestPlane, who: str, job: Job) -> list[int]:
    """Of the command itself, of its runner, or of a process of the plane."""
    if who == "supervisor":
        return [plane.status()["supervisor_pid"]]
    if who == "plane":
        return [plane.pid("plane")]
    found = []
    for process in planes.members(plane.data_dir):
        with contextlib.suppress(psutil.Error):
            runner = "mizzen.runner" in process.cmdline()
            if (who == "runner" and runner) or (who == "replica" and process.environ().get("MIZZEN_JOB") == job.id):
                found.append(process.pid)
    return found


def kill(plane: planes.TestPlane, who: str, job: Job) -> None:
    for pid in planes.wait_until(lambda: pids(plane, who, job), f"there is a {who}"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("who", ["plane", "supervisor", "runner", "replica"])
def test_whoever_is_killed_no_line_is_lost(trainer: Trainer, who: str) -> None:
    job = trainer.script(NUMBERS, restartPolicy="ExitCode")
    for line in ("line 300\n", "line 900\n"):
        planes.wait_until(lambda line=line: line in seen(job), line)  # type: ignore[misc]
        kill(trainer.plane, who, job)
    planes.wait_until(lambda: seen(job) or True, "somebody answers")
    now = ended(job)
    assert now["state"] == "Succeeded", job.why()
    found = numbers(job)
    assert sorted(set(found)) == list(range(1, 3001)), "every line is there"
    if who in ("plane", "supervisor"):
        assert found == list(range(1, 3001)), "and it was not disturbed at all"
    else:
        assert len(found) >= 3000
    assert job.checkpoints[0]["step"] == 3000


@pytest.mark.parametrize(("policy", "state"), [("ExitCode", "Succeeded"), ("Never", "Failed")])
def test_what_a_killed_runner_had_not_heard_of_is_kept(trainer: Trainer, policy: str, state: str) -> None:
    code = """
        import os, pathlib, sys, time
        from mizzen.training import save_checkpoint
        if os.environ["MIZZEN_ATTEMPT"] != "0":
            sys.exit()
        print("begun", flush=True)
        while not pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"], ".go").exists():
            time.sleep(0.01)
        for step in range(5):
            save_checkpoint(lambda path: path.write_text("weights"), name="at", step=step)
        print("saved", flush=True)
        pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"], ".gone").touch()
        time.sleep(600)
    """
    job = trainer.script(code, restartPolicy=policy)
    job.wait_for_line("begun")
    [runner] = pids(trainer.plane, "runner", job)
    os.kill(runner, signal.SIGSTOP)
    (job.place.checkpoints / ".go").touch()
    planes.wait_until((job.place.checkpoints / ".gone").exists, "all is saved")
    assert job.checkpoints == []
    os.kill(runner, signal.SIGKILL)
    assert ended(job)["state"] == state, job.why()
    assert sorted(each["step"] for each in job.checkpoints) == [0, 1, 2, 3, 4]
    assert "saved" in job.printed(), "the last line was still in the pipe"
    if state == "Failed":
        assert job.why()[0] == "RunnerLost"


@pytest.mark.parametrize(("policy", "state"), [("ExitCode", "Succeeded"), ("Never", "Failed")])
def test_everything_goes_down_at_once(tmp_path: Path, policy: str, state: str) -> None:
    """As when the power fails: nothing is told to stop."""
    data = tmp_path / "data"
    with planes.running_plane(data) as plane:
        trainer = Trainer(plane, "numbers")
        job = trainer.script(NUMBERS, restartPolicy=policy)
        planes.wait_until(lambda: "line 300\n" in seen(job), "it has got somewhere")
        planes.end_all(data)
        planes.wait_until(lambda: not planes.members(data), "nothing is left")
        again = Trainer(planes.started(data), "numbers")
        job = Job(again, job.version, job.id)
        now = ended(job)
        assert now["state"] == state, job.why()
        found = numbers(job)
        assert sorted(set(found))[:300] == list(range(1, 301)), "what was printed before is there"
        if state == "Failed":
            reason, message = job.why()
            assert reason == "Interrupted"
            assert "restartPolicy" in message
        else:
            assert sorted(set(found)) == list(range(1, 3001))


def test_a_plane_that_is_stopped_goes_on_with_its_jobs(tmp_path: Path) -> None:
    """Whatever their policy: nobody failed."""
    data = tmp_path / "data"
    with planes.running_plane(data) as plane:
        job = Trainer(plane, "numbers").script(NUMBERS, restartPolicy="Never")
        planes.wait_until(lambda: "line 300\n" in seen(job), "it has got somewhere")
        plane.cli("down")
        assert planes.members(data) == []
        job = Job(Trainer(planes.started(data), "numbers"), job.version, job.id)
        assert ended(job)["state"] == "Succeeded", job.why()
        assert sorted(set(numbers(job))) == list(range(1, 3001))


def test_a_job_is_left_running_on_request_and_adopted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with planes.running_plane(data) as plane:
        job = Trainer(plane, "numbers").script(NUMBERS)
        planes.wait_until(lambda: "line 100\n" in seen(job), "it has got somewhere")
        [pid] = pids(plane, "replica", job)
        plane.cli("down", "--keep-training")
        assert psutil.pid_exists(pid)
        assert pids_of_planes(data) == []
        job = Job(Trainer(planes.started(data), "numbers"), job.version, job.id)
        assert ended(job)["state"] == "Succeeded", job.why()
        assert numbers(job) == list(range(1, 3001)), "one process, all the time"
        assert "restarts" in str(job.now())


def test_one_that_does_not_end_when_told_is_killed(trainer: Trainer) -> None:
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        while True:
            time.sleep(1)
    """
    job = trainer.script(code)
    job.wait_for_line("deaf")
    job.stop()
    assert job.why()[0] == "Terminated"
    planes.wait_until(lambda: not pids(trainer.plane, "replica", job), "its process is gone")


def test_a_gigabyte_of_logs(trainer: Trainer) -> None:
    code = """
        import os
        line = b"x" * 1023 + b"\\n"
        block = line * 1024
        for number in range(1024):
            os.write(1, block)
        os.write(1, b"the end\\n")
    """
    job = trainer.script(code)
    now = job.until_state("Succeeded", "Failed", timeout=300)
    assert now["state"] == "Succeeded", job.why()
    assert job.printed(tail=1) == ["the end"]
    size = lines = 0
    plane = psutil.Process(trainer.plane.pid("plane"))
    with trainer.http as client, client.stream("GET", f"{job.path}/logs") as answer:
        for chunk in answer.iter_raw():
            size += len(chunk)
            lines += chunk.count(b"\n")
    kept = 32 * MB  # log_bytes
    assert kept * 3 // 4 < size < kept + lines * len("[worker-0] ")
    assert any("are left out here" in line for line in job.printed(tail=8000))
    assert plane.memory_info().rss < 600 * MB, "the plane holds no logs"


def test_binary_logs_without_a_line(trainer: Trainer) -> None:
    code = """
        import os
        os.write(1, bytes(range(256)).replace(b"\\n", b"") * 4096)
    """
    job = trainer.script(code)
    assert job.ended()["state"] == "Succeeded"
    answer = trainer.ask("GET", f"{job.path}/logs")
    assert answer.content.replace(b"[worker-0] ", b"").replace(b"\n", b"").count(b"\xff\x00") == 4095


def test_a_full_disk_ends_a_job_with_its_reason(tmp_path: Path) -> None:
    code = """
        import os, pathlib
        folder = pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"])
        print("begins", flush=True)
        with open(folder / ".large", "wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
                file.flush()
    """
    with disks.small_disk(tmp_path / "disk", 200 * MB) as disk:
        (disk / "data").mkdir()
        (disk / "data" / "settings.toml").write_text(f"disk_low_bytes = {48 * MB}\ndisk_critical_bytes = {24 * MB}\n")
        with planes.running_plane(disk / "data") as plane:
            trainer = Trainer(plane, "large")
            job = trainer.script(code)
            now = ended(job)
            assert now["state"] == "Failed"
            assert job.why()[0] == "NoRoom", job.why()
            assert "begins" in seen(job)


def test_many_short_jobs_at_once(trainer: Trainer) -> None:
    version = trainer.version({"train.py": CHECKED})
    plane = psutil.Process(trainer.plane.pid("plane"))
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda n: trainer.start(version, hyperparameters={"n": n}), range(200)))
    most = 0
    for job in jobs:
        job.until_state("Succeeded", "Failed", timeout=600)
        most = max(most, plane.memory_info().rss)
    for number, job in enumerate(jobs):
        assert job.now()["state"] == "Succeeded", job.why()
        assert job.printed() == [f"square {number * number}"]
        assert len(job.checkpoints) == 1
    assert most < 600 * MB
    planes.wait_until(lambda: not trainer.got("GET", "/apis/mizzen.dev/v1alpha1/workloads")["items"], "all is cleared")


CHECKED = """
    import json, os, pathlib
    number = json.loads(os.environ["MIZZEN_PARAMS"])["n"]
    print("square", number * number)
    (pathlib.Path(os.environ["MIZZEN_CHECKPOINT_DIR"]) / "square").write_text(str(number * number))
"""


def seen(job: Job) -> str:
    """Its log; empty while nobody answers."""
    with contextlib.suppress(httpx2.HTTPError, AssertionError):
        return job.logs()
    return ""


def ended(job: Job, seconds: float = 180.0) -> dict[str, object]:
    """Asked for until there is an answer: a plane that was killed is away for a moment."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx2.HTTPError, AssertionError):
            return job.ended(timeout=max(1.0, end - time.monotonic()))
        if time.monotonic() > end:
            return job.ended(timeout=1.0)


def pids_of_planes(data_dir: Path) -> list[str]:
    """Keys of the plane's own processes that still live."""
    found = []
    for process in planes.members(data_dir):
        with contextlib.suppress(psutil.Error):
            key = process.environ().get("MIZZEN_PROCESS_KEY", "")
            if re.fullmatch(r"plane|gateway-\d+", key):
                found.append(key)
    return found
