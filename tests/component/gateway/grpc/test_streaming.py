"""Calls that last: infer requests over one stream, health that is watched, reflection."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from mizzen.gateway.grpc import service
from mizzen.gateway.grpc.reflection import REFLECTIONS, SERVICES
from mizzen.gateway.grpc.streaming import MAX_PENDING
from mizzen.gateway.grpc.wire import message_types
from tests.support.gateway.harness import Gateway, publish, table_of, until
from tests.support.gateway.models import ModelRuntime
from tests.support.golden import Golden
from tests.support.grpcs import PATIENCE, SERVICE, Caller, outputs_of, request_of, typed_request_of

Infer = message_types.class_of("inference.ModelInferRequest")
Streamed = message_types.class_of("inference.ModelStreamInferResponse")


class Talk:
    """A call of many messages, sent one by one."""

    def __init__(self, call: Caller, method: str, request: Any, response: Any) -> None:
        self._sent: queue.Queue[Any] = queue.Queue()
        method_ = call.channel.stream_stream(
            method, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        self.call = method_(iter(self._sent.get, None), metadata=call.metadata, timeout=PATIENCE)

    def send(self, *messages_: Any) -> None:
        for message in messages_:
            self._sent.put(message)

    def end(self) -> None:
        self._sent.put(None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.call)


@pytest.fixture
def stream(both: Gateway, call: Caller) -> Talk:
    return Talk(call, f"/{SERVICE}/ModelStreamInfer", Infer, Streamed)


def test_each_request_gets_one_answer_in_their_order(stream: Talk) -> None:
    for number in range(200):
        stream.send(request_of("m", [[number, 1]], "x", id=f"n{number}"))
    stream.end()
    answers = list(stream)
    assert [answer.infer_response.id for answer in answers] == [f"n{number}" for number in range(200)]
    assert [outputs_of(answer.infer_response)["sum"][0] for answer in answers] == [
        number + 1.0 for number in range(200)
    ]
    assert stream.call.code() is grpc.StatusCode.OK


def test_what_is_wrong_with_one_ends_nothing(stream: Talk) -> None:
    stream.send(
        request_of("m", [[1, 2]], "x", id="a"), request_of("m", [[1, 2, 3]], "x", id="b"),
        request_of("none", [[1, 2]], "x", id="c"), request_of("m", [[3, 4]], "x", id="d"),
    )  # fmt: skip
    stream.end()
    answers = list(stream)
    assert [answer.error_message for answer in answers] == [
        "", "inputs[0].shape: [1, 3] does not fit [-1, 2]", "no model 'none'", "",
    ]  # fmt: skip
    assert [answers[at].infer_response.id for at in (0, 1, 3)] == ["a", "b", "d"]


def test_a_thousand_bad_ones_are_no_pile(stream: Talk) -> None:
    stream.send(*[request_of("m", [[1]], "x")] * 3000)
    stream.end()
    assert sum(bool(answer.error_message) for answer in stream) == 3000


def test_large_ones_come_through_too(stream: Talk) -> None:
    rows = np.ones((50_000, 2))
    stream.send(*[request_of("m", rows, "x")] * 4)
    stream.end()
    assert [outputs_of(answer.infer_response)["sum"].sum() for answer in stream] == [100_000.0] * 4


def test_no_more_is_taken_than_is_answered(both: Gateway, stream: Talk, counted: ModelRuntime) -> None:
    counted.held = True
    stream.send(*[request_of("m", [[1, 2]], "x")] * 500)
    until(lambda: both.figure("mizzen_requests_in_flight") == MAX_PENDING, "as many as may wait do")
    counted.release()
    stream.end()
    assert sum(1 for _ in stream) == 500


@pytest.mark.parametrize("sampled", [0.0, 1.0])
def test_who_leaves_is_not_waited_for(
    start_grpc: Callable[..., Gateway], call: Caller, counted: ModelRuntime, sampled: float
) -> None:
    both = start_grpc(sampled=sampled)
    stream = Talk(call, f"/{SERVICE}/ModelStreamInfer", Infer, Streamed)
    counted.held = True
    stream.send(*[request_of("m", [[1, 2]], "x")] * 4, typed_request_of("m", np.ones((20_000, 2)), "x"))
    until(lambda: both.figure("mizzen_requests_in_flight") == 5, "they wait")
    stream.call.cancel()
    until(lambda: not both.figure("mizzen_requests_in_flight"), "nobody waits")
    assert 'code="499"} 5' in both.ask("GET", "/metrics").body.decode()


def test_a_stop_answers_what_was_asked_and_says_so(
    both: Gateway, stream: Talk, counted: ModelRuntime, golden: Golden
) -> None:
    counted.held = True
    stream.send(request_of("m", [[1, 2]], "x"))
    until(lambda: counted.items, "it is asked")
    both.stop()
    answers = iter(stream)
    counted.release()
    assert outputs_of(next(answers).infer_response)["sum"][0] == 3.0
    with pytest.raises(grpc.RpcError) as ended:
        next(answers)
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    golden.check(ended.value.details())


def test_what_is_no_request_is_an_answer_and_what_is_no_message_the_end(
    both: Gateway, call: Caller, golden: Golden
) -> None:
    method = call.channel.stream_stream(f"/{SERVICE}/ModelStreamInfer", response_deserializer=Streamed.FromString)
    [answer] = method(iter([b"\x0a\xff"]), timeout=PATIENCE)
    golden.check(answer.error_message)
    with pytest.raises(grpc.RpcError) as ended:
        list(method(iter([bytes(2 << 20)]), timeout=PATIENCE))
    assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


class TestHealth:
    Request = message_types.class_of("grpc.health.v1.HealthCheckRequest")
    Response = message_types.class_of("grpc.health.v1.HealthCheckResponse")

    def watch(self, call: Caller, service: str) -> Any:
        method = call.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=self.Request.SerializeToString,
            response_deserializer=self.Response.FromString,
        )
        return method(self.Request(service=service), timeout=PATIENCE)

    def test_of_server_services_and_models(self, both: Gateway, call: Caller) -> None:
        for name in ("", *SERVICES, "m"):
            assert call.check(name).status == 1
        assert call.refusal(lambda: call.check("n")) == ("NOT_FOUND", "there is no service or model 'n'")

    def test_who_watches_hears_of_changes(
        self, both: Gateway, call: Caller, counted: ModelRuntime, folder: Path
    ) -> None:
        watched = self.watch(call, "m")
        assert next(watched).status == 1
        counted.down()
        assert next(watched).status == 2
        counted.up()
        assert next(watched).status == 1
        publish(folder / "table.json", table_of(serial=9, id="default/other", version="2"))
        assert next(watched).status in (2, 3)
        watched.cancel()

    def test_there_may_be_only_so_many_calls_that_last(
        self, start_grpc: Callable[..., Gateway], call: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(service, "MAX_WATCHES", 2)
        start_grpc()
        watched = [self.watch(call, "") for _ in range(2)]
        assert [next(each).status for each in watched] == [1, 1]
        assert call.refusal(lambda: next(self.watch(call, "")))[0] == "UNAVAILABLE"
        talk = Talk(call, f"/{SERVICE}/ModelStreamInfer", Infer, Streamed)  # they take no place of those
        talk.send(request_of("m", [[1, 2]], "x"))
        talk.end()
        assert len(list(talk)) == 1
        watched[0].cancel()

        def another() -> bool:
            try:
                return bool(next(self.watch(call, "")).status == 1)
            except grpc.RpcError:
                return False

        until(another, "there is a place again")

    def test_a_stop_ends_it(self, both: Gateway, call: Caller) -> None:
        watched = self.watch(call, "")
        assert next(watched).status == 1
        both.stop()
        with pytest.raises(grpc.RpcError) as ended:
            next(watched)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("service", REFLECTIONS)
def test_reflection_tells_what_there_is(both: Gateway, call: Caller, service: str) -> None:
    package = service.rpartition(".")[0]
    request = message_types.class_of(f"{package}.ServerReflectionRequest")
    talk = Talk(
        call, f"/{service}/ServerReflectionInfo", request, message_types.class_of(f"{package}.ServerReflectionResponse")
    )
    talk.send(
        request(list_services=""), request(file_containing_symbol=SERVICE), request(file_containing_symbol=service),
        request(file_by_filename="inference.proto"), request(file_containing_symbol="none"),
        request(file_containing_extension={}), request(all_extension_numbers_of_type="x"),
    )  # fmt: skip
    talk.end()
    listed, inference, itself, named, unknown, extension, numbers = talk
    assert [each.name for each in listed.list_services_response.service] == list(SERVICES)
    for found, word in ((inference, b"GRPCInferenceService"), (itself, package.encode()), (named, b"ModelInfer")):
        assert word in found.file_descriptor_response.file_descriptor_proto[0]
    assert unknown.error_response.error_code == 5
    assert extension.error_response.error_code == 12
    assert numbers.all_extension_numbers_response.base_type_name == "x"


def test_what_can_be_asked_is_what_rest_tells(both: Gateway, call: Caller) -> None:
    def told(path: str) -> Any:
        return both.ask("GET", path).json

    call.infer(request_of("m", [[1, 2]], "x"))
    metadata = call.method("ModelMetadata")(name="m", version="1")
    assert (metadata.name, list(metadata.versions), metadata.platform) == ("m", ["1"], "sklearn")
    rest = told("/v2/models/m")
    assert [(each.name, each.datatype, list(each.shape)) for each in metadata.inputs] == [
        (each["name"], each["datatype"], each["shape"]) for each in rest["inputs"]
    ]
    config = call.method("ModelConfig")(name="m").config
    assert (config.max_batch_size, config.backend) == (told("/v2/models/m/config")["max_batch_size"], "sklearn")
    stats = call.method("ModelStatistics")(name="m").model_stats[0]
    assert stats.inference_count == told("/v2/models/m/stats")["model_stats"][0]["inference_count"] == 1
    assert call.method("ModelReady")(name="m").ready
    assert not call.method("ModelReady")(name="n").ready
    assert call.refusal(lambda: call.method("ModelMetadata")(name="n")) == ("NOT_FOUND", "no model 'n'")
    assert call.method("ServerMetadata")().extensions == told("/v2")["extensions"]


def test_a_model_that_is_not_ready_is_said_to_be_so(
    start_grpc: Callable[..., Gateway], call: Caller, counted: ModelRuntime
) -> None:
    gateway = start_grpc()
    counted.down()
    until(lambda: gateway.ask("GET", "/v2/models/m/ready").status == 503, "it is noticed")
    assert not call.method("ModelReady")(name="m").ready
    assert call.check("m").status == 2
