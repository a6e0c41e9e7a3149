"""Watchers that read nothing, or too slowly: cut off, never kept in memory, and told 410 when they come back too late.

Nobody else waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import uvloop

from tests.support import planes
from tests.support.watches import ROOT, Watch, Watching, told

KEPT = 100
"""Changes that the plane keeps."""
SLOW = 20
ROUNDS = 60
LARGE = 200_000
"""Bytes of each change."""
BUFFER = 4096
MODEL = f"{ROOT}/namespaces/default/models/large"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "settings.toml").write_text(f"keep_events = {KEPT}\nuntaken_seconds = 8\n")
    with planes.running_plane(folder) as running:
        yield running


def test_slow_watchers_are_cut_off(plane: planes.TestPlane) -> None:
    uvloop.run(Run(plane).all())


class Run:
    """One after the other, on one plane: each step begins where the one before has left it."""

    def __init__(self, plane: planes.TestPlane) -> None:
        self.plane = plane
        self.watching = Watching(plane)
        self.proc = Path(f"/proc/{plane.pid('plane')}")
        headers = {"authorization": f"Bearer {plane.token()}"}
        self.client = httpx2.AsyncClient(base_url=plane.control_url, headers=headers, timeout=60, trust_env=False)

    async def all(self) -> None:
        with self.watching:
            async with self.client:
                since = await self.create()
                before, alone = self.sockets(), await self.peak(since)
                await self.until_closed(before)
                since = await self.version()
                slow = [await self.open_slow(number, since) for number in range(SLOW)]
                assert self.sockets() == before + SLOW
                beside = await self.peak(since)
                assert beside - alone < SLOW * ROUNDS * LARGE / 4, "what they do not take is not held for them"
                await self.until_closed(before)
                taken = await asyncio.gather(*map(self.taken, slow))
                for numbers, last in taken[::2]:
                    assert numbers + await self.rest(last or since, ROUNDS - len(numbers)) == [*range(ROUNDS)]
                await self.let_one_fall_behind(since)
                for _, last in taken[1::2]:
                    await self.refused(last or since)
                await self.until_closed(before)

    async def create(self) -> str:
        """Two, so that a listing can be left between them."""
        for name in ("large", "other"):
            body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": name}}
            answer = await self.client.post(f"{ROOT}/namespaces/default/models", json=body | {"spec": {}})
            assert answer.status_code == 201, answer.text
            while "conditions" not in answer.json()["status"]:  # from then on nobody else changes it
                answer = await self.client.get(f"{ROOT}/namespaces/default/models/{name}")
        return await self.version()

    async def version(self) -> str:
        return str((await self.client.get(f"{ROOT}/models")).json()["metadata"]["resourceVersion"])

    async def change(self, number: int, size: int = LARGE) -> None:
        patch = {"metadata": {"annotations": {"number": str(number), "large": "x" * size}}}
        headers = {"content-type": "application/merge-patch+json"}
        answer = await self.client.patch(MODEL, json=patch, headers=headers)
        assert answer.status_code == 200, answer.text

    async def peak(self, since: str) -> int:
        """Bytes that the plane held at most, while the model was changed and those who read were told at once: each
        change is made when all have the one before."""
        self.forget_peak()
        async with self.readers(since) as readers:
            for number in range(ROUNDS):
                await self.change(number)
                for reader in readers:
                    assert await next_number(reader) == number
        return self.peak_so_far()

    def forget_peak(self) -> None:
        (self.proc / "clear_refs").write_text("5")

    def peak_so_far(self) -> int:
        [line] = [line for line in (self.proc / "status").read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    @asynccontextmanager
    async def readers(self, since: str) -> AsyncIterator[list[Watch]]:
        forms = ((False, False), (True, False), (False, True))
        asked = {"resourceVersion": since}
        watches = [await self.watching.open(asked, tls=tls, table=table) for tls, table in forms]
        try:
            yield watches
        finally:
            for watch in watches:
                watch.close()

    async def open_slow(self, number: int, since: str) -> Watch:
        asked, within = {"resourceVersion": since, "includeObject": "Object"}, "default" if number % 2 else ""
        return await self.watching.open(asked, within, tls=number % 3 == 0, table=number % 4 == 0, buffer=BUFFER)

    async def until_closed(self, before: int) -> None:
        await asyncio.to_thread(planes.wait_until, lambda: self.sockets() <= before, "their connections are closed")

    def sockets(self) -> int:
        return sum(link.is_socket() for link in (self.proc / "fd").iterdir())

    async def taken(self, watch: Watch) -> tuple[list[int], str]:
        """The numbers that were on their way when it was cut off, and the version of the last one."""
        lines, whole = await watch.rest()
        watch.close()
        assert not whole
        seen = [told(line) for line in lines]
        assert all(one.type == "MODIFIED" for one in seen)
        return [number_of(line) for line in lines], str(seen[-1].version) if seen else ""

    async def rest(self, since: str, count: int) -> list[int]:
        watch = await self.watching.open({"resourceVersion": since})
        numbers = [await next_number(watch) for _ in range(count)]
        watch.close()
        return numbers

    async def let_one_fall_behind(self, since: str) -> None:
        """It reads all the time, but one line while ten changes are made: more than are kept for it."""
        page = (await self.client.get(f"{ROOT}/models", params={"limit": "1"})).json()["metadata"]
        watch = await self.watching.open({"resourceVersion": since}, buffer=BUFFER)
        numbers = []
        for number in range(KEPT + 10):
            await self.change(number, 1)
            if number % 10 == 0:
                numbers.append(await next_number(watch))
        lines, whole = await watch.rest()
        watch.close()
        assert whole
        assert_expired(lines.pop())
        numbers += [number_of(line) for line in lines]
        assert len(numbers) < ROUNDS
        assert numbers == [*range(len(numbers))], "none is left out before the end"
        answer = await self.client.get(f"{ROOT}/models", params={"limit": "1", "continue": page["continue"]})
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")

    async def refused(self, since: str) -> None:
        watch = await self.watching.open({"resourceVersion": since})
        lines, whole = await watch.rest()
        watch.close()
        assert whole
        [line] = lines
        assert_expired(line)


async def next_number(watch: Watch) -> int:
    line = await watch.line()
    assert line is not None
    return number_of(line)


def number_of(line: bytes) -> int:
    return int(told(line).object["metadata"]["annotations"]["number"])


def assert_expired(line: bytes) -> None:
    last = told(line)
    assert (last.type, last.object["code"], last.object["reason"]) == ("ERROR", 410, "Expired")
