"""Triton's names for what is counted: its meanings, its units, and nothing of what one may not see."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mizzen.gateway.telemetry import triton_metrics
from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS, CacheCounts, Counts, RequestCounts, ServerCounts
from tests.support.gateway.harness import Gateway, body_of, until


def requests(name: str, codes: dict[int, int], seconds: float, failed: float) -> RequestCounts:
    return RequestCounts(
        "default", name, "1", codes, [0] * (len(BOUNDS) + 1), seconds, 0, failed, of="iris" if name == "iris-1" else ""
    )


def served(server: str, *, batches: int, items: int, waiting: int, cache: CacheCounts | None = None) -> ServerCounts:
    return ServerCounts(
        server, "1", waiting=waiting, waiting_bytes=0, in_flight=0, replicas=1, room=1, shed=0, expired=0, retried=0,
        waits=[0] * (len(BOUNDS) + 1), waited_seconds=0.25, compute_seconds=0.5,
        sizes=[batches] + [0] * len(BATCH_BOUNDS), batch_items=items, model="iris", input_seconds=0.001,
        output_seconds=0.002, cache=cache,
    )  # fmt: skip


def counted(gateway: str, asked: list[RequestCounts], of: list[ServerCounts]) -> Counts:
    return Counts(gateway, 1, 1.0, 2.0, 0.5, 1024, asked, of, {})


def shown(text: bytes) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            name = sample.name.removesuffix("_total")  # which the parser adds, and Triton does not have
            key = (name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def sees(_namespace: str, name: str) -> bool:
    return name != "hidden"


def test_names_of_a_model_are_added_up_and_gateways_are_not() -> None:
    gateways = [
        counted("gateway-0", [requests("iris", {200: 3, 400: 1, 503: 2}, 4.0, 1.0),
                              requests("iris-1", {200: 5, 499: 1, 500: 1, 502: 1, 504: 1}, 6.0, 1.0),
                              requests("hidden", {200: 9}, 1.0, 0.0)],
                [served("default/iris-1", batches=2, items=3, waiting=1),
                 served("default/iris-1", batches=3, items=5, waiting=2, cache=CacheCounts(7, 2, 4, 100, 1, 0))]),
    ]  # fmt: skip
    text = triton_metrics.render(gateways, sees)
    assert b"hidden" not in text
    of = ("gateway-0", "iris", "default")
    assert shown(text) == {
        ("nv_inference_request_success", *of, "1"): 8,
        ("nv_inference_count", *of, "1"): 8,
        ("nv_inference_exec_count", *of, "1"): 5,
        ("nv_inference_request_duration_us", *of, "1"): 8_000_000,
        ("nv_inference_queue_duration_us", *of, "1"): 500_000,
        ("nv_inference_compute_input_duration_us", *of, "1"): 2000,
        ("nv_inference_compute_infer_duration_us", *of, "1"): 1_000_000,
        ("nv_inference_compute_output_duration_us", *of, "1"): 4000,
        ("nv_inference_request_failure", *of, "BACKEND", "1"): 2,
        ("nv_inference_request_failure", *of, "CANCELED", "1"): 1,
        ("nv_inference_request_failure", *of, "OTHER", "1"): 1,
        ("nv_inference_request_failure", *of, "REJECTED", "1"): 3,
        ("nv_inference_pending_request_count", *of, "1"): 3,
        ("nv_cache_num_hits_per_model", *of, "1"): 7,
        ("nv_cache_num_misses_per_model", *of, "1"): 6,
    }
    both = shown(
        triton_metrics.render([*gateways, counted("gateway-1", [requests("iris", {200: 4}, 1.0, 0.0)], [])], sees)
    )
    assert both.items() >= shown(text).items(), "what another one counts is beside it: a sum would shrink when it ends"
    assert both["nv_inference_request_success", "gateway-1", *of[1:], "1"] == 4


def test_a_gateway_tells_its_own(gateway: Gateway) -> None:
    for _ in range(3):
        assert gateway.infer([1.0]).status == 200
    assert gateway.ask("POST", "/v2/models/m/infer", body_of([1.0], name="fail")).status == 500

    def figures() -> dict[tuple[str, ...], float]:
        answer = gateway.ask("GET", "/metrics/triton")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return shown(answer.body)

    seen: dict[tuple[str, ...], Any] = until(figures)
    assert seen["nv_inference_request_success", "gateway-0", "m", "default", "1"] == 3
    assert seen["nv_inference_request_failure", "gateway-0", "m", "default", "BACKEND", "1"] == 1
    assert seen["nv_inference_count", "gateway-0", "m", "default", "1"] == 4
    assert seen["nv_inference_request_duration_us", "gateway-0", "m", "default", "1"] > 0
    assert b"nv_inference" not in gateway.ask("GET", "/metrics").body
