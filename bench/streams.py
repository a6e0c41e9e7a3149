"""One window of load from h2load: calls of gRPC that each send the same message, some of them over one connection.

A call that is refused has HTTP's 200 as well, and no data. So the data of one good call is measured first, and what
there is less of it afterwards are errors.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import quantiles

from bench import load
from bench.load import Load, LoadFailed

GRPC = "application/grpc"
MOST_CONNECTIONS = 4
"""Clients of gRPC share connections; h2load shares its calls among so many."""

_DONE = re.compile(r"^requests: \d+ total, \d+ started, (\d+) done, \d+ succeeded", re.MULTILINE)
_DATA = re.compile(r"^traffic: .*\((\d+)\) data$", re.MULTILINE)


def either(url: str, body: Path, calls: int, seconds: int, headers: Mapping[str, str]) -> Load:
    """From whichever of the two speaks what the headers say."""
    if headers["Content-Type"] == GRPC:
        return run(url, body, calls, seconds)
    return load.run(url, body, calls, seconds, headers)


def run(url: str, body: Path, calls: int, seconds: int) -> Load:
    """`calls` at a time."""
    _, size = counted(_h2load(url, body, "-n1", "-c1"))
    if not size:
        raise LoadFailed("a call was answered without data")
    connections = min(calls, MOST_CONNECTIONS)
    with tempfile.NamedTemporaryFile(prefix="h2load-") as log:
        several = (f"-c{connections}", f"-m{calls // connections}", f"-D{seconds}", f"--log-file={log.name}")
        done, data = counted(_h2load(url, body, *several))
        times = [int(line.split(b"\t")[2]) / 1e3 for line in Path(log.name).read_bytes().splitlines()]
    if len(times) < 2:
        raise LoadFailed("nothing was answered")
    cuts = quantiles(times, n=100)
    return Load(done, float(seconds), cuts[49], cuts[98], max(0, done - round(data / size)))


def counted(output: str) -> tuple[int, int]:
    """Calls that ended, and bytes of data that came."""
    done, data = _DONE.search(output), _DATA.search(output)
    if done is None or data is None:
        raise LoadFailed(f"h2load gave no result: {output[-400:]}")
    return int(done[1]), int(data[1])


def _h2load(url: str, body: Path, *options: str) -> str:
    head = (f"--header=content-type: {GRPC}", "--header=te: trailers")
    command = ["h2load", "-t1", *options, "-d", str(body), *head, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr
