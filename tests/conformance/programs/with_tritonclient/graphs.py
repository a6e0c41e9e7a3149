"""Graphs with tritonclient's HTTP client, as it calls models."""

from __future__ import annotations

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as asynchronous

from tests.conformance.programs.with_tritonclient.session import (
    GRAPHS,
    PREDICTED,
    client,
    headers,
    refused,
    rows,
    tensor,
    told,
)


def health(_namespace: str) -> None:
    with client() as server:
        for graph in GRAPHS:
            assert server.is_model_ready(graph) is True
            assert server.is_model_ready(graph, "1") is True
            assert server.is_model_ready(graph, "9") is False


def metadata_and_configuration(_namespace: str) -> None:
    with client() as server:
        for graph, datatype in GRAPHS.items():
            said = server.get_model_metadata(graph)
            assert (said["name"], said["versions"], said["platform"]) == (graph, ["1"], "mizzen-graph")
            assert said["inputs"] == [{"name": "input", "datatype": "FP64", "shape": [-1, 4]}]
            assert {"name": "predict", "datatype": datatype, "shape": [-1]} in said["outputs"]
            config = server.get_model_config(graph)
            assert (config["name"], config["backend"]) == (graph, "mizzen-graph")
        index = server.get_model_repository_index()
        assert set(GRAPHS) <= {one["name"] for one in index if one["state"] == "READY"}


def json_and_bytes_both_ways(_namespace: str) -> None:
    with client() as server:
        for graph, datatype in GRAPHS.items():
            for sent in (True, False):
                for wanted in (True, False):
                    outputs = [triton.InferRequestedOutput("predict", binary_data=wanted)]
                    answer = server.infer(graph, [rows(binary=sent)], outputs=outputs, request_id="mine")
                    assert answer.as_numpy("predict").tolist() == PREDICTED
                    assert answer.get_output("predict")["datatype"] == datatype
                    assert answer.get_response()["id"] == "mine"
                    assert answer.get_response()["model_name"] == graph


def what_is_given_unasked(_namespace: str) -> None:
    with client() as server:
        for graph in GRAPHS:
            answer = server.infer(graph, [rows()])
            assert [output["name"] for output in answer.get_response()["outputs"]] == ["predict"]
            assert answer.get_response()["parameters"]["nodes"]


def requested_outputs_each_in_its_own_way(_namespace: str) -> None:
    outputs = [
        triton.InferRequestedOutput("predict_proba", binary_data=True),
        triton.InferRequestedOutput("predict", binary_data=False),
    ]
    with client() as server:
        for graph in GRAPHS:
            answer = server.infer(graph, [rows(datatype="FP32")], outputs=outputs)
            assert answer.as_numpy("predict").tolist() == PREDICTED
            assert answer.as_numpy("predict_proba").shape == (2, 3)
            assert np.allclose(answer.as_numpy("predict_proba").sum(axis=1), 1)


def packed_requests(_namespace: str) -> None:
    with client() as server:
        for graph in GRAPHS:
            for algorithm in ("gzip", "deflate"):
                answer = server.infer(
                    graph, [rows()], request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
                )
                assert answer.as_numpy("predict").tolist() == PREDICTED


def statistics(_namespace: str) -> None:
    with client() as server:
        for graph in GRAPHS:
            for _ in range(3):
                server.infer(graph, [rows()])
            [said] = server.get_inference_statistics(graph)["model_stats"]
            assert said["inference_count"] >= 3
            assert said["inference_stats"]["success"]["ns"] > 0


def several_at_once(_namespace: str) -> None:
    with triton.InferenceServerClient(told()["url"], concurrency=4) as server:
        asked = [server.async_infer(graph, [rows()]) for graph in GRAPHS for _ in range(10)]
        assert all(one.get_result().as_numpy("predict").tolist() == PREDICTED for one in asked)


async def with_asyncio(_namespace: str) -> None:
    async with asynchronous.InferenceServerClient(told()["url"]) as server:
        for graph in GRAPHS:
            assert await server.is_model_ready(graph)
            assert (await server.get_model_metadata(graph))["name"] == graph
            answer = await server.infer(graph, [rows(module=asynchronous)])
            assert answer.as_numpy("predict").tolist() == PREDICTED


def faults(_namespace: str) -> None:
    with client() as server:
        for graph in GRAPHS:
            said = refused(400, server.infer, graph, [tensor("input", np.zeros((1, 3)), "FP64")])
            assert "node '" in said
            outputs = [triton.InferRequestedOutput("other")]
            assert "'other'" in refused(400, server.infer, graph, [rows()], outputs=outputs)
            refused(404, server.infer, graph, [rows()], model_version="9")
            refused(401, server.infer, graph, [rows()], headers={"Authorization": "Bearer mzn_no"})
            assert server.infer(graph, [rows()], headers=headers()).as_numpy("predict").tolist() == PREDICTED
