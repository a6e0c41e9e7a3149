"""KServe's client, speaking V2, in JSON and in bytes."""

from __future__ import annotations

import httpx
import numpy as np
from kserve import InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput

from tests.conformance.programs.with_kserve.session import PREDICTED, ROWS, client, url


def _asked(*, binary: bool, wanted: bool) -> InferRequest:
    given = InferInput("input", list(ROWS.shape), "FP64")
    given.set_data_from_numpy(ROWS, binary_data=binary)
    outputs = [RequestedOutput("predict", parameters={"binary_data": wanted})]
    return InferRequest(model_name="iris", infer_inputs=[given], request_id="mine", request_outputs=outputs)


async def health(_namespace: str) -> None:
    async with client("v2") as server:
        assert await server.is_server_live(url()) is True
        assert await server.is_server_ready(url()) is True
        assert await server.is_model_ready(url(), "iris") is True
        assert await server.is_model_ready(url(), "nobody") is False


async def json_and_bytes_both_ways(_namespace: str) -> None:
    async with client("v2") as server:
        for sent in (True, False):
            for wanted in (True, False):
                answer = await server.infer(url(), _asked(binary=sent, wanted=wanted), model_name="iris")
                [output] = answer.outputs
                assert (answer.id, answer.model_name) == ("mine", "iris")
                assert output.name == "predict"
                assert np.asarray(output.as_numpy()).tolist() == PREDICTED


async def a_body_of_ones_own(_namespace: str) -> None:
    tensor = {"name": "input", "shape": [2, 4], "datatype": "FP64", "data": ROWS.tolist()}
    async with client("v2") as server:
        answer = await server.infer(url(), {"inputs": [tensor]}, model_name="iris")
        assert answer.outputs[0].as_numpy().tolist() == PREDICTED


async def faults(_namespace: str) -> None:
    async with client("v2") as server:
        try:
            await server.infer(url(), _asked(binary=True, wanted=True), model_name="nobody")
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 404
            assert "no model 'nobody'" in str(error)
        else:
            raise AssertionError("no error")
