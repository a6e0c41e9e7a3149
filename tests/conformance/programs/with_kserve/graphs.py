"""Graphs with KServe's clients, as they call models: V1, V2, and over gRPC."""

from __future__ import annotations

import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput

from tests.conformance.programs.with_kserve.session import GRAPHS, PREDICTED, ROWS, client, told, url


def _asked(graph: str, *, binary: bool, wanted: bool) -> InferRequest:
    given = InferInput("input", list(ROWS.shape), "FP64")
    given.set_data_from_numpy(ROWS, binary_data=binary)
    outputs = [RequestedOutput("predict", parameters={"binary_data": wanted})]
    return InferRequest(model_name=graph, infer_inputs=[given], request_id="mine", request_outputs=outputs)


async def v1(_namespace: str) -> None:
    async with client("v1") as server:
        for graph in GRAPHS:
            assert await server.is_model_ready(url(), graph) is True
            for body, answer in (
                ({"instances": ROWS.tolist()}, {"predictions": PREDICTED}),
                ({"instances": [{"input": row} for row in ROWS.tolist()]}, {"predictions": PREDICTED}),
                ({"inputs": ROWS.tolist()}, {"outputs": PREDICTED}),
                ({"inputs": {"input": ROWS.tolist()}}, {"outputs": PREDICTED}),
            ):
                assert await server.infer(url(), body, model_name=graph) == answer


async def v2(_namespace: str) -> None:
    async with client("v2") as server:
        for graph in GRAPHS:
            assert await server.is_model_ready(url(), graph) is True
            for sent in (True, False):
                for wanted in (True, False):
                    asked = _asked(graph, binary=sent, wanted=wanted)
                    answer = await server.infer(url(), asked, model_name=graph)
                    [output] = answer.outputs
                    assert (answer.id, answer.model_name, output.name) == ("mine", graph, "predict")
                    assert np.asarray(output.as_numpy()).tolist() == PREDICTED


async def over_grpc(_namespace: str) -> None:
    async with InferenceGRPCClient(told()["grpc"]) as server:
        for graph in GRAPHS:
            assert await server.is_model_ready(graph) is True
            for binary in (False, True):
                given = InferInput("input", list(ROWS.shape), "FP64")
                given.set_data_from_numpy(ROWS, binary_data=binary)
                outputs = [RequestedOutput("predict")]
                asked = InferRequest(model_name=graph, infer_inputs=[given], request_id="mine", request_outputs=outputs)
                answer = await server.infer(asked)
                [output] = answer.outputs
                assert (answer.id, answer.model_name, output.name) == ("mine", graph, "predict")
                assert np.asarray(output.as_numpy()).tolist() == PREDICTED


async def in_a_namespace(_namespace: str) -> None:
    async with client("v1") as server:
        for graph in GRAPHS:
            answer = await server.infer(f"{url()}/ns/default", {"instances": ROWS.tolist()}, model_name=graph)
            assert answer == {"predictions": PREDICTED}


async def faults(_namespace: str) -> None:
    async with client("v1") as server:
        for graph in GRAPHS:
            try:
                await server.infer(url(), {"instances": [[1]]}, model_name=graph)
            except httpx.HTTPStatusError as error:
                assert error.response.status_code == 400
                assert "node '" in error.response.text
            else:
                raise AssertionError("no error")
