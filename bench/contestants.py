"""The servers that are measured, each started on free loopback ports and ended by pid.

All answer the same question, one row of iris as V2 JSON, at the same path. `nginx` returns a constant: the floor of
what HTTP on this machine costs. `fastapi` calls the same model in a hand-written app. `mizzen` is a whole plane.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from bench import procfs

HERE = Path(__file__).resolve().parent
MODEL = "iris"
PATH = f"/v2/models/{MODEL}/infer"
QUESTION = {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": [5.1, 3.5, 1.4, 0.2]}]}
ANSWER = [0]
START_SECONDS = 90


class StartFailed(Exception):
    """A server did not come to answer rightly; the message says how far it got."""


class Contestant(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...

    def start(self) -> None:
        """Returns once the right answer came back. StartFailed; `stop` is due in any case."""
        ...

    def processes(self) -> dict[int, str]:
        """The role of every process that belongs to the server now, by pid."""
        ...

    def stop(self) -> None: ...


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""As Mizzen's runtimes have it: threads for one row would only cost."""


@dataclass
class Program:
    """A server that is one command; its children are found below its pid."""

    name: str
    folder: Path
    command: Callable[[int], list[str]]
    """From the port to listen on."""
    environ: dict[str, str] = field(default_factory=dict)
    url: str = ""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{PATH}"
        with (self.folder / f"{self.name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                self.command(port),
                env=os.environ | self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the harness, which then stops this one
            )
        await_answer(self.url, self._exited)

    def processes(self) -> dict[int, str]:
        if self._process is None:
            return {}
        return dict.fromkeys(procfs.tree(self._process.pid, procfs.snapshot()), self.name)

    def stop(self) -> None:
        end(frozenset(self.processes()))
        if self._process is not None:
            self._process.wait()

    def _exited(self) -> str:
        if self._process is None or self._process.poll() is None:
            return ""
        log = (self.folder / f"{self.name}.log").read_text(errors="replace")
        return f"{self.name} ended with {self._process.returncode}: {log[-400:]}"


def nginx(folder: Path) -> Program:
    config = folder / "nginx.conf"
    tensor = {"name": "predict", "shape": [1], "datatype": "INT64", "data": ANSWER}
    answer = json.dumps({"model_name": MODEL, "model_version": "1", "id": "0" * 32, "outputs": [tensor]})

    def command(port: int) -> list[str]:
        config.write_text(
            f"worker_processes 1; daemon off; pid {folder}/nginx.pid;\n"
            "events { worker_connections 1024; }\n"
            f"http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/nginx-body;\n"
            f"  server {{ listen 127.0.0.1:{port}; default_type application/json;\n"
            f"    location / {{ return 200 '{answer}'; }} }} }}\n"
        )
        return ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)]

    return Program("nginx", folder, command, {"PATH": os.environ.get("PATH", "") + ":/usr/sbin"})


def fastapi(folder: Path, model: Path) -> Program:
    def command(port: int) -> list[str]:
        server = [sys.executable, "-m", "uvicorn", "bench.fastapi_app:app", "--host", "127.0.0.1", "--port", str(port)]
        return [*server, "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]

    environ = {"BENCH_MODEL": str(model), "PYTHONPATH": str(HERE.parent)}
    return Program("fastapi", folder, command, environ | ONE_THREAD)


@dataclass
class Mizzen:
    """A plane on a data dir of its own, brought up and given the model through its CLI."""

    folder: Path
    model: Path
    name: str = "mizzen"
    url: str = ""
    up_cpu_seconds: float = 0.0
    """From `up` until it returned ready, command and plane together."""
    question: object = None
    """For another model than iris."""
    answer: object = None
    python: str = sys.executable
    """The interpreter of the checkout whose code is measured."""

    @property
    def data_dir(self) -> Path:
        return self.folder / self.name

    def start(self) -> None:
        before = children_cpu()
        self._cli("up", "--detach", "--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
        self.up_cpu_seconds = children_cpu() - before + procfs.cpu_seconds(self.processes())
        self._cli("deploy", str(self.model), "--name", MODEL)
        self.adjust()
        self.url = json.loads(self._cli("status", "-o", "json"))["inference_url"].rstrip("/") + PATH
        await_answer(self.url, question=self.question or QUESTION, right=self.answer or ANSWER)

    def adjust(self) -> None:
        """Once the model is served."""

    def processes(self) -> dict[int, str]:
        return {pid: role(pid) for pid in procfs.with_environment("MIZZEN_DATA_DIR", str(self.data_dir))}

    def stop(self) -> None:
        try:
            self._cli("down")
        except StartFailed as error:
            print(f"mizzen down failed, ending its processes by pid: {error}", file=sys.stderr)
        end(frozenset(self.processes()))

    def _cli(self, *arguments: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
        done = subprocess.run(
            [self.python, str(Path(self.python).with_name("mizzen")), *arguments],
            env=clean | {"MIZZEN_DATA_DIR": str(self.data_dir)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode:
            raise StartFailed(f"mizzen {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-600:]}")
        return done.stdout


class Cached(Mizzen):
    """The same with a cache: all requests of the bench are equal, so all but the first are answered from it."""

    def adjust(self) -> None:
        manifest = self.folder / "cached.json"
        spec = {"modelName": MODEL, "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
        served = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": f"{MODEL}-1"}}
        manifest.write_text(json.dumps({**served, "spec": {**spec, "cache": {}}}))
        self._cli("apply", "-f", str(manifest), "--wait")


def role(pid: int) -> str:
    """Of a process of a plane: supervisor, plane, gateway or runtime."""
    command = procfs.command(pid)
    key = procfs.environment(pid).get("MIZZEN_PROCESS_KEY", "")
    if "mizzen.supervisor" in command:
        return "supervisor"
    if "mizzen.runtime" in command:
        return "runtime"
    return key.split("-")[0] or "other"


def await_answer(
    url: str, exited: Callable[[], str] = str, question: object = QUESTION, right: object = ANSWER
) -> None:
    """Until the server answers, and rightly. `exited` gives the last words of a server that ended."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if words := exited():
            raise StartFailed(words)
        try:
            status, answer = ask(url, question)
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            continue
        if status == 200 and answer["outputs"][0]["data"] == right:
            return
        raise StartFailed(f"{url} answered {status} {answer} where {right} is right")
    raise StartFailed(f"{url} did not answer within {START_SECONDS} seconds")


def ask(url: str, question: object = QUESTION) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        connection.request("POST", parts.path, json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def end(pids: frozenset[int]) -> None:
    """TERM, and KILL for what is left after three seconds."""
    for number, seconds in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and _living(pids):
            time.sleep(0.02)
        pids = _living(pids)


def _living(pids: frozenset[int]) -> frozenset[int]:
    stats = procfs.snapshot()
    return frozenset(pid for pid in pids if pid in stats and stats[pid].state != "Z")


def children_cpu() -> float:
    """Seconds of CPU of all children this process has waited for, and theirs."""
    times = os.times()
    return times.children_user + times.children_system


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
