"""A real runner for one attempt after the other, with blobs, as the engine and the supervisor would start it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mizzen.blobs.file_store import FileBlobs
from mizzen.confinement.output_pipe import OutputPipe
from mizzen.runs import logs, records
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore
from mizzen.runs.paths import JobPlace, ReplicaPlace
from mizzen.runs.records import Exit, File, Task
from mizzen.supervisor.processes.log_pipe import SALVAGED, HeldPipe
from mizzen.supervisor.processes.log_rotation import LogRetention
from tests.support.planes import wait_until

LIMIT = 60.0


class Attempts:
    """Of one job; every process that it started is gone at its end."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.blobs = FileBlobs(data_dir / "blobs")
        self.job = JobPlace(data_dir, "0c6bd0b0")
        self.task = Task(
            namespace="default", model="iris", version="1", version_uid="v-uid", job="iris-1-abcde",
            job_uid=self.job.uid, replica="worker-0", attempt=0, command=("python", "train.py"),
            cluster={"worker": ("127.0.0.1:2222",)}, grace=5.0, keep_seconds=20.0,
        )  # fmt: skip
        self._runners: list[subprocess.Popen[bytes]] = []
        self._pipes: dict[int, HeldPipe] = {}
        """By the pid of the runner."""

    def code(self, script: str, **others: str) -> tuple[File, ...]:
        """`train.py`, and other files, as those of a version."""
        files = {"train.py": textwrap.dedent(script), **others}
        found = [(path, self.blobs.put_bytes(text.encode())) for path, text in files.items()]
        return tuple(File(path, blob.digest, blob.size) for path, blob in found)

    def start(
        self, script: str | None = None, *, environ: dict[str, str] | None = None, **changes: Any
    ) -> subprocess.Popen[bytes]:
        if script is not None:
            changes["files"] = self.code(script)
        self.task = replace(self.task, **changes)
        records.write(self.place().task, self.task.to_json())
        work = self.data_dir / "work" / self.task.replica
        work.mkdir(parents=True, exist_ok=True)
        pipes = self.data_dir / "pipes"
        pipes.mkdir(exist_ok=True)
        pipe = OutputPipe.create(pipes / self.task.replica)
        runner = subprocess.Popen(
            [sys.executable, "-P", "-m", "mizzen.runner"],
            cwd=work,
            env={
                **os.environ,
                "MIZZEN_TASK": str(self.place().task),
                "MIZZEN_ATTEMPT": str(self.task.attempt),
                "MIZZEN_DATA_DIR": str(self.data_dir),
                "MIZZEN_OUTPUT_PIPE": str(pipe.path),
                "MIZZEN_TERMINATION_LOG": str(self.data_dir / "last-words"),
                **(environ or {}),
            },
            start_new_session=True,
        )
        self._runners.append(runner)
        self._pipes[runner.pid] = HeldPipe(pipe, pipes / f"{self.task.replica}{SALVAGED}", LogRetention())
        return runner

    def run(self, script: str | None = None, *, environ: dict[str, str] | None = None, **changes: Any) -> Exit:
        """To its end; it ended by itself, with the code of its record."""
        runner = self.start(script, environ=environ, **changes)
        code = runner.wait(LIMIT)
        exit_ = self.exit()
        assert exit_ is not None
        assert code == exit_.code
        return exit_

    def exit(self, replica: str = "", attempt: int | None = None) -> Exit | None:
        data = records.read(self.place(replica).exit(self.task.attempt if attempt is None else attempt))
        return Exit.from_json(data) if data is not None else None

    def place(self, replica: str = "") -> ReplicaPlace:
        return self.job.replica(replica or self.task.replica)

    def kept(self) -> list[Checkpoint]:
        """Newest first."""
        return CheckpointStore(self.blobs.documents).of_job("default", "iris", self.task.version, self.job.uid)

    def content(self, checkpoint: Checkpoint) -> dict[str, bytes]:
        return {file.path: self.blobs.path(file.digest).read_bytes() for file in checkpoint.files}

    def printed(self, **options: Any) -> list[str]:
        async def read() -> bytes:
            found = [block async for block in logs.lines(self.blobs.documents, self.blobs, self.job, **options)]
            return b"".join(found)

        return asyncio.run(read()).decode(errors="replace").splitlines()

    def until_printed(self, line: str) -> None:
        wait_until(lambda: any(line in each for each in self.printed()), f"'{line}' is printed")

    def message(self) -> str:
        """Of the last report."""
        return str((records.read(self.place().report) or {}).get("message"))

    def until_begun(self, replica: str = "") -> None:
        wait_until(self.place(replica).path_of_begun(self.task.attempt).exists, "the command is begun")

    def end_as_the_supervisor_does(self, runner: subprocess.Popen[bytes]) -> None:
        """kill -9 of the runner, then of all that is left of its session."""
        runner.kill()
        runner.wait()
        self._pipes.pop(runner.pid).close()
        kill_session(runner.pid)

    def close(self) -> None:
        for runner in self._runners:
            if runner.poll() is None:
                runner.kill()
            runner.wait()
            kill_session(runner.pid)
        for pipe in self._pipes.values():
            pipe.pipe.close()


def kill_session(session: int) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), signal.SIGKILL)
