"""Triton's client over gRPC: what it asks, and predictions."""

from __future__ import annotations

import queue
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.conformance.programs.with_tritonclient.session import PREDICTED, ROWS, told

KINDS = {
    "BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2",
    "UINT32": "u4", "UINT64": "u8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip


def _client() -> Any:
    return triton.InferenceServerClient(told()["grpc"])


def _tensor(name: str, values: Any, datatype: str) -> Any:
    array = np.asarray(values)
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


def _rows(datatype: str = "FP64") -> Any:
    return _tensor("input", ROWS.astype(KINDS[datatype]), datatype)


def _headers(who: str = "admin") -> dict[str, str]:
    return {"authorization": f"Bearer {told()[who]}"}


def _refused(code: str, call: Any, *given: Any, **named: Any) -> str:
    try:
        call(*given, **named)
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{code}", error
        return str(error.message())
    raise AssertionError(f"no error, where {code} was due")


def health(_namespace: str) -> None:
    with _client() as server:
        assert server.is_server_live() is True
        assert server.is_server_ready() is True
        for name, version, ready in (
            ("iris", "", True), ("iris", "1", True), ("iris", "stable", True), ("iris", "9", False),
            ("nobody", "", False),
        ):  # fmt: skip
            assert server.is_model_ready(name, version) is ready, name


def metadata_and_configuration(_namespace: str) -> None:
    with _client() as server:
        said = server.get_server_metadata()
        assert said.name == "mizzen"
        assert "statistics" in said.extensions
        model = server.get_model_metadata("iris", as_json=True)
        assert (model["name"], sorted(model["versions"]), model["platform"]) == ("iris", ["1", "2"], "sklearn")
        assert model["inputs"] == [{"name": "input", "datatype": "FP64", "shape": ["-1", "4"]}]
        _refused("NOT_FOUND", server.get_model_metadata, "nobody")
        config = server.get_model_config("iris", "1").config
        assert (config.name, config.backend) == ("iris", "sklearn")
        assert config.max_batch_size > 0
        assert [(each.name, each.data_type, list(each.dims)) for each in config.input] == [("input", 12, [4])]
        assert list(config.version_policy.specific.versions) == [1]


def statistics_and_the_index(_namespace: str) -> None:
    with _client() as server:
        for _ in range(3):
            server.infer("iris", [_rows()], model_version="1")
        [said] = server.get_inference_statistics("iris", "1").model_stats
        assert said.inference_count >= 3
        assert said.inference_stats.success.ns > 0
        every = server.get_inference_statistics().model_stats
        assert {("iris", "1"), ("iris", "2"), ("echo", "1")} <= {(one.name, one.version) for one in every}
        index = server.get_model_repository_index().models
        assert ("iris", "2", "READY") in [(one.name, one.version, one.state) for one in index]


def unloaded_and_loaded_again(_namespace: str) -> None:
    with _client() as server:
        _refused("UNAUTHENTICATED", server.unload_model, "spare")
        _refused("PERMISSION_DENIED", server.unload_model, "spare", headers=_headers("ann"))
        server.unload_model("spare", headers=_headers())
        assert server.is_model_ready("spare") is False
        _refused("UNAVAILABLE", server.infer, "spare", [_rows()])
        server.load_model("spare", headers=_headers())
        assert server.is_model_ready("spare") is True
        assert server.infer("spare", [_rows()]).as_numpy("predict").tolist() == PREDICTED
        _refused("NOT_FOUND", server.load_model, "nobody", headers=_headers())
        _refused("INVALID_ARGUMENT", server.load_model, "spare", headers=_headers(), config="{}")


def predictions(_namespace: str) -> None:
    with _client() as server:
        for packing in (None, "gzip", "deflate"):
            outputs = [triton.InferRequestedOutput(name) for name in ("predict_proba", "predict")]
            answer = server.infer("iris", [_rows()], outputs=outputs, request_id="mine", compression_algorithm=packing)
            assert answer.get_response().id == "mine"
            assert answer.get_response().model_name == "iris"
            assert answer.as_numpy("predict").tolist() == PREDICTED
            assert np.allclose(answer.as_numpy("predict_proba").sum(axis=1), 1)
            assert answer.as_numpy("other") is None
        assert server.infer("iris", [_rows("FP32")]).as_numpy("predict").tolist() == PREDICTED
        assert server.infer("iris", [_rows()], model_version="stable").get_response().model_version == "1"


def every_datatype_comes_back_as_it_was(_namespace: str) -> None:
    with _client() as server:
        for datatype, code in KINDS.items():
            array = np.array([[0, 1], [1, 1]], code)
            answer = server.infer("echo", [_tensor("x", array, datatype)]).as_numpy("x")
            assert (answer.dtype, answer.tolist()) == (array.dtype, array.tolist())
        texts = np.array([["ü", ""], ["b", "x" * 300]], object)
        answer = server.infer("echo", [_tensor("x", texts, "BYTES")]).as_numpy("x")
        assert [[text.decode() for text in row] for row in answer] == texts.tolist()


def large_tensors(_namespace: str) -> None:
    array = np.random.default_rng(1).random((1000, 1000))
    with _client() as server:
        assert (server.infer("echo", [_tensor("x", array, "FP64")]).as_numpy("x") == array).all()


def answers_to_callbacks(_namespace: str) -> None:
    done: queue.Queue[Any] = queue.Queue()
    with _client() as server:
        for number in range(50):
            server.async_infer(
                "iris", [_rows()], lambda result, error: done.put((result, error)), request_id=str(number)
            )
        answers = [done.get(timeout=30) for _ in range(50)]
    assert all(error is None and result.as_numpy("predict").tolist() == PREDICTED for result, error in answers)
    assert sorted(int(result.get_response().id) for result, _ in answers) == list(range(50))


def a_stream(_namespace: str) -> None:
    done: queue.Queue[Any] = queue.Queue()
    with _client() as server:
        server.start_stream(lambda result, error: done.put((result, error)))
        for number in range(100):
            name = "nobody" if number == 50 else "iris"
            server.async_stream_infer(name, [_rows()], request_id=str(number))
        for number in range(100):
            result, error = done.get(timeout=30)
            if number == 50:
                assert "no model 'nobody'" in str(error)
            else:
                assert error is None, error
                assert result.get_response().id == str(number)
                assert result.as_numpy("predict").tolist() == PREDICTED
        server.stop_stream()


def faults(_namespace: str) -> None:
    with _client() as server:
        assert "no model 'nobody'" in _refused("NOT_FOUND", server.infer, "nobody", [_rows()])
        said = _refused("INVALID_ARGUMENT", server.infer, "iris", [_tensor("input", [[1.0, 2.0]], "FP64")])
        assert "inputs[0].shape" in said
        said = _refused("INVALID_ARGUMENT", server.infer, "iris", [_tensor("other", ROWS, "FP64")])
        assert "'other' is not one of 'input'" in said
        classes = triton.InferRequestedOutput("predict", class_count=3)
        assert "classification" in _refused("INVALID_ARGUMENT", server.infer, "iris", [_rows()], outputs=[classes])
        _refused("UNIMPLEMENTED", server.get_system_shared_memory_status)
        _refused("UNAUTHENTICATED", server.infer, "iris", [_rows()], headers={"authorization": "Bearer mzn_no"})
        assert server.infer("iris", [_rows()], headers=_headers()).as_numpy("predict").tolist() == PREDICTED


def deadlines(_namespace: str) -> None:
    with _client() as server:
        assert server.infer("iris", [_rows()], client_timeout=20, timeout=10_000_000)
        for _ in range(100):  # gRPC counts in whole milliseconds, within which an answer may have come
            try:
                server.infer("iris", [_rows()], client_timeout=1e-9)
            except (InferenceServerException, grpc.RpcError) as error:
                assert "DEADLINE_EXCEEDED" in str(error) or "Deadline" in str(error)
                return
        raise AssertionError("it was always in time")
