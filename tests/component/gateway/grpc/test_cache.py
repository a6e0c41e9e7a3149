"""The cache, and default answers, for those who ask over gRPC."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from mizzen.graph.table_types import ConstantOutput, Plan, Route, Table
from tests.support.gateway.harness import Gateway, publish, until
from tests.support.gateway.models import Counting
from tests.support.grpcs import Caller, outputs_of, request_of


def test_equal_requests_are_answered_once_by_the_model(
    start_grpc: Callable[..., Gateway], call: Caller, model: Counting
) -> None:
    gateway = start_grpc(table={"cache_bytes": 1 << 20})
    answers = [call.infer(request_of("m", [[1.0, 2.0]], "x", id=id_)) for id_ in ("one", "two")]
    assert [answer.id for answer in answers] == ["one", "two"]
    assert [outputs_of(answer)["sum"].tolist() for answer in answers] == [[3.0]] * 2
    assert model.calls == [1]
    stats = call.method("ModelStatistics")(name="m")
    assert stats.model_stats[0].inference_stats.cache_hit.count == 1
    assert gateway.figure("mizzen_cache_entries") == 1


def test_a_default_says_so_in_parameters(start_grpc: Callable[..., Gateway], call: Caller, folder: Path) -> None:
    start_grpc()
    constant = ConstantOutput(name="sum", datatype="FP64", shape=(1,), data=[-1.0], each_row=True)
    route = Route(namespace="default", name="m", version="1", plan=Plan(servers=(), default=(constant,)))
    publish(folder / "table.json", Table(serial=2, routes=(route,)))
    until(lambda: json.loads((folder / "tables" / "gateway-0.json").read_text())["serial"] == 2)
    answer = call.infer(request_of("m", [[1.0, 2.0], [3.0, 4.0]], "x"))
    assert outputs_of(answer)["sum"].tolist() == [-1.0, -1.0]
    assert answer.parameters["default"].bool_param is True
    assert answer.parameters["default_reason"].string_param == "no ready model"
    few = request_of("m", [[1.0, 2.0]], "x")
    few.inputs[0].shape[0] = 1_000_000
    with pytest.raises(grpc.RpcError) as said:
        call.infer(few)
    assert said.value.code() is grpc.StatusCode.UNAVAILABLE
