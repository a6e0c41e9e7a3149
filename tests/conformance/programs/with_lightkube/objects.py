"""lightkube creates, reads, lists and replaces objects, and is told what is wrong."""

from __future__ import annotations

from lightkube import ALL_NS, codecs, operators
from lightkube.generic_resource import get_generic_resource, load_in_cluster_generic_resources
from lightkube.models.meta_v1 import ObjectMeta

from tests.conformance.programs.with_lightkube.session import InferenceModel, Model, client, model, refused, server


def kinds_are_found_by_their_definitions(namespace: str) -> None:
    with client(namespace) as ours:
        load_in_cluster_generic_resources(ours)
        graph = get_generic_resource("mizzen.dev/v1alpha1", "MLGraph")
        assert graph is not None
        assert list(ours.list(graph)) == []
    (loaded,) = codecs.load_all_yaml("apiVersion: mizzen.dev/v1alpha1\nkind: MLGraph\nmetadata: {name: d}\nspec: {}\n")
    assert loaded.metadata.name == "d"


def an_object_is_created_and_read(namespace: str) -> None:
    with client(namespace) as ours:
        made = ours.create(model("iris", {"team": "a"}))
        assert made.metadata.uid
        assert made.metadata.creationTimestamp.tzinfo is not None
        assert made["spec"] == {"framework": "sklearn"}
        read = ours.get(Model, "iris")
        assert (read.metadata.uid, read.metadata.labels) == (made.metadata.uid, {"team": "a"})
        assert read.metadata.managedFields[0].manager == "lightkube-tests"


def a_creation_is_only_tried(namespace: str) -> None:
    with client(namespace) as ours:
        assert ours.create(model("iris"), dry_run=True)["kind"] == "Model"
        assert list(ours.list(Model)) == []


def lists_are_selected_by_labels(namespace: str) -> None:
    with client(namespace) as ours:
        for name, labels in (("a", {"team": "x"}), ("b", {"team": "y", "old": "1"}), ("c", {})):
            ours.create(model(name, labels))
        for labels, names in (
            ({"team": "x"}, ["a"]),
            ({"team": operators.in_(["x", "y"])}, ["a", "b"]),
            ({"team": operators.not_in(["x"])}, ["b", "c"]),
            ({"team": operators.exists(), "old": operators.not_exists()}, ["a"]),
            ({"team": operators.not_equal("y")}, ["a", "c"]),
        ):
            assert [one.metadata.name for one in ours.list(Model, labels=labels)] == names, labels


def lists_are_selected_by_fields(namespace: str) -> None:
    with client(namespace) as ours:
        for name in ("one", "two", "three"):
            ours.create(server(name))
        for fields, names in (
            ({"metadata.name": "two"}, ["two"]),
            ({"spec.modelName": "iris"}, ["one", "three", "two"]),
            ({"metadata.name": operators.not_equal("two")}, ["one", "three"]),
            ({"metadata.name": operators.not_in(["one", "two"]), "spec.modelName": "iris"}, ["three"]),
            ({"spec.modelName": operators.not_equal("iris")}, []),
        ):
            assert [one.metadata.name for one in ours.list(InferenceModel, fields=fields)] == names, fields
        assert "'spec.none'" in refused(400, lambda: list(ours.list(Model, fields={"spec.none": "1"}))).message


def a_long_list_comes_in_pages(namespace: str) -> None:
    with client(namespace) as ours:
        names = [f"m-{number}" for number in range(5)]
        for name in names:
            ours.create(model(name))
        listing = ours.list(Model, chunk_size=2)
        assert [one.metadata.name for one in listing] == names
        assert int(listing.resourceVersion) >= int(ours.get(Model, "m-0").metadata.generation)
        everywhere = ours.list(Model, namespace=ALL_NS, chunk_size=2)
        assert {(namespace, name) for name in names} <= {(o.metadata.namespace, o.metadata.name) for o in everywhere}


def an_object_is_replaced_unless_it_changed(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.wait(Model, "iris", for_conditions=["Accepted"])  # else the controller may write in between
        read = ours.get(Model, "iris")
        read["spec"]["framework"] = "onnx"
        new = ours.replace(read)
        assert (new["spec"], new.metadata.generation) == ({"framework": "onnx"}, 2)
        read["spec"]["framework"] = "python"
        status = refused(409, lambda: ours.replace(read))
        assert (status.reason, status.details.name, status.details.kind) == ("Conflict", "iris", "models")
        assert ours.get(Model, "iris")["spec"] == {"framework": "onnx"}


def what_is_wrong_is_told(namespace: str) -> None:
    with client(namespace) as ours:
        status = refused(404, lambda: ours.get(Model, "none"))
        assert (status.reason, status.details.name, status.details.group) == ("NotFound", "none", "mizzen.dev")
        ours.create(model("iris"))
        status = refused(409, lambda: ours.create(model("iris")))
        assert (status.reason, status.details.name) == ("AlreadyExists", "iris")
        status = refused(422, lambda: ours.create(model("wine", framework=3, nothing=1)))
        assert (status.reason, status.details.kind) == ("Invalid", "Model")
        assert {cause.field for cause in status.details.causes} == {"spec", "spec.framework"}
        status = refused(422, lambda: ours.create(Model(metadata=ObjectMeta(name="No Name"), spec={})))
        assert any(cause.field == "metadata.name" for cause in status.details.causes)
