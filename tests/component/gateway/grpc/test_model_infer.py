"""What REST answers to a request and what gRPC answers to the same are equal, and both end the same ways."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.request.grpc_status import BY_HTTP, GrpcStatus
from tests.support.gateway.harness import LIMITS, Gateway, request, until
from tests.support.gateway.models import Counting, ModelRuntime
from tests.support.grpcs import PATIENCE, SERVICE, Caller, outputs_of, request_of, typed_request_of

Message = message_types.class_of("inference.ModelInferRequest")
CASES: list[dict[str, Any]] = [
    {"rows": [[1.0, 2.0]]},
    {"rows": [[1.0, 2.0], [3.0, -4.5]], "id": "mine ü", "outputs": ["text", "sum"]},
    {"rows": []},
    {"rows": [[1.0, 2.0, 3.0]]},
    {"rows": [[1.0, 2.0]], "tensor": "y"},
    {"rows": [[1.0, float("nan")]]},
    {"rows": [[1.0, 2.0]], "outputs": ["none"]},
    {"rows": [[1.0, 2.0]], "outputs": ["sum", "sum"]},
    {"rows": [[1.0, 2.0]], "parameters": {"timeout": -1}},
    {"rows": [[1.0, 2.0]], "parameters": {"timeout": 10_000_000}},
    {"rows": [[1.0, 2.0]], "kind": "FP99"},
    {"rows": [[1.0, 2.0]], "shape": [2, 2]},
    {"rows": [[1.0, 2.0]], "shape": [-1, 2]},
    {"rows": [[1.0, 2.0]], "model": "none"},
    {"rows": [[1.0, 2.0]], "version": "7"},
    {"rows": [[1.0, 2.0]], "version": "1"},
    {"rows": [[1.0, 2.0]], "id": "x" * 300},
]


def by_rest(gateway: Gateway, case: dict[str, Any]) -> tuple[int, Any]:
    """With data as bytes, as gRPC has it: only so NaN can be said at all."""
    rows = np.array(case["rows"], np.float64).reshape(-1, len(case["rows"][0]) if case["rows"] else 2)
    data = rows.tobytes()
    tensor = {"name": case.get("tensor", "x"), "shape": case.get("shape", list(rows.shape)),
              "datatype": case.get("kind", "FP64"), "parameters": {"binary_data_size": len(data)}}  # fmt: skip
    body: dict[str, Any] = {"inputs": [tensor]}
    body |= {name: case[name] for name in ("id", "parameters") if name in case}
    if "outputs" in case:
        body["outputs"] = [{"name": name} for name in case["outputs"]]
    head = json.dumps(body).encode()
    version = f"/versions/{case['version']}" if "version" in case else ""
    answer = gateway.ask(
        "POST", f"/v2/models/{case.get('model', 'm')}{version}/infer", head + data,
        Inference_Header_Content_Length=str(len(head)),
    )  # fmt: skip
    if answer.status != 200:
        return answer.status, answer.error
    told = answer.json
    outputs = {each["name"]: (each["datatype"], each["shape"], each["data"]) for each in told["outputs"]}
    return 200, (told["model_name"], told["model_version"], told["id"] if "id" in case else "", outputs)


def message_of(case: dict[str, Any], *, typed: bool) -> Any:
    rows = np.array(case["rows"], np.float64).reshape(-1, len(case["rows"][0]) if case["rows"] else 2)
    message = Message(
        model_name=case.get("model", "m"), model_version=case.get("version", ""), id=case.get("id", ""),
        parameters={name: {"int64_param": value} for name, value in case.get("parameters", {}).items()},
    )  # fmt: skip
    tensor = message.inputs.add(
        name=case.get("tensor", "x"), datatype=case.get("kind", "FP64"), shape=case.get("shape", rows.shape)
    )
    if typed:
        tensor.contents.fp64_contents.extend(rows.reshape(-1))
    else:
        message.raw_input_contents.append(rows.tobytes())
    for name in case.get("outputs", ()):
        message.outputs.add(name=name)
    return message


def _texts(data: bytes) -> list[str]:
    values = []
    while data:
        size = int.from_bytes(data[:4], "little")
        values.append(data[4 : 4 + size].decode())
        data = data[4 + size :]
    return values


def by_grpc(call: Caller, case: dict[str, Any], *, typed: bool) -> tuple[int, Any]:
    try:
        answer = call.infer(message_of(case, typed=typed))
    except grpc.RpcError as error:
        return error.code(), error.details()
    outputs = {}
    for output, data in zip(answer.outputs, answer.raw_output_contents, strict=True):
        values = _texts(data) if output.datatype == "BYTES" else np.frombuffer(data, np.float64).tolist()
        outputs[output.name] = (output.datatype, list(output.shape), values)
    return 200, (answer.model_name, answer.model_version, answer.id if "id" in case else "", outputs)


@pytest.mark.parametrize("typed", [False, True])
def test_rest_and_grpc_answer_the_same(both: Gateway, call: Caller, typed: bool) -> None:
    for case in CASES:
        code, said = by_rest(both, case)
        if typed and not case["rows"]:
            continue  # which is no contents at all
        got, answered = by_grpc(call, case, typed=typed)
        assert answered == said, case
        assert got == (200 if code == 200 else getattr(grpc.StatusCode, BY_HTTP[code].name)), case


def test_every_status_has_the_number_that_clients_know() -> None:
    assert {status.name: status.value for status in GrpcStatus} == {
        name: getattr(grpc.StatusCode, name).value[0] for name in GrpcStatus.__members__
    }


def test_many_values_one_by_one_are_taken_as_well(both: Gateway, call: Caller, model: Counting) -> None:
    rows = np.arange(60_000, dtype=np.float64).reshape(-1, 2)
    message = Message(model_name="m", inputs=[{"name": "x", "datatype": "FP64", "shape": rows.shape}])
    message.inputs[0].contents.fp64_contents.extend(rows.reshape(-1))
    assert (outputs_of(call.infer(message))["sum"] == rows.sum(axis=1)).all()
    message.inputs[0].contents.ClearField("fp64_contents")
    message.inputs[0].contents.int64_contents.extend([1] * 120_000)
    message.inputs[0].datatype = "INT8"
    assert call.refusal(lambda: call.infer(message))[0] == "INVALID_ARGUMENT"


def test_packed_messages_are_read_within_bounds(both: Gateway, call: Caller) -> None:
    rows = np.ones((1000, 2))
    method = call.channel.unary_unary(
        f"/{SERVICE}/ModelInfer",
        request_serializer=Message.SerializeToString,
        response_deserializer=message_types.class_of("inference.ModelInferResponse").FromString,
    )
    for packing in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        answer = method(request_of("m", rows, "x"), compression=packing, timeout=PATIENCE)
        assert (outputs_of(answer)["sum"] == 2).all()
    large = request_of("m", np.ones((200_000, 2)), "x")
    assert call.refusal(lambda: method(large, compression=grpc.Compression.Gzip, timeout=PATIENCE)) == (
        "RESOURCE_EXHAUSTED", f"the message is larger than {LIMITS.max_body_bytes} bytes",
    )  # fmt: skip


def test_large_messages_come_and_go_and_too_large_ones_do_not(start_grpc: Callable[..., Gateway], call: Caller) -> None:
    start_grpc()
    rows = np.random.default_rng(1).random((60_000, 2))
    assert (outputs_of(call.infer(request_of("m", rows, "x")))["sum"] == rows.sum(axis=1)).all()
    code, words = call.refusal(lambda: call.infer(request_of("m", np.ones((70_000, 2)), "x")))
    assert (code, words) == ("RESOURCE_EXHAUSTED", f"the message is larger than {LIMITS.max_body_bytes} bytes")


def test_what_is_no_message_and_no_method_is_said(both: Gateway, call: Caller) -> None:
    def refused(method: str, body: bytes = b"") -> tuple[str, str]:
        return call.refusal(lambda: call.raw(method, body))

    code, words = refused(f"/{SERVICE}/ModelInfer", b"\x0a\xff")
    assert (code, words) == (
        "INVALID_ARGUMENT",
        "this is not a valid ModelInferRequest: it ends in the middle of a field",
    )
    assert refused(f"/{SERVICE}/ModelReady", b"\xff")[0] == "INVALID_ARGUMENT"
    assert refused(f"/{SERVICE}/ModelReady") == ("INVALID_ARGUMENT", "name: expected a model name")
    assert refused("/x/Y") == ("UNIMPLEMENTED", "there is no method '/x/Y'")


class TestEnds:
    def test_a_deadline_that_passes_while_it_waits(
        self, both: Gateway, call: Caller, counted: ModelRuntime, model: Counting
    ) -> None:
        counted.held = True
        code, _ = call.refusal(lambda: call.infer(request_of("m", [[1, 2]], "x"), timeout=0.2))
        assert code == "DEADLINE_EXCEEDED"
        until(lambda: not both.figure("mizzen_requests_in_flight"), "nothing is left of it")
        assert both.figure("mizzen_expired_total") + both.figure("mizzen_requests_total") >= 1

    def test_the_deadline_that_the_server_finds_is_told(
        self, both: Gateway, call: Caller, counted: ModelRuntime
    ) -> None:
        counted.held = True
        late = call.as_(mizzen_timeout_ms="50")
        code, words = late.refusal(lambda: late.infer(request_of("m", [[1, 2]], "x")))
        assert code == "DEADLINE_EXCEEDED"
        assert words == by_rest_late(both)
        odd = call.as_(mizzen_timeout_ms="soon")
        assert odd.refusal(lambda: odd.infer(request_of("m", [[1, 2]], "x"))) == (
            "INVALID_ARGUMENT", "header Mizzen-Timeout-Ms: expected a positive number",
        )  # fmt: skip

    @pytest.mark.parametrize("how", ["cancel", "close"])
    def test_who_leaves_is_not_waited_for(
        self, both: Gateway, call: Caller, counted: ModelRuntime, model: Counting, how: str
    ) -> None:
        counted.held = True
        method = call.channel.unary_unary(
            f"/{SERVICE}/ModelInfer", request_serializer=Message.SerializeToString, response_deserializer=bytes
        )
        calls = [method.future(request_of("m", [[1, 2]], "x"), timeout=PATIENCE) for _ in range(20)]
        until(lambda: both.figure("mizzen_requests_in_flight") == 20, "all of them wait")
        until(lambda: counted.items, "some of them at the replica")
        for each in calls if how == "cancel" else ():
            each.cancel()
        if how == "close":
            call.channel.close()
        until(lambda: not both.figure("mizzen_requests_in_flight"), "nobody waits")
        sent = counted.items
        counted.release()
        assert by_rest(both, {"rows": [[1.0, 2.0]]})[0] == 200
        assert counted.items == sent + 1  # what was not sent never is
        until(lambda: both.access_log.read_text().count('"code":499') == 20, "they are in the access log")

    def test_who_leaves_after_values_were_made_into_bytes_is_not_waited_for(
        self, both: Gateway, call: Caller, counted: ModelRuntime
    ) -> None:
        counted.held = True
        method = call.channel.unary_unary(
            f"/{SERVICE}/ModelInfer", request_serializer=Message.SerializeToString, response_deserializer=bytes
        )
        asked = method.future(typed_request_of("m", np.ones((20_000, 2)), "x"), timeout=PATIENCE)
        until(lambda: both.figure("mizzen_requests_in_flight") == 1, "it waits")
        asked.cancel()
        until(lambda: not both.figure("mizzen_requests_in_flight"), "nobody waits")
        until(lambda: both.access_log.read_text().count('"code":499') == 1, "it is in the access log")

    def test_a_replica_that_is_lost_in_the_middle(self, both: Gateway, call: Caller, counted: ModelRuntime) -> None:
        counted.held = True
        asked: list[Any] = []
        thread = threading.Thread(target=lambda: asked.append(call.infer(request_of("m", [[1, 2]], "x"))))
        thread.start()
        until(lambda: counted.items, "it is asked")
        counted.down()
        counted.held = False
        counted.up()
        thread.join()
        assert outputs_of(asked[0])["sum"].tolist() == [3.0]

    def test_a_stop_finishes_what_was_asked(self, both: Gateway, call: Caller, counted: ModelRuntime) -> None:
        counted.held = True
        method = call.channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=Message.SerializeToString,
            response_deserializer=message_types.class_of("inference.ModelInferResponse").FromString,
        )
        asked = method.future(request_of("m", [[1, 2]], "x"), timeout=PATIENCE)
        until(lambda: counted.items, "it is asked")
        with both.client() as idle:
            idle.send(request("GET", "/healthz"))
            assert idle.answer().status == 200
            both.stop()
            assert idle.closed()  # so it has begun
        counted.release()
        assert outputs_of(asked.result())["sum"].tolist() == [3.0]
        both.done.result(PATIENCE)


def by_rest_late(gateway: Gateway) -> str:
    answer = gateway.infer([1.0, 2.0], Mizzen_Timeout_Ms="50")
    assert answer.status == 504
    return answer.error
