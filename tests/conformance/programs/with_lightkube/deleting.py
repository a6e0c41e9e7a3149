"""lightkube deletes objects, one or many."""

from __future__ import annotations

from lightkube.types import CascadeType, PatchType

from tests.conformance.programs.with_lightkube.session import (
    InferenceModel,
    Model,
    client,
    model,
    refused,
    server,
    until,
)


def an_object_is_deleted(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.delete(Model, "iris", dry_run=True)
        assert ours.get(Model, "iris").metadata.deletionTimestamp is None
        ours.delete(Model, "iris", grace_period=0)
        assert refused(404, lambda: ours.get(Model, "iris")).reason == "NotFound"
        assert refused(404, lambda: ours.delete(Model, "iris")).details.name == "iris"


def what_is_in_use_goes_in_the_foreground_only(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.create(server("one"))
        status = refused(409, lambda: ours.delete(Model, "iris", cascade=CascadeType.BACKGROUND))
        assert "is in use" in status.message
        refused(422, lambda: ours.delete(Model, "iris", cascade=CascadeType.ORPHAN))
        ours.delete(Model, "iris", cascade=CascadeType.FOREGROUND)
        until(lambda: not [*ours.list(Model), *ours.list(InferenceModel)], "the server goes first, then the model")


def a_finalizer_holds_an_object(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        ours.patch(Model, "iris", held, patch_type=PatchType.MERGE)
        ours.delete(Model, "iris")
        assert ours.get(Model, "iris").metadata.deletionTimestamp is not None
        ours.patch(Model, "iris", {"metadata": {"finalizers": None}}, patch_type=PatchType.MERGE)
        until(lambda: not list(ours.list(Model)), "nothing holds it any more")


def all_objects_of_a_namespace_are_deleted(namespace: str) -> None:
    with client(namespace) as ours, client(f"{namespace}-2"[-63:].strip("-")) as theirs:
        for name in ("a", "b", "c"):
            ours.create(model(name))
        theirs.create(model("d"))
        ours.deletecollection(Model, dry_run=True)
        assert len(list(ours.list(Model))) == 3
        ours.deletecollection(Model)
        assert list(ours.list(Model)) == []
        assert [one.metadata.name for one in theirs.list(Model)] == ["d"]
