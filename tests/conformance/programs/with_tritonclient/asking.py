"""What tritonclient asks beside predictions: health, metadata, configuration, statistics and the repository."""

from __future__ import annotations

from tests.conformance.programs.with_tritonclient.session import client, headers, refused, rows


def health(_namespace: str) -> None:
    with client() as server:
        assert server.is_server_live() is True
        assert server.is_server_ready() is True
        assert server.is_model_ready("iris") is True
        assert server.is_model_ready("iris", "1") is True
        assert server.is_model_ready("iris", "stable") is True
        assert server.is_model_ready("iris", "9") is False
        assert server.is_model_ready("nobody") is False


def metadata(_namespace: str) -> None:
    with client() as server:
        told = server.get_server_metadata()
        assert told["name"] == "mizzen"
        wanted = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]
        assert told["extensions"] == wanted
        model = server.get_model_metadata("iris")
        assert (model["name"], sorted(model["versions"]), model["platform"]) == ("iris", ["1", "2"], "sklearn")
        assert model["inputs"] == [{"name": "input", "datatype": "FP64", "shape": [-1, 4]}]
        assert "predict_proba" in [output["name"] for output in model["outputs"]]
        assert server.get_model_metadata("iris", "1")["name"] == "iris"
        refused(404, server.get_model_metadata, "nobody")


def configuration(_namespace: str) -> None:
    with client() as server:
        told = server.get_model_config("iris")
        assert (told["name"], told["backend"]) == ("iris", "sklearn")
        assert told["max_batch_size"] > 0
        assert told["input"] == [{"name": "input", "data_type": "TYPE_FP64", "dims": [4]}]
        assert server.get_model_config("iris", "1")["version_policy"] == {"specific": {"versions": ["1"]}}


def statistics(_namespace: str) -> None:
    with client() as server:
        for _ in range(3):
            server.infer("iris", [rows()], model_version="1")
        [told] = server.get_inference_statistics("iris", "1")["model_stats"]
        assert told["inference_count"] >= 3
        assert told["inference_stats"]["success"]["ns"] > 0
        assert told["inference_stats"]["compute_infer"]["count"] >= 3
        every = server.get_inference_statistics()["model_stats"]
        assert {("iris", "1"), ("iris", "2"), ("echo", "1")} <= {(one["name"], one["version"]) for one in every}


def the_index(_namespace: str) -> None:
    with client() as server:
        told = server.get_model_repository_index()
        assert {"name": "iris", "version": "2", "state": "READY", "reason": ""} in told


def unloaded_and_loaded_again(_namespace: str) -> None:
    with client() as server:
        refused(401, server.unload_model, "spare")
        refused(403, server.unload_model, "spare", headers=headers("ann"))
        server.unload_model("spare", headers=headers())
        assert server.is_model_ready("spare") is False
        states = {one["name"]: one["state"] for one in server.get_model_repository_index()}
        assert states["spare"] == "UNAVAILABLE"
        refused(503, server.infer, "spare", [rows()])
        server.load_model("spare", headers=headers())
        assert server.is_model_ready("spare") is True
        assert server.infer("spare", [rows()]).as_numpy("predict").tolist() == [0, 2]
        refused(404, server.load_model, "nobody", headers=headers())
        refused(400, server.load_model, "spare", headers=headers(), config="{}")
