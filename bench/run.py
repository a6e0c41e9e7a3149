"""`make bench`: start the contestants, load each in turn over interleaved rounds, print what a request costs.

The primary figure is CPU time of the server's whole process tree per request: of all figures it depends least on what
else the machine does. It is not immune, so the other load during each window is measured and shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from bench import contestants, load, procfs, report, streams

RESULTS = contestants.HERE / "results" / "latest.json"
PACKAGES = {"wrk": "wrk", "nginx": "nginx-light", "h2load": "nghttp2-client"}
Server = TypeVar("Server", bound=contestants.Contestant)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also when a shell started this with SIGINT ignored
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if problem := missing_programs("nginx" in options.only):
        print(problem, file=sys.stderr)
        return 1
    # Short, because unix sockets live below it.
    with tempfile.TemporaryDirectory(prefix="mzb-") as folder:
        return measure(Path(folder).resolve(), options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="What a request costs.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--seconds", type=int, default=3, help="length of one window")
    parser.add_argument("--connections", type=_numbers, default=[1, 16, 64], metavar="N,N", help="default 1,16,64")
    names = ["nginx", "fastapi", "mizzen", "cached"]
    beside = "checkout of another commit, set up: measure it, too, as `before` and `cached-before`"
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help=beside)
    parser.add_argument("--only", type=_names, metavar="NAME,NAME", help=f"of {', '.join(names)}")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, metavar="FILE", help="all figures as JSON")
    options = parser.parse_args(arguments)
    if options.beside is not None:
        if not (options.beside / ".venv" / "bin" / "mizzen").exists():
            parser.error(f"{options.beside} is not a checkout that `make setup` has set up")
        names += ["before", "cached-before"]
    options.only = options.only or names
    if unknown := set(options.only) - set(names):
        parser.error(f"no contestant {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def measure(folder: Path, options: argparse.Namespace) -> int:
    model = train(folder)
    question = folder / "question.json"
    question.write_text(json.dumps(contestants.QUESTION))
    factories: dict[str, Callable[[], contestants.Contestant]] = {
        "nginx": lambda: contestants.nginx(folder),
        "fastapi": lambda: contestants.fastapi(folder, model),
        "mizzen": lambda: contestants.Mizzen(folder, model),
        "cached": lambda: contestants.Cached(folder, model, "cached"),
    }
    if options.beside is not None:
        other = str(options.beside.resolve() / ".venv" / "bin" / "python")
        factories["before"] = lambda: contestants.Mizzen(folder, model, "before", python=other)
        factories["cached-before"] = lambda: contestants.Cached(folder, model, "cached-before", python=other)
    started: list[contestants.Contestant] = []
    footprints: list[report.Footprint] = []
    windows: list[report.Window] = []
    try:
        for name in options.only:
            server = factories[name]()
            started.append(server)
            footprints.append(start(server))
        for server in started:
            load.run(server.url, question, connections=8, seconds=1)  # warm
        for round_ in range(options.rounds):
            for connections in options.connections:
                for server in rotated(started, round_):
                    windows.append(window(server, question, connections, round_ + 1, options.seconds))
                    progress(windows[-1])
    except contestants.StartFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; stopping the servers.", file=sys.stderr)
        return 130
    finally:
        for server in reversed(started):
            server.stop()
    show(footprints, windows)
    save(options.output, footprints, windows)
    return 0


def train(folder: Path) -> Path:
    """The model all contestants serve."""
    script = contestants.HERE.parent / "examples" / "iris" / "train.py"
    subprocess.run([sys.executable, str(script)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "model.joblib"


def start(server: contestants.Contestant) -> report.Footprint:
    print(f"starting {server.name} ...", flush=True)
    began, before = time.monotonic(), contestants.children_cpu()
    server.start()
    seconds = time.monotonic() - began
    processes = server.processes()
    cpu = contestants.children_cpu() - before + procfs.cpu_seconds(processes)
    memory: dict[str, tuple[float, float]] = {}
    for pid, role in processes.items():
        of_pid = procfs.memory(pid)
        rss, pss = memory.get(role, (0.0, 0.0))
        memory[role] = (rss + of_pid.rss_mb, pss + of_pid.pss_mb)
    up = server.up_cpu_seconds if isinstance(server, contestants.Mizzen) else None
    return report.Footprint(server.name, seconds, cpu, up, memory)


def window(
    server: contestants.Contestant,
    question: Path,
    connections: int,
    round_: int,
    seconds: int,
    *,
    headers: Mapping[str, str] = load.JSON,
) -> report.Window:
    busy, generator, before = procfs.busy_seconds(), contestants.children_cpu(), by_role(server)
    seen = streams.either(server.url, question, connections, seconds, headers)
    after = by_role(server)
    busy, generator = procfs.busy_seconds() - busy, contestants.children_cpu() - generator
    spent = {role: after.get(role, 0.0) - before.get(role, 0.0) for role in after | before}
    requests = max(seen.requests, 1)
    return report.Window(
        contestant=server.name,
        connections=connections,
        round=round_,
        requests=seen.requests,
        cpu_us=sum(spent.values()) / requests * 1e6,
        parts={role: cpu / requests * 1e6 for role, cpu in spent.items()},
        per_second=seen.requests / seen.seconds,
        p50_ms=seen.p50_ms,
        p99_ms=seen.p99_ms,
        errors=seen.errors,
        other_cores=max(busy - generator - sum(spent.values()), 0.0) / seen.seconds,
    )


def by_role(server: contestants.Contestant) -> dict[str, float]:
    """CPU seconds so far. A process that ended is counted by the parent that waited for it."""
    roles, stats = server.processes(), procfs.snapshot()
    sums: dict[str, float] = {}
    for pid, role in roles.items():
        if pid in stats:
            sums[role] = sums.get(role, 0.0) + stats[pid].cpu_seconds
    return sums


def rotated(servers: Sequence[Server], by: int) -> list[Server]:
    """Another one goes first each round, so that nobody always runs on the warmest or the busiest machine."""
    by %= len(servers)
    return [*servers[by:], *servers[:by]]


def progress(done: report.Window, before: str = "") -> None:
    cost, rate = report.number(done.cpu_us), report.number(done.per_second)
    print(
        f"{before}round {done.round}  {done.connections:>3} connections  {done.contestant:<8} {cost:>6} µs  {rate:>6}/s"
        f"  errors {done.errors}  other load {done.other_cores:.2f}",
        flush=True,
    )


def show(footprints: list[report.Footprint], windows: list[report.Window]) -> None:
    tables = (report.load_table(windows), report.parts_table(windows), report.footprint_table(footprints))
    for text in (*tables, report.noise(windows)):
        if text:
            print(f"\n{text}")


def save(path: Path, footprints: list[report.Footprint], windows: list[report.Window]) -> None:
    machine = {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
    figures = {"machine": machine, "footprints": list(map(asdict, footprints)), "windows": list(map(asdict, windows))}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"\nAll figures: {os.path.relpath(path)}")


def missing_programs(nginx: bool, h2load: bool = False) -> str:
    """What to say when a program is not there and could not be installed; empty when all is well."""
    search = os.environ.get("PATH", "") + ":/usr/sbin"
    wanted = ["wrk", *(["nginx"] if nginx else []), *(["h2load"] if h2load else [])]
    missing = [program for program in wanted if not shutil.which(program, path=search)]
    if not missing:
        return ""
    install = ["apt-get", "install", "-y", *(PACKAGES[program] for program in missing)]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"make bench needs {' and '.join(missing)}. On Debian: {' '.join(install)}"
    print(f"installing: {' '.join(install)}", flush=True)
    done = subprocess.run(install, stdout=subprocess.DEVNULL, check=False)
    return "" if done.returncode == 0 else f"'{' '.join(install)}' failed; install it by hand"


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
