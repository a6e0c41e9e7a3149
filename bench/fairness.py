"""By hand: what one user's burst does to another user of the control API.

python -m bench.fairness [--tree FOLDER …] compares checkouts, each over a store of 10,000 models: the median latency of
a light user (GET one object, list ten) while the API is quiet, and during each burst of another user. The bursts run in
a process of their own, in rounds that alternate between the checkouts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.core import fill, name_of
from bench.core_plane import TOKEN
from mizzen.kinds.schema.resource import API_VERSION

HERE = f"/apis/{API_VERSION}/namespaces/default"
MODELS = 10_000
LISTS, WRITES, WATCHES = 50, 500, 100
BURSTS = {"lists": (LISTS, 0, 0), "writes": (0, WRITES, 0), "watches": (0, 0, WATCHES), "all": (LISTS, WRITES, WATCHES)}
LIGHT = {"get": f"{HERE}/models/{name_of(7)}", "list": f"{HERE}/models?limit=10"}
RIGHTS = {"light": "read", "heavy": "write"}


@dataclass
class Checkout:
    """A control API of one checkout, and what its light user measured in milliseconds, by burst and request."""

    tree: Path
    process: subprocess.Popen[str]
    port: int
    tokens: dict[str, str] = field(default_factory=dict)
    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if options.burst:
        lists, writes, watches = BURSTS[options.burst]
        asyncio.run(_burst(options.port, options.token, lists, writes, watches))
        return 0
    with tempfile.TemporaryDirectory(prefix="mzf-") as folder, ExitStack() as stack:
        checkouts = [_start(tree.resolve(), Path(folder) / str(at), stack) for at, tree in enumerate(options.tree)]
        for checkout in checkouts:
            asyncio.run(_create_users(checkout))
        for _ in range(options.rounds):
            for checkout in checkouts:
                _measure(checkout, options.samples)
    _show(checkouts)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description="What a burst does to other users.")
    parser.add_argument("--tree", type=Path, nargs="+", default=[Path.cwd()], help="checkouts to compare")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds; figures are medians over all")
    parser.add_argument("--samples", type=int, default=100, help="requests of the light user in each round and burst")
    parser.add_argument("--burst", choices=BURSTS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--token", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _start(tree: Path, folder: Path, stack: ExitStack) -> Checkout:
    folder.mkdir()
    asyncio.run(fill(folder, MODELS // 10))
    command = [str(tree / ".venv/bin/python"), "-m", "bench.core_plane", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tree)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    assert process.stdout is not None
    return Checkout(tree, process, int(process.stdout.readline()))


async def _create_users(checkout: Checkout) -> None:
    for user, verb in RIGHTS.items():
        await _request(checkout.port, TOKEN, "POST", "/user", {"name": user})
        _, body = await _request(checkout.port, TOKEN, "POST", f"/user/{user}/token", {})
        checkout.tokens[user] = json.loads(body)["token"]
        spec = {"subjects": [user], "verbs": [verb], "target": {"namespace": "default"}}
        binding = {"apiVersion": API_VERSION, "kind": "RoleBinding", "metadata": {"name": user}, "spec": spec}
        code, body = await _request(checkout.port, TOKEN, "POST", f"{HERE}/rolebindings", binding)
        assert code == 201, body


def _measure(checkout: Checkout, samples: int) -> None:
    for burst in ("quiet", *BURSTS):
        process = None
        if burst != "quiet":
            command = [sys.executable, "-m", "bench.fairness", "--burst", burst, "--port", str(checkout.port)]
            command += ["--token", checkout.tokens["heavy"]]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            process.stdout.readline()
        try:
            for what, seconds in asyncio.run(_sample(checkout, samples)):
                checkout.figures.setdefault((burst, what), []).append(seconds * 1000)
        finally:
            if process is not None:
                process.kill()
                process.communicate()
        time.sleep(2)  # what the burst left is worked off


async def _sample(checkout: Checkout, samples: int) -> list[tuple[str, float]]:
    measured = []
    connection = await asyncio.open_connection("127.0.0.1", checkout.port)
    for _ in range(samples):
        for what, path in LIGHT.items():
            begin = time.perf_counter()
            code, _ = await _exchange(connection, checkout.tokens["light"], "GET", path)
            measured.append((what, time.perf_counter() - begin))
            assert code == 200, code
        await asyncio.sleep(0.01)
    connection[1].close()
    return measured


async def _burst(port: int, token: str, lists: int, writes: int, watches: int) -> None:
    """Goes on until it is killed: each client sends again as soon as it has its response."""
    number = iter(range(10**9))

    async def list_all() -> None:
        await _request(port, token, "GET", f"{HERE}/modelversions?limit={MODELS}")

    async def write() -> None:
        name = f"new-{time.time_ns()}-{next(number)}"
        body = {"apiVersion": API_VERSION, "kind": "Model", "metadata": {"name": name}, "spec": {}}
        await _request(port, token, "POST", f"{HERE}/models", body)

    async def watch() -> None:
        await _request(port, token, "GET", f"{HERE}/modelversions?watch=true&timeoutSeconds=5")

    async def repeat(work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.1)

    works = [list_all] * lists + [write] * writes + [watch] * watches
    tasks = [asyncio.create_task(repeat(work)) for work in works]
    await asyncio.sleep(1.0)
    print("running", flush=True)
    await asyncio.gather(*tasks)


async def _request(port: int, token: str, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await _exchange(connection, token, method, path, body, more="Connection: close\r\n")
    finally:
        connection[1].close()


async def _exchange(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    token: str,
    method: str,
    path: str,
    body: object = None,
    *,
    more: str = "",
) -> tuple[int, bytes]:
    reader, writer = connection
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{more}"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    code, lines = int(answer[0].split()[1]), dict(line.split(": ", 1) for line in answer[1:] if line)
    if "content-length" in lines:
        return code, await reader.readexactly(int(lines["content-length"]))
    while chunk := await reader.read(1 << 20):
        del chunk
    if code == 429:
        await asyncio.sleep(float(lines.get("retry-after", 1)))
    return code, b""


def _show(checkouts: Sequence[Checkout]) -> None:
    print("| burst | request |" + "".join(f" {checkout.tree.name} p50 ms | ratio |" for checkout in checkouts))
    print("|---|---|" + "---|---|" * len(checkouts))
    for burst in ("quiet", *BURSTS):
        for what in LIGHT:
            cells = ""
            for checkout in checkouts:
                quiet, here = median(checkout.figures["quiet", what]), median(checkout.figures[burst, what])
                cells += f" {here:.1f} | {here / quiet:.1f} |"
            print(f"| {burst} | {what} |{cells}")


if __name__ == "__main__":
    sys.exit(main())
