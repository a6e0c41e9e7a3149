"""Values that come one by one, many of them: what they are made into takes room that others need, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mizzen.gateway.grpc.wire import message_types, typed_contents
from mizzen.gateway.request.body_budget import OVER_BUDGET
from mizzen.runtime.signature import TensorSpec
from mizzen.web.http2.frames import ErrorCode, encode_reset
from tests.support.gateway.harness import LIMITS, Gateway
from tests.support.gateway.models import Counting
from tests.support.grpcs import SERVICE, Caller, outputs_of
from tests.support.http2 import Raw, message

INFER, STREAM_INFER = f"/{SERVICE}/ModelInfer", f"/{SERVICE}/ModelStreamInfer"
ROWS = 35_000
"""Of two values, each of one byte in a message and of eight beyond it: more than half of what a message may have."""


@pytest.fixture
def model() -> Counting:
    return Counting(inputs=tuple(TensorSpec(name, "INT64", (-1, 2)) for name in "xy"))


def request_of(*names: str, rows: int = ROWS) -> Any:
    made = message_types.class_of("inference.ModelInferRequest")(model_name="m", id="mine")
    for name in names:
        made.inputs.add(name=name, datatype="INT64", shape=[rows, 2]).contents.int64_contents.extend([1] * rows * 2)
    return made


def test_they_may_come_to_no_more_than_a_message_may_have(both: Gateway, call: Caller) -> None:
    code, words = call.refusal(lambda: call.infer(request_of("x", "y")))
    assert (code, words) == (
        "INVALID_ARGUMENT", f"inputs[1].contents: the inputs exceed {LIMITS.max_body_bytes} bytes in total",
    )  # fmt: skip
    assert outputs_of(call.infer(request_of("x", "y", rows=ROWS // 2)))["sum"].sum() == ROWS // 2 * 2


def test_what_the_model_has_not_is_found_before_they_are_made(
    both: Gateway, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed_contents, "convert_in_steps", None)
    assert call.refusal(lambda: call.infer(request_of("x", "z")))[0] == "INVALID_ARGUMENT"


def test_they_are_counted_while_they_are_made(start_grpc: Callable[..., Gateway], call: Caller) -> None:
    gateway = start_grpc(limits=replace(LIMITS, queue_bytes=1_000_000))
    asked = request_of("x", "y", rows=ROWS // 2)
    with Raw(gateway.grpc_port) as other:
        other.open(1, INFER)
        other.bring(1, message(bytes(600_000))[:500_000])  # which does not come to its end
        other.heard()
        assert call.refusal(lambda: call.infer(asked)) == ("UNAVAILABLE", OVER_BUDGET)
        other.open(3, STREAM_INFER)
        other.bring(3, message(asked.SerializeToString()) * 2, end=True)
        assert other.code(3) == 0  # each by itself
        answers = [
            message_types.class_of("inference.ModelStreamInferResponse").FromString(each) for each in other.messages(3)
        ]
        assert [(each.error_message, each.infer_response.id) for each in answers] == [(OVER_BUDGET, "mine")] * 2
        other.send(encode_reset(1, ErrorCode.CANCEL))
        other.heard()
    assert outputs_of(call.infer(asked))["sum"].sum() == ROWS // 2 * 2
