"""What is told of a served name: configuration, statistics, the index, and V1's words for the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mizzen.graph.table_types import Plan, Route, Table
from mizzen.runtime.signature import TensorSpec
from tests.support.gateway.harness import Gateway, publish, until
from tests.support.gateway.models import Counting

ROW = b'{"instances": [[1, 2]]}'


def test_configuration(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting(), batch_size=8)
    for path in ("/v2/models/m/config", "/v2/models/m/versions/1/config", "/ns/default/v2/models/m/config"):
        assert gateway.ask("GET", path).json == {
            "name": "m", "platform": "sklearn", "backend": "sklearn",
            "version_policy": {"specific": {"versions": ["1"]}},
            "max_batch_size": 8, "dynamic_batching": {},
            "input": [{"name": "x", "data_type": "TYPE_FP64", "dims": [2]}],
            "output": [
                {"name": "sum", "data_type": "TYPE_FP64", "dims": []},
                {"name": "text", "data_type": "TYPE_STRING", "dims": []},
            ],
        }  # fmt: skip
    assert gateway.ask("GET", "/v2/models/nobody/config").status == 404
    assert gateway.ask("GET", "/v2/models/m/versions/9/config").status == 404


def test_configuration_of_a_model_that_does_not_batch(serve_model: Callable[..., Gateway]) -> None:
    told = serve_model(Counting(batch=False)).ask("GET", "/v2/models/m/config").json
    assert told["max_batch_size"] == 0
    assert told["input"] == [{"name": "x", "data_type": "TYPE_FP64", "dims": [-1, 2]}]
    assert "dynamic_batching" not in told


def test_metadata_tells_of_rows_that_may_be_sent_whole(serve_model: Callable[..., Gateway]) -> None:
    table = TensorSpec("input", "FP64", (-1, 1))
    told = serve_model(Counting(table=table)).ask("GET", "/v2/models/m").json
    assert told["parameters"] == {"table": {"name": "input", "datatype": "FP64", "shape": [-1, 1]}}
    assert told["platform"] == "sklearn"


def test_statistics(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting())
    empty = gateway.ask("GET", "/v2/models/m/stats").json["model_stats"]
    assert (empty[0]["last_inference"], empty[0]["inference_count"], empty[0]["execution_count"]) == (0, 0, 0)
    for _ in range(3):
        assert gateway.ask("POST", "/v1/models/m:predict", ROW).status == 200
    assert gateway.ask("POST", "/v1/models/m:predict", b'{"instances": [[1]]}').status == 400
    paths = ("/v2/models/stats", "/v2/models/m/stats", "/v2/models/m/versions/1/stats", "/ns/default/v2/models/stats")
    for path in paths:
        [told] = gateway.ask("GET", path).json["model_stats"]
        assert (told["name"], told["version"], told["inference_count"]) == ("m", "1", 3)
        assert told["execution_count"] == 4
        assert told["last_inference"] > 1_600_000_000_000
        stats = told["inference_stats"]
        counts = {name: stats[name]["count"] for name in ("success", "fail", "queue", "compute_infer")}
        assert counts == {"success": 3, "fail": 1, "queue": 4, "compute_infer": 4}
        assert stats["success"]["ns"] >= stats["compute_infer"]["ns"] * 3 / 4
        assert min(stats[name]["ns"] for name in counts) > 0
        [size] = told["batch_stats"]
        assert (size["batch_size"], size["compute_infer"]["count"]) == (1, 4)
        assert size["compute_infer"]["ns"] == pytest.approx(stats["compute_infer"]["ns"], rel=0.01)
    assert gateway.ask("GET", "/v2/models/nobody/stats").status == 404


def test_the_index(serve_model: Callable[..., Gateway], folder: Path) -> None:
    gateway = serve_model(Counting())
    ready = {"name": "m", "version": "1", "state": "READY", "reason": ""}
    for body in (b"", b"{}", b'{"ready": true}', b'{"ready": false}'):
        assert gateway.ask("POST", "/v2/repository/index", body).json == [ready]
    assert gateway.ask("POST", "/ns/other/v2/repository/index").json == []
    for body in (b"[]", b"x", b'{"ready": 1}'):
        assert gateway.ask("POST", "/v2/repository/index", body).status == 400
    assert gateway.ask("GET", "/v2/repository/index").status == 405
    for path in ("index", "models/m/load", "models/m/unload"):
        for more in ({}, {"Content_Encoding": "gzip"}):
            long = b'{"parameters": {"a": [' + b"{}," * 30_000 + b"{}]}}"
            answer = gateway.ask("POST", f"/v2/repository/{path}", gzip.compress(long) if more else long, **more)
            assert (answer.status, answer.error) == (413, "the body is larger than 65536 bytes")
    route = Route(namespace="default", name="gone", version="2", plan=Plan(servers=()))
    publish(folder / "table.json", Table(serial=2, routes=(route,)))
    gone = {"name": "gone", "version": "2", "state": "UNAVAILABLE", "reason": "no replica is ready"}
    until(lambda: gateway.ask("POST", "/v2/repository/index").json == [gone])
    assert gateway.ask("POST", "/v2/repository/index", b'{"ready": true}').json == []


def test_loading_without_a_plane(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting())
    for verb in ("load", "unload"):
        path = f"/v2/repository/models/m/{verb}"
        answer = gateway.ask("POST", path)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        refused = gateway.ask("POST", path, json.dumps({"parameters": {"config": "{}"}}).encode())
        assert refused.status == 400
        assert "parameters.config: not supported here" in refused.error


def test_v1(serve_model: Callable[..., Gateway]) -> None:
    gateway = serve_model(Counting())
    assert gateway.ask("GET", "/v1/models").json == {"models": ["m"]}
    assert gateway.ask("GET", "/ns/other/v1/models").json == {"models": []}
    available = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in ("/v1/models/m", "/v1/models/m/versions/1", "/ns/default/v1/models/m"):
        told = gateway.ask("GET", path).json
        assert told == {"name": "m", "ready": True, "model_version_status": [available]}
    for path in ("/v1/models/nobody", "/v1/models/m/versions/9", "/v1/models/m/labels/1"):
        assert gateway.ask("GET", path).status == 404
    assert gateway.ask("GET", "/v1/models/m/metadata").json == {
        "model_spec": {"name": "m", "signature_name": "", "version": "1"},
        "metadata": {"signature_def": {"signature_def": {"serving_default": {
            "inputs": {"x": _signed("x", "DT_DOUBLE", "-1", "2")},
            "outputs": {"sum": _signed("sum", "DT_DOUBLE", "-1"), "text": _signed("text", "DT_STRING", "-1")},
            "method_name": "tensorflow/serving/predict",
        }}}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "code"),
    [("/v2/models/m/config", 503), ("/v1/models/m/metadata", 503), ("/v1/models/m", 200), ("/v2/models/m/stats", 200)],
)
def test_a_name_without_replicas(start_gateway: Callable[..., Gateway], folder: Path, path: str, code: int) -> None:
    publish(
        folder / "table.json", Table(routes=(Route(namespace="default", name="m", version="1", plan=Plan(servers=())),))
    )
    gateway = start_gateway()
    answer = until(lambda: (found := gateway.ask("GET", path)).status != 404 and found)
    assert answer.status == code
    if path == "/v1/models/m":
        assert answer.json["ready"] is False
        assert answer.json["model_version_status"][0]["state"] == "LOADING"


def _signed(name: str, dtype: str, *sizes: str) -> dict[str, Any]:
    dims = [{"size": size, "name": ""} for size in sizes]
    return {"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": name}
