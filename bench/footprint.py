"""`make bench-footprint`: what Mizzen weighs: on the disk, when a model starts, and in memory.

A runtime is compared with the least that could serve the same file: a bare Python that loads it and predicts once.
Both are started directly and in turn, and read from /proc when they are ready. CPU seconds depend least on what else
the machine does; memory hardly at all.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench import contestants, procfs, report
from bench.run import THREADS, start, train

ROOT = contestants.HERE.parent
RESULTS = contestants.HERE / "results" / "footprint.json"
MOST_MB, MOST_PACKAGES, MOST_TIMES, MOST_OVERHEAD_MB = 200, 50, 2, 40
BARE = """
import sys, joblib
model = joblib.load(sys.argv[1])
model.predict([[5.1, 3.5, 1.4, 0.2]])
print("ready", flush=True)
sys.stdin.read()
"""
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Installed:
    what: str
    packages: int
    mb: float


@dataclass(frozen=True, slots=True)
class Started:
    """A process that holds the model, when it is ready."""

    what: str
    seconds: float
    cpu_seconds: float
    rss_mb: float
    pss_mb: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with tempfile.TemporaryDirectory(prefix="mzf-") as name:
        folder = Path(name).resolve()
        model = train(folder)
        busy, began = procfs.busy_seconds(), time.monotonic()
        own = contestants.children_cpu()
        started = [one for _ in range(options.rounds) for one in (bare(model), runtime(folder, model))]
        spent = procfs.busy_seconds() - busy - (contestants.children_cpu() - own)
        other = max(spent, 0.0) / (time.monotonic() - began)
        profile = imports(folder, model)
        plane = whole(folder, model)
        sizes = [] if options.no_install else list(installed(folder))
    medians = [_median([one for one in started if one.what == what]) for what in ("bare", "runtime")]
    print("\n" + "\n\n".join([*tables(sizes, medians, profile), plane]))
    print(f"\nOther load during the starts: {other:.2f} cores.\n")
    for line in verdicts(sizes, *medians):
        print(line)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figures = {"installed": list(map(asdict, sizes)), "started": list(map(asdict, started)), "other_cores": other}
    options.output.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-footprint", description="What Mizzen weighs.")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each; figures are medians")
    parser.add_argument("--no-install", action="store_true", help="leave out the fresh environment")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, metavar="FILE", help="all figures as JSON")
    return parser.parse_args(arguments)


def bare(model: Path) -> Started:
    with running([sys.executable, "-c", BARE, str(model)], {}) as process:
        assert process.stdout is not None
        began = time.monotonic()
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("the bare process could not load the model")
        return _seen("bare", process.pid, time.monotonic() - began)


def runtime(folder: Path, model: Path) -> Started:
    """As the plane starts it; ready when its hello comes."""
    path = folder / "runtime.sock"
    path.unlink(missing_ok=True)
    environ = {"MIZZEN_SOCKET": str(path), "MIZZEN_ARTIFACTS": str(model.parent), "MIZZEN_THREADS": "1"}
    with running(runtime_command(model), environ) as process:
        began = time.monotonic()
        while time.monotonic() < began + START_SECONDS and process.poll() is None:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(path))
                    client.settimeout(START_SECONDS)
                    if client.recv(1):
                        return _seen("runtime", process.pid, time.monotonic() - began)
                except OSError:
                    time.sleep(0.01)
        raise SystemExit("the runtime did not become ready")


def whole(folder: Path, model: Path) -> str:
    """The same through the command line: `up`, `deploy`, and the right answer."""
    server = contestants.Mizzen(folder, model)
    try:
        return report.footprint_table([start(server)])
    except contestants.StartFailed as error:
        return f"A whole plane could not be measured: {error}"
    finally:
        server.stop()


def runtime_command(model: Path, *options: str) -> list[str]:
    command = [sys.executable, *options, "-m", "mizzen.runtime", "--framework", "sklearn"]
    return [*command, "--entrypoint", model.name, "--trusted"]


@contextmanager
def running(command: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command,
        env=os.environ | environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _seen(what: str, pid: int, seconds: float) -> Started:
    memory = procfs.memory(pid)
    return Started(what, seconds, procfs.precise_cpu_seconds(pid), memory.rss_mb, memory.pss_mb)


def _median(group: Sequence[Started]) -> Started:
    seconds, cpu = median(one.seconds for one in group), median(one.cpu_seconds for one in group)
    return Started(
        group[0].what, seconds, cpu, median(one.rss_mb for one in group), median(one.pss_mb for one in group)
    )


def imports(folder: Path, model: Path) -> list[tuple[str, float]]:
    """The imports of a runtime that cost most and that the bare process does not have, in ms of their own."""
    found = []
    for command in ([sys.executable, "-X", "importtime", "-c", BARE, str(model)],):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        found.append(importtime(done.stderr))
    path = folder / "profile.sock"
    environ = {"MIZZEN_SOCKET": str(path), "MIZZEN_ARTIFACTS": str(model.parent), "MIZZEN_THREADS": "1"}
    with (folder / "imports").open("w+") as lines:
        process = subprocess.Popen(
            runtime_command(model, "-X", "importtime"), env=os.environ | environ, stderr=lines, stdin=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not path.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        lines.seek(0)
        found.append(importtime(lines.read()))
    only = {name: own for name, own in found[1].items() if name not in found[0]}
    return sorted(only.items(), key=lambda pair: -pair[1])


def importtime(text: str) -> dict[str, float]:
    """From what `python -X importtime` writes: each module's own milliseconds."""
    found = {}
    for line in text.splitlines():
        if line.startswith("import time:") and "self [us]" not in line:
            own, _, name = line.removeprefix("import time:").split("|", 2)
            found[name.strip()] = int(own) / 1000
    return found


def installed(folder: Path) -> Iterator[Installed]:
    """In a fresh environment, from this checkout: alone, then with scikit-learn."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    nothing = weigh(venv)
    for what, extra in (("mizzen", ""), ("mizzen[sklearn]", "[sklearn]")):
        print(f"installing {what} ...", flush=True)
        pip = [f"{venv}/bin/python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{ROOT}{extra}"], check=True, stdin=subprocess.DEVNULL)
        packages, mb = weigh(venv)
        yield Installed(what, packages - nothing[0], mb - nothing[1])


def weigh(venv: Path) -> tuple[int, float]:
    """Packages and MB of all files, compiled ones included."""
    files = [path for path in venv.rglob("*") if path.is_file() and not path.is_symlink()]
    packages = sum(path.name == "METADATA" and path.parent.suffix == ".dist-info" for path in files)
    return packages, sum(path.stat().st_size for path in files) / 2**20


def tables(
    sizes: Sequence[Installed], started: Sequence[Started], profile: Sequence[tuple[str, float]]
) -> Iterator[str]:
    if sizes:
        rows = [(one.what, str(one.packages), f"{one.mb:.0f}") for one in sizes]
        yield report.table([("installed", "packages", "MB"), *rows])
    rows_ = [
        (one.what, f"{one.seconds:.2f}", f"{one.cpu_seconds:.2f}", f"{one.rss_mb:.1f}", f"{one.pss_mb:.1f}")
        for one in started
    ]
    yield report.table([("process", "ready after s", "CPU s", "RSS MB", "PSS MB"), *rows_])
    total = sum(own for _, own in profile)
    top = [(name, f"{own:.1f}") for name, own in profile[:12]]
    yield report.table([("imported by the runtime only", "ms of its own"), *top, ("all of them", f"{total:.1f}")])


def verdicts(sizes: Sequence[Installed], alone: Started, served: Started) -> Iterator[str]:
    for one in sizes[:1]:
        yield _verdict(one.mb <= MOST_MB, f"installed size without scikit-learn: {one.mb:.0f} MB of {MOST_MB}")
        met = one.packages <= MOST_PACKAGES
        yield _verdict(met, f"packages without scikit-learn: {one.packages} of {MOST_PACKAGES}")
    times = served.cpu_seconds / alone.cpu_seconds
    yield _verdict(times <= MOST_TIMES, f"start of a runtime: {times:.2f} times the bare process, at most {MOST_TIMES}")
    for name, more in (("RSS", served.rss_mb - alone.rss_mb), ("PSS", served.pss_mb - alone.pss_mb)):
        met = more <= MOST_OVERHEAD_MB
        yield _verdict(
            met, f"memory of a runtime over the bare process: {more:.1f} MB {name}, at most {MOST_OVERHEAD_MB}"
        )


def _verdict(met: bool, text: str) -> str:
    return f"{'met    ' if met else 'NOT MET'}  {text}"


if __name__ == "__main__":
    sys.exit(main())
