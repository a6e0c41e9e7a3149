"""Predictions with tritonclient's HTTP client: tensors in JSON and in bytes, both ways."""

from __future__ import annotations

import numpy as np
import tritonclient.http as triton

from tests.conformance.programs.with_tritonclient.session import PREDICTED, client, refused, rows, tensor, told


def json_and_bytes_both_ways(_namespace: str) -> None:
    with client() as server:
        for sent in (True, False):
            for wanted in (True, False):
                outputs = [triton.InferRequestedOutput("predict", binary_data=wanted)]
                answer = server.infer("iris", [rows(binary=sent)], outputs=outputs, request_id="mine")
                assert answer.as_numpy("predict").tolist() == PREDICTED
                assert answer.get_response()["id"] == "mine"
                assert answer.get_response()["model_name"] == "iris"


def what_is_given_unasked(_namespace: str) -> None:
    with client() as server:
        answer = server.infer("iris", [rows()])
        assert [output["name"] for output in answer.get_response()["outputs"]] == ["predict"]
        assert answer.as_numpy("predict").dtype == np.int64


def requested_outputs_each_in_its_own_way(_namespace: str) -> None:
    outputs = [
        triton.InferRequestedOutput("predict_proba", binary_data=True),
        triton.InferRequestedOutput("predict", binary_data=False),
    ]
    with client() as server:
        answer = server.infer("iris", [rows()], outputs=outputs)
        assert answer.as_numpy("predict").tolist() == PREDICTED
        assert answer.as_numpy("predict_proba").shape == (2, 3)
        assert np.allclose(answer.as_numpy("predict_proba").sum(axis=1), 1)
        assert answer.as_numpy("other") is None


def narrower_numbers(_namespace: str) -> None:
    with client() as server:
        assert server.infer("iris", [rows(datatype="FP32")]).as_numpy("predict").tolist() == PREDICTED


def every_datatype_comes_back_as_it_was(_namespace: str) -> None:
    kinds = {
        "BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2",
        "UINT32": "u4", "UINT64": "u8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
    }  # fmt: skip
    with client() as server:
        for datatype, code in kinds.items():
            array = np.array([[0, 1], [1, 1]], code)
            for binary in (True, False):
                if datatype == "FP16" and not binary:
                    continue  # the client itself refuses it
                outputs = [triton.InferRequestedOutput("x", binary_data=binary)]
                answer = server.infer("echo", [tensor("x", array, datatype, binary=binary)], outputs=outputs)
                assert answer.as_numpy("x").tolist() == array.tolist()
                assert answer.get_output("x")["datatype"] == datatype


def texts_and_bytes(_namespace: str) -> None:
    texts = np.array(["é", "", "a,[b"], object)
    with client() as server:
        for sent in (True, False):
            for wanted in (True, False):
                outputs = [triton.InferRequestedOutput("x", binary_data=wanted)]
                answer = server.infer("echo", [tensor("x", texts, "BYTES", binary=sent)], outputs=outputs)
                given = [one.decode() if isinstance(one, bytes) else one for one in answer.as_numpy("x").tolist()]
                assert given == texts.tolist()
        data = np.array([b"\xff\x00", b""], object)
        outputs = [triton.InferRequestedOutput("x", binary_data=True)]
        answer = server.infer("echo", [tensor("x", data, "BYTES")], outputs=outputs)
        assert answer.as_numpy("x").tolist() == data.tolist()


def versions_and_aliases(_namespace: str) -> None:
    with client() as server:
        for asked, version in (("", "2"), ("1", "1"), ("2", "2"), ("stable", "1")):
            answer = server.infer("iris", [rows()], model_version=asked)
            assert answer.get_response()["model_version"] == version
        refused(404, server.infer, "iris", [rows()], model_version="9")


def packed_requests(_namespace: str) -> None:
    with client() as server:
        for algorithm in ("gzip", "deflate"):
            for binary in (True, False):
                answer = server.infer(
                    "iris", [rows(binary=binary)], request_compression_algorithm=algorithm,
                    response_compression_algorithm=algorithm,
                )  # fmt: skip
                assert answer.as_numpy("predict").tolist() == PREDICTED


def several_at_once(_namespace: str) -> None:
    with triton.InferenceServerClient(told()["url"], concurrency=4) as server:
        asked = [server.async_infer("iris", [rows()]) for _ in range(20)]
        assert all(one.get_result().as_numpy("predict").tolist() == PREDICTED for one in asked)


def faults(_namespace: str) -> None:
    with client() as server:
        assert "no model 'nobody'" in refused(404, server.infer, "nobody", [rows()])
        assert "'x' is not one of 'input'" in refused(
            400, server.infer, "iris", [tensor("x", np.zeros((1, 4)), "FP64")]
        )
        assert "does not fit" in refused(400, server.infer, "iris", [tensor("input", np.zeros((1, 3)), "FP64")])
        texts = tensor("input", np.array([["a"] * 4], object), "BYTES")
        assert "must be FP64" in refused(400, server.infer, "iris", [texts])
        outputs = [triton.InferRequestedOutput("other")]
        assert "'other' is not one of" in refused(400, server.infer, "iris", [rows()], outputs=outputs)
        classes = [triton.InferRequestedOutput("predict_proba", class_count=2)]
        assert "is not supported" in refused(400, server.infer, "iris", [rows()], outputs=classes)
        odd = tensor("input", np.array([[1.0, 2.0, np.nan, 4.0]]), "FP64")
        assert "holds NaN" in refused(400, server.infer, "iris", [odd])
