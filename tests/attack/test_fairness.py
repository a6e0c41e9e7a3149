"""One user's burst against the control API: other users do not wait for it, and the plane bounds what it holds.

The tests compare what had finished when, never how long it took.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support import attack, planes

HERE = "/apis/mizzen.dev/v1alpha1/namespaces/default"
QUEUED, STREAMS = 64, 20
SETTINGS = f"api_queued_per_actor = {QUEUED}\napi_streams_per_actor = {STREAMS}\n"
MODELS = 300
NOTE = "n" * 4000
BURST = 60
LIGHT = 5


@dataclass
class Response:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Caller:
    """A user of the control API. Each request has a connection of its own."""

    url: str
    token: str
    finished: list[Response] = field(default_factory=list)

    async def send(self, method: str, path: str, body: object = None) -> Response:
        reader, writer = await self.begin(method, path, body)
        try:
            response = await read_response(reader)
        finally:
            writer.close()
        self.finished.append(response)
        return response

    async def begin(
        self, method: str, path: str, body: object = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        content = b"" if body is None else json.dumps(body).encode()
        token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {at.netloc}\r\n{token}Content-Length: {len(content)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + content)
        return reader, writer


async def read_response(reader: asyncio.StreamReader) -> Response:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    length = int(headers.get("content-length", 0))
    return Response(int(lines[0].split()[1]), headers, await reader.readexactly(length))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    folder = tmp_path_factory.mktemp("plane") / "data"
    folder.mkdir()
    (folder / "settings.toml").write_text(SETTINGS)
    with planes.running_plane(folder) as running:
        asyncio.run(fill(running))
        yield running


async def fill(plane: planes.TestPlane) -> None:
    admin = Caller(plane.control_url, plane.token())
    await asyncio.gather(*(admin.send("POST", f"{HERE}/models", model(f"m-{number}")) for number in range(MODELS)))
    assert {response.code for response in admin.finished} == {201}


def model(name: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"note": NOTE}}
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": metadata, "spec": {}}


@pytest.fixture(scope="module")
def tokens(plane: planes.TestPlane) -> dict[str, str]:
    """Of a user with a burst, and of another one."""

    async def create() -> dict[str, str]:
        admin, created = Caller(plane.control_url, plane.token()), {}
        for user in ("heavy", "light"):
            await admin.send("POST", "/user", {"name": user})
            created[user] = (await admin.send("POST", f"/user/{user}/token", {})).json["token"]
            spec = {"subjects": [user], "verbs": ["write"], "target": {"namespace": "default"}}
            binding = {
                "apiVersion": "mizzen.dev/v1alpha1",
                "kind": "RoleBinding",
                "metadata": {"name": user},
                "spec": spec,
            }
            assert (await admin.send("POST", f"{HERE}/rolebindings", binding)).code == 201
        return created

    return asyncio.run(create())


Burst = Callable[[Caller], list[Coroutine[Any, Any, Response]]]
numbers = iter(range(10**9))


def lists(caller: Caller) -> list[Coroutine[Any, Any, Response]]:
    return [caller.send("GET", f"{HERE}/models") for _ in range(BURST)]


def tables(caller: Caller) -> list[Coroutine[Any, Any, Response]]:
    return [caller.send("GET", "/model?limit=1000") for _ in range(BURST)]


def writes(caller: Caller) -> list[Coroutine[Any, Any, Response]]:
    return [caller.send("POST", f"{HERE}/models", model(f"new-{next(numbers)}")) for _ in range(BURST)]


@pytest.mark.parametrize("burst", [lists, tables, writes])
@pytest.mark.parametrize("other", ["light", "admin", "anonymous"])
def test_others_do_not_wait_for_a_burst(
    plane: planes.TestPlane, tokens: dict[str, str], burst: Burst, other: str
) -> None:
    async def run() -> None:
        heavy = Caller(plane.control_url, tokens["heavy"])
        token = {"light": tokens["light"], "admin": plane.token(), "anonymous": ""}[other]
        caller = Caller(plane.control_url, token)
        tasks = [asyncio.create_task(request) for request in burst(heavy)]
        await until(lambda: heavy.finished)
        before = len(heavy.finished)
        for _ in range(LIGHT):
            assert (await caller.send("GET", f"{HERE}/models/m-7")).code == 200
        during = len(heavy.finished) - before
        await asyncio.gather(*tasks)
        assert {response.code for response in heavy.finished} <= {200, 201}
        # Served in turn with the burst, LIGHT requests see a few of it each; behind it, they see all of it.
        assert during < BURST - before, "the burst had ended"
        assert during <= LIGHT * 6

    asyncio.run(run())


def test_the_plane_bounds_what_waits(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    async def run() -> None:
        heavy = Caller(plane.control_url, tokens["heavy"])
        await asyncio.gather(*(heavy.send("GET", f"{HERE}/models") for _ in range(attack.rounds(300))))
        codes = [response.code for response in heavy.finished]
        assert set(codes) == {200, 429}
        assert codes.count(200) >= QUEUED
        refused = next(response for response in heavy.finished if response.code == 429)
        assert refused.headers["retry-after"] == "1"
        assert (refused.json["kind"], refused.json["reason"], refused.json["code"]) == (
            "Status",
            "TooManyRequests",
            429,
        )
        assert refused.json["details"]["hint"]
        assert await metric(plane, "mizzen_api_requests_rejected_total", actor="user", work="reading") >= 1
        await until_idle(plane)

    asyncio.run(run())


def test_watches_have_a_limit_of_their_own(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    async def run() -> None:
        heavy, light = (Caller(plane.control_url, tokens[user]) for user in ("heavy", "light"))
        path = f"{HERE}/models?watch=true&resourceVersion=0&sendInitialEvents=false"
        watches = [await heavy.begin("GET", path) for _ in range(STREAMS)]
        for reader, _ in watches:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        refused = await heavy.send("GET", path)
        assert (refused.code, refused.headers["retry-after"]) == (429, "1")
        assert (await heavy.send("GET", f"{HERE}/models/m-7")).code == 200
        reader, writer = await light.begin("GET", path)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for _, each in (*watches, (reader, writer)):
            each.close()
        await until_idle(plane)
        again, writer = await heavy.begin("GET", path)
        assert (await again.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
        await until_idle(plane)

    asyncio.run(run())


def test_slow_uploads_hold_no_slot(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    async def run() -> None:
        heavy, at = Caller(plane.control_url, tokens["heavy"]), urlsplit(plane.control_url)
        begun = []
        for _ in range(STREAMS // 2):
            _, writer = await asyncio.open_connection(at.hostname, at.port)
            head = f"POST {HERE}/models HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {heavy.token}\r\n"
            writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
            begun.append(writer)
        name = f"quick-{next(numbers)}"
        assert (await heavy.send("POST", f"{HERE}/models", model(name))).code == 201
        for writer in begun:
            writer.close()
        await until_idle(plane)

    asyncio.run(run())


def test_requests_whose_clients_leave_lose_no_slot(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    async def run() -> None:
        heavy = Caller(plane.control_url, tokens["heavy"])
        for _ in range(attack.rounds(4)):
            opened = [await heavy.begin("GET", f"{HERE}/models") for _ in range(QUEUED // 2)]
            for _, writer in opened:
                writer.transport.abort()
        await until_idle(plane)
        assert (await heavy.send("GET", f"{HERE}/models?limit=1")).code == 200

    asyncio.run(run())


def test_the_command_line_of_the_admin_works_during_a_burst(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    async def run() -> None:
        heavy = Caller(plane.control_url, tokens["heavy"])
        going = True

        async def repeat() -> None:
            while going:
                await heavy.send("GET", f"{HERE}/models")

        tasks = [asyncio.create_task(repeat()) for _ in range(BURST)]
        await until(lambda: heavy.finished)
        for words in (("status",), ("get", "model", "m-7")):
            await asyncio.to_thread(plane.cli, *words)
        going = False
        await asyncio.gather(*tasks)

    asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - many requests set it
            await asyncio.sleep(0.001)


async def until_idle(plane: planes.TestPlane) -> None:
    """Until no slot is held but that of the question, and nothing waits."""

    async def is_idle() -> bool:
        values = [
            await metric(plane, "mizzen_api_requests_executing", work="reading") - 1,
            await metric(plane, "mizzen_api_requests_executing", work="mutating"),
            await metric(plane, "mizzen_api_requests_waiting", work="reading"),
            await metric(plane, "mizzen_api_requests_waiting", work="mutating"),
            await metric(plane, "mizzen_api_streams", actor="user"),
        ]
        return not any(values)

    async with asyncio.timeout(60):
        while not await is_idle():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def metric(plane: planes.TestPlane, name: str, **labels: str) -> float:
    response = await Caller(plane.control_url, plane.token()).send("GET", "/metrics")
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
    wanted = f"{name}{{{pairs}}} "
    found = [line.split()[-1] for line in response.body.decode().splitlines() if line.startswith(wanted)]
    return float(found[0]) if found else 0.0


def test_the_metrics_name_classes_not_users(plane: planes.TestPlane, tokens: dict[str, str]) -> None:
    assert tokens
    body = asyncio.run(Caller(plane.control_url, plane.token()).send("GET", "/metrics")).body.decode()
    lines = [line for line in body.splitlines() if line.startswith("mizzen_api_")]
    assert lines
    assert not any(user in line for line in lines for user in tokens)
