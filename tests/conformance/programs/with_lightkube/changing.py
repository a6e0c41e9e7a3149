"""lightkube patches and applies objects, and their status and scale."""

from __future__ import annotations

from lightkube.types import PatchType

from tests.conformance.programs.with_lightkube.session import InferenceModel, Model, client, model, refused, server


def an_object_is_patched(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris", {"a": "1", "b": "2"}))
        merge = {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"framework": "onnx"}}
        merged = ours.patch(Model, "iris", merge, patch_type=PatchType.MERGE)
        assert (merged.metadata.labels, merged["spec"]) == ({"b": "2", "c": "3"}, {"framework": "onnx"})
        operations = [
            {"op": "test", "path": "/spec/framework", "value": "onnx"},
            {"op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/d"},
        ]
        moved = ours.patch(Model, "iris", operations, patch_type=PatchType.JSON)
        assert moved.metadata.labels == {"c": "3", "d": "2"}
        failed = refused(422, lambda: ours.patch(Model, "iris", [{"op": "remove", "path": "/spec/x"}],
                                                 patch_type=PatchType.JSON))  # fmt: skip
        assert failed.reason == "Invalid"


def a_strategic_patch_is_for_kinds_of_kubernetes_only(namespace: str) -> None:
    """As in a cluster, where our kinds are custom ones."""
    with client(namespace) as ours:
        ours.create(model("iris"))
        status = refused(415, lambda: ours.patch(Model, "iris", {"metadata": {"labels": {"a": "1"}}}))
        assert status.reason == "UnsupportedMediaType"


def who_applies_owns_what_they_applied(namespace: str) -> None:
    with client(namespace) as ours:
        made = ours.apply(model("iris", {"team": "a"}), field_manager="first")
        assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
        status = refused(409, lambda: ours.apply(model("iris", framework="onnx"), field_manager="second"))
        assert status.reason == "Conflict"
        (cause,) = status.details.causes
        assert (cause.reason, cause.field) == ("FieldManagerConflict", ".spec.framework")
        assert '"first"' in cause.message
        taken = ours.apply(model("iris", framework="onnx"), field_manager="second", force=True)
        assert taken["spec"] == {"framework": "onnx"}
        left = ours.apply(model("iris", framework="onnx"), field_manager="first")
        assert not left.metadata.labels, "what they applied before and now leave out goes"


def nothing_is_applied_when_it_is_only_tried(namespace: str) -> None:
    with client(namespace) as ours:
        ours.apply(model("iris"))
        tried = ours.apply(model("iris", framework="onnx"), dry_run=True)
        assert tried["spec"] == {"framework": "onnx"}
        assert ours.get(Model, "iris")["spec"] == {"framework": "sklearn"}


def a_status_is_read_and_changed(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.wait(Model, "iris", for_conditions=["Accepted"])
        before = ours.get(Model.Status, "iris")
        assert before.status["conditions"][0]["type"] == "Accepted"
        patch = {"spec": {"framework": "onnx"}, "status": {"observedGeneration": 7}}
        after = ours.patch(Model.Status, "iris", patch, patch_type=PatchType.MERGE)
        assert after.status["observedGeneration"] == 7
        assert after["spec"] == {"framework": "sklearn"}, "only the status is written"
        wrong = {"status": {"observedGeneration": "x"}}
        refused(422, lambda: ours.patch(Model.Status, "iris", wrong, patch_type=PatchType.MERGE))


def a_server_is_scaled(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(server("one"))
        scale = ours.get(InferenceModel.Scale, "one")
        assert (scale.spec.replicas, scale.status.replicas) == (1, 0)
        patched = ours.patch(InferenceModel.Scale, "one", {"spec": {"replicas": 3}}, patch_type=PatchType.MERGE)
        assert patched.spec.replicas == 3
        patched.spec.replicas = 2
        patched.metadata.resourceVersion = None
        assert ours.replace(patched, name="one").spec.replicas == 2
        assert ours.get(InferenceModel, "one")["spec"]["replicas"] == 2
        ours.create(model("iris"))
        refused(404, lambda: ours.get(Model.Scale, "iris"))
