"""GET /usage, /usage/history and /metrics: what they tell, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mizzen.protocol.gateway_files.counts import write
from mizzen.reconcile.loop import ControllerBacklog
from mizzen.server.admin.metrics import PlaneStats
from mizzen.server.admin.usage import COLUMNS
from mizzen.usage.inventory import Inventory, ServedVersion, WorkloadRole
from mizzen.usage.rates import ProcessUsage
from mizzen.usage.sampler import Sampler
from tests.support.server.harness import Harness, serving
from tests.support.usage.counted import counts, requests, served

IRIS, ROSE, LAB = ("default", "iris", "1"), ("default", "rose", "2"), ("lab", "iris", "1")
KNOWN = Inventory(
    {
        IRIS: ServedVersion(("iris-1",), 2, 1),
        ROSE: ServedVersion(("rose-2",), 1, 1),
        LAB: ServedVersion(("iris-1",), 1, 0),
    },
    {"u": WorkloadRole(IRIS, "iris-1"), "v": WorkloadRole(ROSE, "rose-2"), "w": WorkloadRole(LAB, "iris-1")},
    {("default", "iris-1"): "iris", ("default", "rose-2"): "rose", ("lab", "iris-1"): "iris"},
)
PROCESSES = {
    "gateway-0": ProcessUsage(1, "a", 3.0, 1000), "plane": ProcessUsage(2, "b", 2.0, 2000, 4),
    "u.0": ProcessUsage(3, "c", 1.0, 500), "u.1": ProcessUsage(4, "d", 1.0, 700), "v.0": ProcessUsage(5, "e", 1.0, 900),
}  # fmt: skip


class Steady:
    def read_usage(self) -> Mapping[str, ProcessUsage]:
        return PROCESSES

    def restarts(self) -> Mapping[str, int]:
        return {**{name: each.restarts for name, each in PROCESSES.items()}, "w.0": 7}


class Clock:
    now = 1_800_000_000.0


def sampled(folder: Path, seconds: int = 20) -> Sampler:
    """10 requests a second for iris, one of them failing, each 2 ms."""
    clock = Clock()
    sampler = Sampler(folder, Steady(), lambda: KNOWN, clock=lambda: clock.now)
    for step in range(seconds // 2 + 1):
        told = counts(
            requests({200: 18 * step, 503: 2 * step}, bucket=2, flying=3), served(10 * step, 20 * step, waiting=5),
            pid=1, at=clock.now,
        )  # fmt: skip
        write(folder, told)
        sampler.sample()
        clock.now += 2
    clock.now -= 2
    return sampler


async def kinds() -> Mapping[str, int]:
    return {"Model": 2, "RoleBinding": 1}


def put_in(folder: Path) -> Any:
    inside = PlaneStats(kinds, lambda: [ControllerBacklog("Model", 3, 1, 9)], lambda: 4096)
    return {"more": {"usage": sampled(folder)}, "inside": inside}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Nothing is written to it."""
    folder = tmp_path_factory.mktemp("plane")
    (folder / "counts").mkdir()
    with serving(folder, **put_in(folder / "counts")) as harness:
        yield harness


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Harness]:
    (tmp_path / "counts").mkdir()
    with serving(tmp_path, anonymous=False, **put_in(tmp_path / "counts")) as harness:
        yield harness


def test_rates_latencies_queues_and_processes_are_told(plane: Harness) -> None:
    told = plane.client(token=None).get("/usage").json()
    assert told["seconds"] == 10.0
    assert told["time"].startswith("2027-01-15T08:00:20")
    assert told["total"].pop("p50") == pytest.approx(0.00175)
    assert told["total"].pop("p95") < told["total"].pop("p99") <= 0.0025
    assert told["total"] == {"requestsPerSecond": 10.0, "errorsPerSecond": 1.0}
    iris, rose, lab = told["models"]
    assert iris.pop("p50") == pytest.approx(0.00175)
    assert iris.pop("p95") < iris.pop("p99") <= 0.0025
    assert iris == {
        "namespace": "default", "name": "iris", "version": "1", "servers": ["iris-1"],
        "requestsPerSecond": 10.0, "errorsPerSecond": 1.0, "codesPerSecond": {"200": 9.0, "503": 1.0},
        "inFlight": 3, "waiting": 5, "callsPerBatch": 2.0, "shedPerSecond": 0.0, "expiredPerSecond": 0.0,
        "retriedPerSecond": 0.0, "replicasReady": 1, "replicasWanted": 2, "memoryBytes": 1200, "cpu": 0.0,
        "accuracy": None, "reward": None,
    }  # fmt: skip
    assert (rose["name"], rose["requestsPerSecond"], rose["p50"]) == ("rose", 0.0, None)
    assert (lab["namespace"], lab["replicasReady"]) == ("lab", 0)
    assert told["processes"] == [
        {"name": "gateway-0", "memoryBytes": 1000, "cpu": 0.0, "restarts": 0},
        {"name": "plane", "memoryBytes": 2000, "cpu": 0.0, "restarts": 4},
    ]


def test_one_namespace_may_be_asked_for(plane: Harness) -> None:
    told = plane.client().get("/usage", params={"namespace": "lab"}).json()
    assert [model["namespace"] for model in told["models"]] == ["lab"]
    assert (told["total"]["requestsPerSecond"], told["total"]["p50"]) == (0.0, None)


def test_history_is_told_as_rows(plane: Harness) -> None:
    told = plane.client().get("/usage/history", params={"name": "iris"}).json()
    assert (told["seconds"], tuple(told["columns"])) == (2, COLUMNS)
    [series] = told["series"]
    assert {key: series[key] for key in ("namespace", "name", "version")} == {
        "namespace": "default", "name": "iris", "version": "1",
    }  # fmt: skip
    assert len(series["points"]) == 10
    last = dict(zip(told["columns"], series["points"][-1], strict=True))
    assert last["time"] == 1_800_000_020.0
    assert (last["requestsPerSecond"], last["errorsPerSecond"], last["inFlight"]) == (10.0, 1.0, 3.0)
    assert (last["callsPerBatch"], last["waiting"]) == (2.0, 5.0)


def test_without_a_name_all_of_a_namespace_are_told(plane: Harness) -> None:
    client = plane.client()
    told = client.get("/usage/history").json()
    assert [series["name"] for series in told["series"]] == ["iris", "rose"]
    assert client.get("/usage/history", params={"name": "nobody"}).json()["series"] == []
    assert client.get("/usage/history", params={"minutes": "60"}).json()["seconds"] == 30


@pytest.mark.parametrize(
    "query", ["minutes=0", "minutes=361", "minutes=x", "minutes=-1", "hours=1", "name=a&name=b", "minutes=1e1"]
)
def test_what_cannot_be_asked_is_refused(plane: Harness, query: str) -> None:
    assert plane.client().get(f"/usage/history?{query}").status_code == 400
    assert plane.client().get("/usage?name=iris").status_code == 400
    assert plane.client().get("/usage?namespace=A").status_code == 422


def test_metrics_are_text_for_prometheus(plane: Harness) -> None:
    answer = plane.client().get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family.type for family in text_string_to_metric_families(answer.text)}
    assert families["mizzen_replica_cpu_seconds"] == families["mizzen_reconcile_errors"] == "counter"
    assert families["mizzen_replica_resident_memory_bytes"] == families["mizzen_resources"] == "gauge"
    lines = answer.text.splitlines()
    replica = '{server="default/iris-1",namespace="default",model="iris",version="1",replica="1"}'
    assert {
        f"mizzen_replica_resident_memory_bytes{replica} 700",
        f"mizzen_replica_cpu_seconds_total{replica} 1.0",
        f"mizzen_replica_restarts_total{replica} 0",
        'mizzen_replica_restarts_total{server="lab/iris-1",namespace="lab",model="iris",version="1",replica="0"} 7',
        'process_resident_memory_bytes{process="gateway-0"} 1000',
        'process_cpu_seconds_total{process="plane"} 2.0',
        'mizzen_process_restarts_total{process="plane"} 4',
        'mizzen_resources{kind="RoleBinding"} 1',
        'mizzen_reconcile_queue_length{kind="Model"} 3',
        'mizzen_reconcile_failing{kind="Model"} 1',
        'mizzen_reconcile_errors_total{kind="Model"} 9',
        "mizzen_store_bytes 4096",
    } <= set(lines)
    assert plane.client().get("/metrics?x=1").status_code == 400


def test_strangers_on_this_machine_see_what_they_may_read(plane: Harness) -> None:
    stranger = plane.client(token=None)
    assert len(stranger.get("/usage").json()["models"]) == 3
    text = stranger.get("/metrics").text
    assert 'mizzen_resources{kind="Model"} 2' in text
    assert "RoleBinding" not in text


def test_only_who_may_see_a_model_is_told_of_it(closed: Harness) -> None:
    stranger, nobody = closed.client(token=None), closed.client(closed.user("nobody"))
    for path in ("/usage", "/usage/history", "/usage/history?name=iris", "/metrics"):
        assert (stranger.get(path).status_code, nobody.get(path).status_code) == (401, 403), path
    closed.permit("ann", "read", subjects=["ann"], model="rose")
    ann = closed.client(closed.user("ann"))
    assert _names(ann) == ["rose"]
    assert [series["name"] for series in ann.get("/usage/history").json()["series"]] == ["rose"]
    assert ann.get("/usage/history?name=rose").status_code == 200
    assert ann.get("/usage/history?name=iris").status_code == 403
    assert ann.get("/usage/history?name=nobody").status_code == 403
    text = ann.get("/metrics").text
    assert "rose-2" in text
    assert "iris" not in text
    assert "mizzen_resources{" not in text


def test_who_may_call_a_model_is_told_of_it_as_gateways_do(closed: Harness) -> None:
    closed.permit("bob", "predict", subjects=["bob"], model="rose")
    bob = closed.client(closed.user("bob"))
    assert _names(bob) == ["rose"]
    assert [series["name"] for series in bob.get("/usage/history").json()["series"]] == ["rose"]
    assert bob.get("/usage/history?name=rose").status_code == 200
    assert bob.get("/usage/history?name=iris").status_code == 403
    assert "rose-2" in bob.get("/metrics").text


def _names(client: httpx2.Client) -> list[str]:
    answer = client.get("/usage")
    assert answer.status_code == 200, answer.text
    return [model["name"] for model in json.loads(answer.content)["models"]]
