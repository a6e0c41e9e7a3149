"""The same with tritonclient's client for asyncio."""

from __future__ import annotations

import asyncio

import tritonclient.http.aio as triton
from tritonclient.utils import InferenceServerException

from tests.conformance.programs.with_tritonclient.session import PREDICTED, rows, told


async def json_and_bytes_both_ways(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["url"]) as server:
        for sent in (True, False):
            for wanted in (True, False):
                outputs = [triton.InferRequestedOutput("predict", binary_data=wanted)]
                answer = await server.infer("iris", [rows(binary=sent, module=triton)], outputs=outputs)
                assert answer.as_numpy("predict").tolist() == PREDICTED


async def many_at_once(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["url"]) as server:
        answers = await asyncio.gather(*(server.infer("iris", [rows(module=triton)]) for _ in range(50)))
        assert all(answer.as_numpy("predict").tolist() == PREDICTED for answer in answers)


async def what_else_there_is_to_ask(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["url"]) as server:
        assert await server.is_server_live()
        assert await server.is_server_ready()
        assert await server.is_model_ready("iris", "1")
        assert (await server.get_model_metadata("iris"))["name"] == "iris"
        assert (await server.get_model_config("iris"))["name"] == "iris"
        assert (await server.get_inference_statistics("iris"))["model_stats"]
        assert "iris" in [one["name"] for one in await server.get_model_repository_index()]


async def faults(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["url"]) as server:
        try:
            await server.infer("nobody", [rows(module=triton)])
        except InferenceServerException as error:
            assert error.status() == "404"
        else:
            raise AssertionError("no error")


async def packed_requests(_namespace: str) -> None:
    async with triton.InferenceServerClient(told()["url"]) as server:
        for algorithm in ("gzip", "deflate"):
            answer = await server.infer("iris", [rows(module=triton)], request_compression_algorithm=algorithm)
            assert answer.as_numpy("predict").tolist() == PREDICTED
