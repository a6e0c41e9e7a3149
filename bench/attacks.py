"""`python -m bench.attacks`: how much one hostile connection slows down others, as a table.

Four clients in a closed loop, quiet and then during each attack. A connection that the server closes is opened again,
fifty times a second. `--tree` names checkouts to compare; their planes run at the same time, and each attack is tried
on all of them within seconds. By hand, on a calm machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench import attack_streams
from bench.attack_streams import Attack, Target, request

ROOT = Path(__file__).parents[1]
CLIENTS = 4
PORTS = ("--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
MODEL = "def score(inputs):\n    return next(iter(inputs.values())) * 2.0\n"
TENSOR = {"name": "x", "datatype": "FP64", "shape": [2], "data": [1.0, 2.0]}
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
GRAPHS = "/apis/mizzen.dev/v1alpha1/namespaces/default/mlgraphs"

SPAWNED = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Plane:
    tree: Path
    targets: dict[str, Target]
    token: str

    def attacks(self, port: str) -> list[Attack]:
        if port == "grpc":
            return attack_streams.http2(STREAM)
        if port == "inference":
            return attack_streams.http1("/v2/health/live", "/v2/models/score/infer")
        return attack_streams.http1("/healthz", GRAPHS, f"Authorization: Bearer {self.token}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How much one hostile connection slows down others.")
    parser.add_argument("--tree", action="append", type=Path, help="a checkout with .venv; may be repeated")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--only", default="", help="attacks whose names have this word")
    options = parser.parse_args(arguments)
    trees = [tree.resolve() for tree in options.tree or [ROOT]]
    with contextlib.ExitStack() as running:
        planes = [running.enter_context(plane_of(tree)) for tree in trees]
        names = [f"{plane.tree.name}: p50 quiet → attacked (ms) | ratio" for plane in planes]
        print(f"| port | attack | {' | '.join(names)} |")
        print("|---|---|" + "---|---|" * len(planes))
        for port in ("control", "control-tls", "inference", "grpc"):
            for index, attack in enumerate(planes[0].attacks(port)):
                if options.only in attack.name:
                    cells = [measure(plane, port, index, options.seconds) for plane in planes]
                    print(f"| {port} | {attack.name} | {' | '.join(cells)} |", flush=True)
    return 0


@contextlib.contextmanager
def plane_of(tree: Path) -> Iterator[Plane]:
    with tempfile.TemporaryDirectory(prefix="mizzen-attacks-") as folder:
        data = Path(folder) / "data"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MIZZEN_")}
        environ |= {"MIZZEN_DATA_DIR": str(data)}

        def run(*words: str) -> str:
            command = [str(tree / "mizzen"), *words]
            return subprocess.run(command, env=environ, cwd=folder, check=True, capture_output=True, text=True).stdout

        (Path(folder) / "functions.py").write_text(MODEL)
        try:
            run("up", "--detach", *PORTS)
            run("deploy", "functions:score", "--name", "score")
            status = json.loads(run("status", "-o", "json"))
            yield Plane(
                tree,
                {
                    "control": target_of(status["control_url"]),
                    "control-tls": target_of(status["tls_url"]),
                    "inference": target_of(status["inference_url"]),
                    "grpc": Target(int(status["grpc_address"].rpartition(":")[2])),
                },
                (data / "admin-token").read_text().strip(),
            )
        finally:
            run("down")


def target_of(url: str) -> Target:
    parts = urlsplit(url)
    return Target(int(parts.port or 0), parts.scheme == "https")


def measure(plane: Plane, port: str, index: int, seconds: float) -> str:
    """The cells of one attack on one plane."""
    others = plane.targets["inference" if port == "grpc" else port]
    quiet = median_latency(others, port, seconds)
    attacker = SPAWNED.Process(target=attack_forever, args=(plane, port, index), daemon=True)
    attacker.start()
    try:
        time.sleep(1.0)  # until it is at work
        attacked = median_latency(others, port, seconds)
    finally:
        attacker.kill()
        attacker.join()
    return f"{quiet * 1e3:.2f} → {attacked * 1e3:.2f} | {attacked / quiet:.1f}"


def attack_forever(plane: Plane, port: str, index: int) -> None:
    attack = plane.attacks(port)[index]
    while True:
        with (
            contextlib.suppress(OSError),
            attack_streams.attacking(plane.targets[port], attack, 1 << 60) as flood,
        ):
            while flood.ended == "held":
                time.sleep(1.0)
        time.sleep(0.02)


def median_latency(target: Target, port: str, seconds: float) -> float:
    """The p50 of four clients, measured in a process of its own."""
    results, ours = SPAWNED.Queue(), json.dumps({"inputs": [TENSOR]}).encode()
    infer = request("POST", "/v2/models/score/infer", f"Content-Length: {len(ours)}") + ours
    sent = request("GET", "/healthz") if port.startswith("control") else infer
    load = SPAWNED.Process(target=ask_for_a_while, args=(target, sent, seconds, results), daemon=True)
    load.start()
    latencies: list[float] = results.get()
    load.join()
    return statistics.median(latencies) if latencies else math.inf


def ask_for_a_while(target: Target, sent: bytes, seconds: float, results: multiprocessing.Queue[list[float]]) -> None:
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    def ask() -> None:
        with attack_streams.connect(target) as client:
            while time.perf_counter() < end:
                began = time.perf_counter()
                client.sendall(sent)
                answer = read_response(client)
                assert answer.startswith(b"HTTP/1.1 200"), answer
                latencies.append(time.perf_counter() - began)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(latencies)


def read_response(client: socket.socket) -> bytes:
    """One response with a Content-Length."""
    answer = b""
    while True:
        answer += client.recv(1 << 16)
        head, end, body = answer.lower().partition(b"\r\n\r\n")
        if end and len(body) >= int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return answer


if __name__ == "__main__":
    sys.exit(main())
