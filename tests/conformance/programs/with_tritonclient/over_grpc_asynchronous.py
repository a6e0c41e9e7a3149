"""Triton's client over gRPC and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton

from tests.conformance.programs.with_tritonclient.session import PREDICTED, ROWS, told


def _rows() -> Any:
    given = triton.InferInput("input", list(ROWS.shape), "FP64")
    given.set_data_from_numpy(ROWS)
    return given


async def what_can_be_asked(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["grpc"]) as server:
        assert await server.is_server_live() is True
        assert await server.is_server_ready() is True
        assert await server.is_model_ready("iris") is True
        assert (await server.get_model_metadata("iris")).platform == "sklearn"
        assert (await server.get_model_config("iris")).config.backend == "sklearn"
        assert (await server.get_inference_statistics("iris")).model_stats
        assert (await server.get_model_repository_index()).models


async def many_at_once(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["grpc"]) as server:
        answers = await asyncio.gather(*(server.infer("iris", [_rows()], request_id=str(n)) for n in range(500)))
    assert [answer.get_response().id for answer in answers] == [str(n) for n in range(500)]
    assert all(answer.as_numpy("predict").tolist() == PREDICTED for answer in answers)


async def a_stream(_namespace: str) -> None:
    async def asked() -> AsyncIterator[dict[str, Any]]:
        for number in range(50):
            yield {"model_name": "iris", "inputs": [_rows()], "request_id": str(number)}

    seen = []
    async with triton.InferenceServerClient(told()["grpc"]) as server:
        async for result, error in server.stream_infer(asked()):
            assert error is None, error
            assert np.asarray(result.as_numpy("predict")).tolist() == PREDICTED
            seen.append(int(result.get_response().id))
    assert seen == list(range(50))
