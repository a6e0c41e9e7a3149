"""kill -9 of the plane during 1,000 concurrent writes: what was acknowledged is there."""

from __future__ import annotations

import asyncio
import os
import signal

import httpx2

from tests.support import planes


def test_acknowledged_writes_survive(plane: planes.TestPlane) -> None:
    headers = {"authorization": f"Bearer {plane.token()}"}
    acknowledged: set[str] = set()
    under_way = asyncio.Event()

    async def create(client: httpx2.AsyncClient, name: str) -> None:
        try:
            reply = await client.post("/model", json={"name": name, "labels": {"made": name}})
        except httpx2.HTTPError:
            return
        if reply.status_code == 201:
            acknowledged.add(name)
            if len(acknowledged) == 333:
                under_way.set()

    async def storm(count: int) -> None:
        limits = httpx2.Limits(max_connections=200)
        async with (
            httpx2.AsyncClient(base_url=plane.control_url, headers=headers, limits=limits, timeout=60) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in range(count):
                group.create_task(create(client, f"m{number}"))
            await under_way.wait()
            os.kill(plane.pid("plane"), signal.SIGKILL)

    asyncio.run(storm(1000))
    assert 333 <= len(acknowledged) < 1000, "the kill came while writes were under way"

    def read() -> dict[str, dict[str, str]]:
        with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as client:
            items = client.get("/apis/mizzen.dev/v1alpha1/namespaces/default/models").json()["items"]
        return {item["metadata"]["name"]: item["metadata"]["labels"] for item in items}

    planes.wait_until(lambda: plane.pids("plane"), "the plane is restarted")
    stored = read()
    assert acknowledged - set(stored) == set()
    assert all(labels == {"made": name} for name, labels in stored.items()), "nothing torn"
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as client:
        for name in sorted(acknowledged)[:50]:
            (entry,) = client.get(f"/model/{name}/history").json()["items"]
            assert (entry["action"], entry["actor"]) == ("created", "admin")
