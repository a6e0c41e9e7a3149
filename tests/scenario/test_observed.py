"""What can be seen of a plane with two gateways: counts of both through either, and requests by their id and trace."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import grpc
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mizzen.protocol.gateway_files import counts
from mizzen.supervisor.data_dir import Home
from tests.support import grpcs, planes
from tests.support.collector import Collector, collecting

INFER_OVER_GRPC = "inference.GRPCInferenceService/ModelInfer"
INFER = "POST /v2/models/{model}/infer"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
MODEL = '''
"""Answers each row with the id and the trace of who sent it; raises for a 666."""

from mizzen.runtime import callers


def predict(inputs):
    if (inputs["x"] == 666).any():
        raise RuntimeError("poisoned")
    told = callers()
    assert sum(caller.rows for caller in told) == len(inputs["x"])
    return [f"{who.request_id} {who.traceparent} {who.tracestate}" for who in told for _ in range(who.rows)]
'''


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[planes.TestPlane]:
    folder = tmp_path_factory.mktemp("observed")
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "settings.toml").write_text(
        f'access_log = "all"\notel_endpoint = "{collector.url}"\notel_sample = 0\n'
    )
    with planes.running_plane(folder / "data", "--gateways", "2") as plane:
        (folder / "asking.py").write_text(MODEL)
        plane.cli("deploy", "asking:predict", "--name", "asking", cwd=folder)
        yield plane


def ask(
    plane: planes.TestPlane, headers: dict[str, str] | None = None, *, value: float = 1.0, rows: int = 1
) -> httpx2.Response:
    """On a connection of its own, which either gateway may take."""
    tensor = {"name": "x", "datatype": "FP64", "shape": [rows], "data": [value] * rows}
    url = f"{plane.inference_url}/v2/models/asking/infer"
    return httpx2.post(url, json={"inputs": [tensor]}, headers=headers, verify=False)


def scrape(plane: planes.TestPlane, id_: str = "") -> list[Any]:
    headers = {"x-request-id": id_} if id_ else {}
    text = httpx2.get(f"{plane.inference_url}/metrics", headers=headers, verify=False).text
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def asked(samples: list[Any]) -> dict[str, float]:
    """Requests of the model by gateway."""
    found: dict[str, float] = {}
    for sample in samples:
        if sample.name == "mizzen_requests_total" and sample.labels["model"] == "asking":
            name = sample.labels["gateway"]
            found[name] = found.get(name, 0) + sample.value
    return found


def logged(plane: planes.TestPlane) -> list[dict[str, Any]]:
    return [json.loads(line) for line in plane.cli("logs", "access").stdout.splitlines()]


def answered_by(plane: planes.TestPlane, id_: str) -> str:
    lines = planes.wait_until(
        lambda: [one for one in logged(plane) if one.get("request_id") == id_], f"{id_} is logged"
    )
    return str(lines[0]["gateway"])


def test_counts_of_all_gateways_add_up_and_are_seen_through_either(plane: planes.TestPlane) -> None:
    sent = sum(asked(scrape(plane)).values())
    by: set[str] = set()
    while len(by) < 2:
        assert ask(plane).status_code == 200
        sent += 1
        by = set(asked(scrape(plane)))
    seen: set[str] = set()
    number = 0
    while len(seen) < 2:
        number += 1
        seen.add(answered_by(plane, f"warm-{number}") if scrape(plane, f"warm-{number}") else "")
    planes.wait_until(
        lambda: all(sum(asked(scrape(plane)).values()) == sent for _ in range(8)), "whichever is scraped tells all"
    )
    sizes = [each for each in scrape(plane) if each.name == "mizzen_queue_wait_seconds_count"]
    assert sum(each.value for each in sizes) == sent
    assert {line["gateway"] for line in logged(plane)} == {"gateway-0", "gateway-1"}
    times = [line["time"] for line in logged(plane)]
    assert times == sorted(times)


def test_a_killed_gateway_begins_to_count_anew(plane: planes.TestPlane) -> None:
    while "gateway-1" not in asked(scrape(plane)):
        assert ask(plane).status_code == 200
    folder = Home.of(plane.data_dir).run / counts.FOLDER
    pid = plane.pid("gateway-1")
    planes.wait_until(lambda: any(each.requests for each in counts.read(folder) if each.pid == pid), "it wrote it down")
    kept = asked(scrape(plane)).get("gateway-0", 0)
    os.kill(pid, signal.SIGKILL)

    def anew() -> bool:
        return any(each.gateway == "gateway-1" and each.pid not in (pid, 0) for each in counts.read(folder))

    planes.wait_until(anew, "its successor has replaced what it left")
    after = asked_at_last(plane)
    assert after.get("gateway-0", 0) == kept
    assert "gateway-1" not in after, "nobody has asked the new one"


def asked_at_last(plane: planes.TestPlane) -> dict[str, float]:
    """A scrape may meet the gateway that was killed."""
    answers: list[dict[str, float]] = []

    def answered() -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            answers.append(asked(scrape(plane)))
        return bool(answers)

    planes.wait_until(answered, "a scrape is answered")
    return answers[0]


def test_a_model_sees_the_id_and_the_trace_of_each_caller(plane: planes.TestPlane, collector: Collector) -> None:
    marked = {"x-request-id": "mine", "traceparent": PARENT, "tracestate": "a=1"}
    answer = ask(plane, marked, rows=2)
    request, queue, predict = collector.trace(TRACE, INFER, "queue", "predict")
    assert (request.parent, queue.parent, predict.parent) == (PARENT[36:52], request.id, request.id)
    assert request.start <= queue.start <= queue.end <= predict.start <= predict.end <= request.end
    assert predict.attributes["mizzen.replica.pid"] == plane.pid("runtime")
    assert predict.attributes["mizzen.batch.merged"] == 1
    below = f"00-{TRACE}-{predict.id}-01"
    assert answer.json()["outputs"][0]["data"] == [f"mine {below} a=1"] * 2
    assert answer.headers["mizzen-request-id"] == "mine"
    assert answer.json()["id"] == "mine"
    assert "traceparent" not in answer.headers
    lines = planes.wait_until(lambda: [one for one in logged(plane) if one.get("request_id") == "mine"], "it is logged")
    assert (lines[0]["trace_id"], lines[0]["model"], lines[0]["code"]) == (TRACE, "asking", 200)


def test_over_grpc_both_gateways_answer_and_a_killed_one_closes_no_port(
    plane: planes.TestPlane, collector: Collector
) -> None:
    request = grpcs.request_of("asking", [1.0], "x")
    by: set[str] = set()
    number = 0
    while len(by) < 2:  # each on a connection of its own, which either gateway may take
        number += 1
        trace = f"{number:032x}"
        parent = f"00-{trace}-b7ad6b7169203331-01"
        with grpcs.calling(plane.grpc_address, traceparent=parent, mizzen_request_id=f"g-{number}") as call:
            [said] = call.infer(request).raw_output_contents
        _, _, predict = collector.trace(trace, INFER_OVER_GRPC, "queue", "predict")
        assert said[4:].decode() == f"g-{number} 00-{trace}-{predict.id}-01 "
        by.add(answered_by(plane, f"g-{number}"))
    for name in by:
        os.kill(plane.pid(name), signal.SIGKILL)
    with grpcs.calling(plane.grpc_address) as call:

        def answered() -> bool:
            with contextlib.suppress(grpc.RpcError):
                return bool(call.infer(request).outputs)
            return False

        planes.wait_until(answered, "their successors answer on the same port")
    assert plane.status()["grpc_address"] == plane.grpc_address


def test_the_log_of_a_model_names_the_request_that_failed(plane: planes.TestPlane) -> None:
    answer = ask(plane, {"x-request-id": "poison"}, value=666)
    assert (answer.status_code, answer.headers["mizzen-request-id"]) == (500, "poison")
    said = planes.wait_until(
        lambda: re.findall(r"the model raised \(.*\)", plane.cli("logs", "asking-1").stdout), "the log tells of it"
    )
    assert said == ["the model raised (request poison)"]
