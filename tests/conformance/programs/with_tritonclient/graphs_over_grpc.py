"""Graphs with Triton's client over gRPC, as it calls models."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as asynchronous
from tritonclient.utils import InferenceServerException

from tests.conformance.programs.with_tritonclient.session import GRAPHS, PREDICTED, ROWS, told


def _client() -> Any:
    return triton.InferenceServerClient(told()["grpc"])


def _rows(array: Any = ROWS, module: Any = triton) -> Any:
    given = module.InferInput("input", list(array.shape), "FP64")
    given.set_data_from_numpy(array)
    return given


def health(_namespace: str) -> None:
    with _client() as server:
        for graph in GRAPHS:
            assert server.is_model_ready(graph) is True
            assert server.is_model_ready(graph, "9") is False


def metadata_and_configuration(_namespace: str) -> None:
    with _client() as server:
        for graph, datatype in GRAPHS.items():
            said = server.get_model_metadata(graph, as_json=True)
            assert (said["name"], said["versions"], said["platform"]) == (graph, ["1"], "mizzen-graph")
            assert said["inputs"] == [{"name": "input", "datatype": "FP64", "shape": ["-1", "4"]}]
            assert {"name": "predict", "datatype": datatype, "shape": ["-1"]} in said["outputs"]
            assert server.get_model_config(graph).config.backend == "mizzen-graph"
        index = server.get_model_repository_index().models
        assert set(GRAPHS) <= {one.name for one in index if one.state == "READY"}


def predictions(_namespace: str) -> None:
    with _client() as server:
        for graph, datatype in GRAPHS.items():
            for packing in (None, "gzip", "deflate"):
                outputs = [triton.InferRequestedOutput(name) for name in ("predict_proba", "predict")]
                answer = server.infer(
                    graph, [_rows()], outputs=outputs, request_id="mine", compression_algorithm=packing
                )
                said = answer.get_response()
                assert (said.id, said.model_name) == ("mine", graph)
                assert said.parameters["nodes"].string_param
                assert answer.as_numpy("predict").tolist() == PREDICTED
                assert answer.get_output("predict").datatype == datatype
                assert np.allclose(answer.as_numpy("predict_proba").sum(axis=1), 1)


def a_stream(_namespace: str) -> None:
    done: queue.Queue[Any] = queue.Queue()
    with _client() as server:
        server.start_stream(lambda result, error: done.put((result, error)))
        asked = [graph for graph in GRAPHS for _ in range(10)]
        for number, graph in enumerate(asked):
            server.async_stream_infer(graph, [_rows()], request_id=str(number))
        for number in range(len(asked)):
            result, error = done.get(timeout=30)
            assert error is None, error
            assert result.get_response().id == str(number)
            assert result.as_numpy("predict").tolist() == PREDICTED
        server.stop_stream()


async def with_asyncio(_namespace: str) -> None:
    async with asynchronous.InferenceServerClient(told()["grpc"]) as server:
        for graph in GRAPHS:
            assert await server.is_model_ready(graph) is True
            assert (await server.get_model_metadata(graph)).platform == "mizzen-graph"
            answer = await server.infer(graph, [_rows(module=asynchronous)])
            assert answer.as_numpy("predict").tolist() == PREDICTED


def faults(_namespace: str) -> None:
    with _client() as server:
        for graph in GRAPHS:
            try:
                server.infer(graph, [_rows(np.zeros((1, 3)))])
            except InferenceServerException as error:
                assert error.status() == "StatusCode.INVALID_ARGUMENT"
                assert "node '" in str(error.message())
            else:
                raise AssertionError("no error")
