"""KServe's client over gRPC: with values one by one, and as bytes."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput

from tests.conformance.programs.with_kserve.session import PREDICTED, ROWS, told


def _client() -> Any:
    return InferenceGRPCClient(told()["grpc"])


def _asked(model: str = "iris", *, binary: bool = False) -> InferRequest:
    given = InferInput("input", list(ROWS.shape), "FP64")
    given.set_data_from_numpy(ROWS, binary_data=binary)
    outputs = [RequestedOutput("predict")]
    return InferRequest(model_name=model, infer_inputs=[given], request_id="mine", request_outputs=outputs)


async def health(_namespace: str) -> None:
    async with _client() as server:
        assert await server.is_server_live() is True
        assert await server.is_server_ready() is True
        assert await server.is_model_ready("iris") is True
        assert await server.is_model_ready("nobody") is False


async def values_and_bytes(_namespace: str) -> None:
    async with _client() as server:
        for binary in (False, True):
            answer = await server.infer(_asked(binary=binary))
            [output] = answer.outputs
            assert (answer.id, answer.model_name, output.name) == ("mine", "iris", "predict")
            assert np.asarray(output.as_numpy()).tolist() == PREDICTED


async def every_datatype_comes_back_as_it_was(_namespace: str) -> None:
    kinds = {
        "BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2",
        "UINT32": "u4", "UINT64": "u8", "FP32": "f4", "FP64": "f8",
    }  # fmt: skip
    async with _client() as server:
        for datatype, code in kinds.items():
            array = np.array([[0, 1], [1, 1]], code)
            given = InferInput("x", list(array.shape), datatype)
            given.set_data_from_numpy(array, binary_data=False)
            answer = await server.infer(InferRequest(model_name="echo", infer_inputs=[given]))
            assert np.asarray(answer.outputs[0].as_numpy()).tolist() == array.tolist(), datatype


async def faults(_namespace: str) -> None:
    async with _client() as server:
        try:
            await server.infer(_asked("nobody"))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
            assert "no model 'nobody'" in str(error)
        else:
            raise AssertionError("no error")
