"""One window of load from wrk: keep-alive connections that each post the same body as fast as answers come back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

SCRIPT = Path(__file__).with_name("post.lua")
JSON = MappingProxyType({"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw. Closed loop: a slow answer delays the next question, so p99 is kinder than users would be."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int
    """Answers that were no 2xx, and connections that failed."""


class LoadFailed(Exception):
    """wrk could not run; the message holds what it said."""


def run(url: str, body: Path, connections: int, seconds: int, headers: Mapping[str, str] = JSON) -> Load:
    """What follows each # in the URL is one more path: each request goes to one of them, by chance."""
    url, *others = url.split("#")
    paths = [urlsplit(url).path, *others] if others else []
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(SCRIPT), url, "--"]
    given = [f"{name}={value}" for name, value in headers.items()] + paths
    done = subprocess.run(
        [*command, str(body), *given],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return parse(done.stdout, done.stderr)


def parse(output: str, errors: str = "") -> Load:
    """Of the RESULT line that post.lua prints at the end."""
    for line in output.splitlines():
        if line.startswith("RESULT "):
            seen = json.loads(line.removeprefix("RESULT "))
            return Load(
                requests=seen["requests"],
                seconds=seen["duration_us"] / 1e6,
                p50_ms=seen["p50_us"] / 1e3,
                p99_ms=seen["p99_us"] / 1e3,
                errors=seen["refused"] + seen["failed"],
            )
    raise LoadFailed(f"wrk gave no result: {(output + errors)[-400:]}")
