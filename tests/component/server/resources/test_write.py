"""Objects written over HTTP: patched, applied, replaced, scaled, deleted, and who owns their fields then."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Meta, OwnerReference, Resource
from mizzen.server.resources.write import OWNERS_WARNING
from tests.component.server.sending import causes
from tests.support.golden import Golden
from tests.support.server.harness import HERE, ROOT, Client, Harness

MODELS, SERVERS = f"{HERE}/models", f"{HERE}/inferencemodels"
IRIS, ONE = f"{MODELS}/iris", f"{SERVERS}/one"
MERGE, STEPS, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"


@pytest.fixture
def iris(admin: httpx2.Client) -> dict[str, Any]:
    return made(admin.post(MODELS, json=model(framework="onnx", aliases={"a": "1"})))


@pytest.fixture
def one(admin: httpx2.Client, iris: dict[str, Any]) -> dict[str, Any]:
    """A server of iris."""
    spec = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "image": "example.com/iris:1"}
    body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "one"}, "spec": spec}
    return made(admin.post(SERVERS, json=body))


def test_a_merge_patch_says_what_changes(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    after = made(patch(admin, MERGE, {"spec": {"framework": None, "aliases": {"b": "2"}}}))
    assert after["spec"] == {"aliases": {"a": "1", "b": "2"}}
    assert after["metadata"]["generation"] == 2
    same = made(patch(admin, MERGE, {"spec": {"aliases": {"b": "2"}}}))
    assert same == after, "nothing new was said"


def test_steps_are_done_all_or_none(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    step = {"op": "replace", "path": "/spec/framework", "value": "sklearn"}
    assert made(patch(admin, STEPS, [step]))["spec"]["framework"] == "sklearn"
    failing = [{**step, "value": "xgboost"}, {"op": "test", "path": "/spec/track", "value": "manual"}]
    answer = patch(admin, STEPS, failing)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    # Without faults kubectl shows the message only when nothing names the object.
    assert not {"kind", "name"} & answer.json()["details"].keys()
    assert patch(admin, STEPS, {"op": "add"}).status_code == 400
    assert admin.get(IRIS).json()["spec"]["framework"] == "sklearn"


@pytest.mark.parametrize("media", [MERGE, STEPS])
def test_a_patch_of_another_state_is_refused(admin: httpx2.Client, iris: dict[str, Any], media: str) -> None:
    def at(version: str) -> Any:
        if media == MERGE:
            return {"metadata": {"resourceVersion": version, "labels": {"x": "y"}}}
        return [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
        ]

    answer = patch(admin, media, at("1000"))
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert made(patch(admin, media, at(iris["metadata"]["resourceVersion"])))["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (MERGE, {"kind": "Other"}),
        (MERGE, {"metadata": {"name": "other"}}),
        (MERGE, {"metadata": {"namespace": "other"}}),
        (STEPS, [{"op": "remove", "path": "/metadata"}]),
        (STEPS, [{"op": "replace", "path": "/metadata", "value": 1}]),
        (MERGE, {"spec": "text"}),
        (MERGE, {"spec": {"framwork": "onnx"}}),
    ],
)
def test_a_patch_must_leave_an_object_that_is_right(
    admin: httpx2.Client, iris: dict[str, Any], media: str, body: Any
) -> None:
    assert causes(patch(admin, media, body))
    assert admin.get(IRIS).json() == iris


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"op": 1}'])
@pytest.mark.parametrize("media", [MERGE, STEPS, APPLY])
def test_what_is_no_patch_is_refused(admin: httpx2.Client, iris: dict[str, Any], media: str, body: bytes) -> None:
    answer = admin.patch(
        IRIS, content=body, headers={"content-type": media}, params={"fieldManager": "me"} if media == APPLY else {}
    )
    harmless = (media, body) == (STEPS, b"[]")
    assert answer.status_code in ((200,) if harmless else (400, 422)), answer.text
    assert admin.get(IRIS).json() == iris


def test_other_patches_are_refused(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    answer = patch(admin, "application/strategic-merge-patch+json", {"spec": {}})
    assert answer.status_code == 415
    assert MERGE in answer.json()["details"]["hint"]
    answer = patch(admin, MERGE, {}, force="true")
    assert (answer.status_code, answer.json()["message"]) == (400, "force is only for apply")
    assert patch(admin, MERGE, {}, path=f"{MODELS}/none").status_code == 404


def test_an_apply_makes_what_is_not_there(admin: httpx2.Client) -> None:
    answer = apply(admin, model(framework="onnx"))
    assert answer.status_code == 201, answer.text
    assert owners(answer) == {("me", "Apply"): {"f:spec": {"f:framework": {}}}}
    again = apply(admin, model(framework="onnx"))
    assert (again.status_code, again.json()) == (200, answer.json())


def test_an_apply_names_its_manager_and_its_object(admin: httpx2.Client) -> None:
    assert "fieldManager" in patch(admin, APPLY, model()).json()["message"]
    other = apply(admin, model(), path=f"{MODELS}/other")
    assert other.status_code == 400
    stale = model()
    stale["metadata"]["resourceVersion"] = "1"
    assert apply(admin, stale).status_code == 404, "they had read it, and it has gone"


def test_an_apply_may_be_yaml(admin: httpx2.Client) -> None:
    text = "apiVersion: mizzen.dev/v1alpha1\nkind: Model\nmetadata: {name: iris}\nspec: {track: latest}\n"
    answer = admin.patch(IRIS, content=text, headers={"content-type": APPLY}, params={"fieldManager": "me"})
    assert made(answer)["spec"] == {"track": "latest"}


def test_what_is_left_out_goes_unless_another_owns_it(admin: httpx2.Client) -> None:
    made(apply(admin, model(framework="onnx", track="manual")))
    made(apply(admin, model(framework="onnx"), by="other"))
    after = made(apply(admin, model(aliases={"a": "1"})))
    assert after["spec"] == {"framework": "onnx", "aliases": {"a": "1"}}


def test_fields_of_others_are_taken_by_force_only(admin: httpx2.Client, golden: Golden) -> None:
    made(apply(admin, model(framework="onnx")))
    refused = apply(admin, model(framework="sklearn"), by="other")
    body = refused.json()
    assert (refused.status_code, body["reason"]) == (409, "Conflict")
    golden.check(body["message"])
    assert body["details"]["causes"] == [
        {"field": ".spec.framework", "message": 'conflict with "me"', "reason": "FieldManagerConflict"}
    ]
    taken = apply(admin, model(framework="sklearn"), by="other", force="true")
    assert made(taken)["spec"] == {"framework": "sklearn"}
    assert owners(taken).keys() == {("other", "Apply")}


def test_whoever_writes_owns_what_they_change(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    [first] = iris["metadata"]["managedFields"]
    assert (first["operation"], first["fieldsType"]) == ("Update", "FieldsV1")
    assert first["fieldsV1"] == {"f:spec": {"f:framework": {}, "f:aliases": {"f:a": {}}}}
    answer = patch(admin, MERGE, {"spec": {"framework": "sklearn"}}, fieldManager="tool")
    assert owners(answer)["tool", "Update"] == {"f:spec": {"f:framework": {}}}
    assert owners(answer)[first["manager"], "Update"] == {"f:spec": {"f:aliases": {"f:a": {}}}}
    assert patch(admin, MERGE, {}, fieldManager="x" * 129).status_code == 400


def test_who_owns_what_can_be_forgotten(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    """kubectl does this with JSON patch, when it goes over to applying on the server."""
    entries = [{"op": "replace", "path": "/metadata/managedFields", "value": []}]
    assert "managedFields" not in made(patch(admin, STEPS, entries))["metadata"]
    made(apply(admin, model(framework="sklearn")))


def test_who_wrote_last_is_nobodys_field(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    body = model()
    del body["spec"]
    body["metadata"]["annotations"] = {ACTOR_ANNOTATION: "somebody", "note": "mine"}
    answer = apply(admin, body)
    assert made(answer)["metadata"]["annotations"] == {ACTOR_ANNOTATION: "admin", "note": "mine"}
    assert owners(answer)["me", "Apply"] == {"f:metadata": {"f:annotations": {"f:note": {}}}}


@pytest.mark.parametrize("released", [None, []])
def test_finalizers_hold_an_object(admin: httpx2.Client, iris: dict[str, Any], released: list[str] | None) -> None:
    held = made(patch(admin, MERGE, {"metadata": {"finalizers": ["example.com/a", "mizzen.dev/b"]}}))
    assert held["metadata"]["finalizers"] == ["example.com/a"], "ours come by themselves"
    marked = admin.delete(IRIS)
    assert (marked.status_code, bool(marked.json()["metadata"]["deletionTimestamp"])) == (200, True)
    unchanged = patch(admin, MERGE, {"metadata": {"labels": {"a": "b"}}})
    assert made(unchanged)["metadata"]["finalizers"] == ["example.com/a"]
    patch(admin, MERGE, {"metadata": {"finalizers": released}})
    assert admin.get(IRIS).status_code == 404


def test_our_finalizers_cannot_be_taken_away(admin: httpx2.Client, one: dict[str, Any]) -> None:
    ours = one["metadata"]["finalizers"]
    assert ours
    assert all(name.startswith("mizzen.dev/") for name in ours)
    assert made(patch(admin, MERGE, {"metadata": {"finalizers": None}}, path=ONE))["metadata"]["finalizers"] == ours
    steps = [{"op": "remove", "path": "/metadata/finalizers"}]
    assert made(patch(admin, STEPS, steps, path=ONE))["metadata"]["finalizers"] == ours


def test_what_replaces_an_object_says_all_its_finalizers(admin: httpx2.Client, one: dict[str, Any]) -> None:
    """As in Kubernetes: but for ours, which hold it until its processes have ended."""
    ours = one["metadata"]["finalizers"]
    held = made(patch(admin, MERGE, {"metadata": {"finalizers": ["example.com/a"]}}, path=ONE))
    assert held["metadata"]["finalizers"] == [*ours, "example.com/a"]
    assert made(admin.put(ONE, json=held))["metadata"]["finalizers"] == [*ours, "example.com/a"]
    bare = {**held, "metadata": {"name": "one"}}
    assert made(admin.put(ONE, json=bare))["metadata"]["finalizers"] == ours


def test_a_status_is_changed_by_itself(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    body = {"status": {"highestVersion": 3}, "spec": {"framework": "sklearn"}}
    after = made(patch(admin, MERGE, body, path=f"{IRIS}/status"))
    assert (after["status"]["highestVersion"], after["spec"]) == (3, iris["spec"])
    for value in ("many", "3", True):  # it is kept as it is sent, so it must be what its readers expect
        wrong = patch(admin, MERGE, {"status": {"highestVersion": value}}, path=f"{IRIS}/status")
        assert wrong.status_code == 422
    assert list(causes(wrong)) == ["status.highestVersion"]
    stale = {"metadata": {"resourceVersion": iris["metadata"]["resourceVersion"]}, "status": {}}
    assert admin.put(f"{IRIS}/status", json={**iris, **stale}).status_code == 409
    tried = patch(admin, MERGE, {"status": {"highestVersion": 9}}, path=f"{IRIS}/status", dryRun="All")
    assert made(tried)["status"]["highestVersion"] == 9
    assert admin.get(f"{IRIS}/status").json()["status"]["highestVersion"] == 3


def test_a_status_is_for_admins(plane: Harness, iris: dict[str, Any]) -> None:
    plane.permit("ann-writes", "write", subjects=["ann"], model="iris")
    ann = plane.client(plane.user("ann"))
    assert patch(ann, MERGE, {"metadata": {"labels": {"a": "b"}}}).status_code == 200
    assert patch(ann, MERGE, {"status": {}}, path=f"{IRIS}/status").status_code == 403


def test_replicas_are_scaled(admin: httpx2.Client, one: dict[str, Any]) -> None:
    scale = admin.get(f"{ONE}/scale").json()
    assert (scale["apiVersion"], scale["kind"], scale["spec"]) == ("autoscaling/v1", "Scale", {"replicas": 1})
    after = made(admin.put(f"{ONE}/scale", json={**scale, "spec": {"replicas": 3}}))
    assert after["spec"] == {"replicas": 3}
    assert admin.get(ONE).json()["spec"] == {**one["spec"], "replicas": 3}
    assert admin.put(f"{ONE}/scale", json={**scale, "spec": {"replicas": 4}}).status_code == 409, "it is an older one"
    assert made(patch(admin, MERGE, {"spec": {"replicas": 2}}, path=f"{ONE}/scale"))["spec"] == {"replicas": 2}
    assert causes(patch(admin, MERGE, {"spec": {"replicas": -1}}, path=f"{ONE}/scale"))
    assert causes(patch(admin, MERGE, {"spec": None}, path=f"{ONE}/scale")) == {"spec.replicas": "required"}
    assert admin.get(f"{IRIS}/scale").status_code == 404


def test_what_follows_the_load_is_only_stopped_and_begun(admin: httpx2.Client, one: dict[str, Any]) -> None:
    limits = {"autoScale": {"minReplicas": 1, "maxReplicas": 3}}
    made(patch(admin, MERGE, {"spec": {**limits, "replicas": 2}}, path=ONE))

    def scaled(replicas: int) -> httpx2.Response:
        return admin.put(f"{ONE}/scale", json={"spec": {"replicas": replicas}})

    refused = scaled(3)
    assert causes(refused) == {
        "spec.replicas": "is set by autoscaling, within spec.autoScale; only 0 is allowed, to stop the server"
    }
    assert "mizzen scale one MIN-MAX" in refused.text
    assert made(scaled(2))["spec"] == {"replicas": 2}, "as it is"
    assert made(scaled(0))["spec"] == {"replicas": 0}
    assert made(scaled(3))["spec"] == {"replicas": 3}
    made(patch(admin, MERGE, {"spec": {"autoScale": None}}, path=ONE))
    assert made(scaled(1))["spec"] == {"replicas": 1}


def test_a_scale_is_of_the_object_that_the_path_names(admin: Client, one: dict[str, Any]) -> None:
    scaled = {"spec": {"replicas": 0}}
    other = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "two", "namespace": "lab"}}
    assert causes(patch(admin, MERGE, {**scaled, **other}, path=f"{ONE}/scale")) == {
        "kind": "must be 'Scale' here", "apiVersion": "must be 'autoscaling/v1' here",
        "metadata.name": "must be 'one' here", "metadata.namespace": f"must be '{admin.namespace}' here",
    }  # fmt: skip
    anew = {**scaled, "metadata": {"uid": "of another"}}
    assert patch(admin, MERGE, anew, path=f"{ONE}/scale").status_code == 409
    strange = ("/x", "/metadata/annotations", "/spec/minReplicas")
    steps: list[dict[str, Any]] = [{"op": "add", "path": path, "value": {}} for path in strange]
    refused = causes(patch(admin, STEPS, steps, path=f"{ONE}/scale"))
    assert refused.keys() == {"", "metadata", "spec"}
    assert admin.get(ONE).json() == one
    told = patch(admin, STEPS, steps, path=f"{ONE}/scale", fieldValidation="Warn")
    assert (told.status_code, "unknown field 'minReplicas'" in told.headers["warning"]) == (200, True)
    assert admin.put(f"{ONE}/scale", json=scaled).json()["spec"] == {"replicas": 0}


def test_unknown_fields_are_refused_told_or_left_out(admin: httpx2.Client, golden: Golden) -> None:
    wrong = {**model(framework="onnx", trck="latest"), "more": 1}
    refused = admin.post(MODELS, json=wrong)
    golden.check(causes(refused)["spec"])
    assert refused.json()["details"]["kind"] == "Model"
    assert refused.json()["details"]["name"] == "iris", "kubectl says whose fault it is"
    warned = admin.post(MODELS, json=wrong, params={"fieldValidation": "Warn"})
    assert made(warned)["spec"] == {"framework": "onnx"}
    assert len(warned.headers.get_list("warning")) == 2
    ignored = patch(admin, MERGE, {"spec": {"trck": "x"}}, fieldValidation="Ignore")
    assert made(ignored)["spec"] == {"framework": "onnx"}
    assert "warning" not in ignored.headers
    for strictness in ("Warn", "Ignore"):
        assert causes(patch(admin, MERGE, {"spec": {"track": "mnual"}}, fieldValidation=strictness))
    assert patch(admin, MERGE, {}, fieldValidation="Some").status_code == 400


def test_who_names_owners_is_told_that_they_are_not_kept(plane: Harness, admin: httpx2.Client) -> None:
    owner = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "name": "other", "uid": "1"}
    owned = model(framework="onnx")
    owned["metadata"]["ownerReferences"] = [owner]
    added = {"metadata": {"ownerReferences": [owner]}}
    for answer in (admin.post(MODELS, json=owned), patch(admin, MERGE, added), apply(admin, owned)):
        assert answer.headers.get_list("warning") == [f'299 - "{OWNERS_WARNING}"']
        assert "ownerReferences" not in made(answer)["metadata"]
    kept = OwnerReference("Model", "iris", "1")
    plane.run(plane.store.create(Resource("Model", Meta("child", plane.namespace, owners=(kept,))), "admin"))
    child = made(admin.get(f"{MODELS}/child"))
    again = admin.put(f"{MODELS}/child", json={**child, "spec": {"framework": "onnx"}})
    assert made(again)["metadata"]["ownerReferences"] == child["metadata"]["ownerReferences"]
    assert "warning" not in again.headers, "who sends back what they got means nothing by it"


def test_what_is_odd_is_told_when_it_is_written_and_not_again(admin: httpx2.Client) -> None:
    def told(answer: httpx2.Response) -> list[str]:
        made(answer)
        return answer.headers.get_list("warning")

    odd = '299 - "spec.aliases.a: there is no version 1 yet; the alias works once there is"'
    assert told(admin.post(MODELS, json=model(aliases={"a": "1"}))) == [odd]
    assert told(patch(admin, MERGE, {"metadata": {"labels": {"a": "b"}}})) == []
    assert told(patch(admin, MERGE, {"spec": {"framework": "onnx"}})) == [odd]


def test_an_object_without_a_name_is_not_called_nothing(admin: httpx2.Client) -> None:
    """kubectl would say: The Model "" is invalid."""
    answer = admin.post(f"{ROOT}/namespaces/a_b/models", json=model())
    assert (answer.status_code, [*causes(answer)]) == (422, ["metadata.namespace"])
    assert not {"kind", "name"} & answer.json()["details"].keys()


def test_what_is_tried_is_not_written(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    tried = made(patch(admin, MERGE, {"spec": {"track": "latest"}}, dryRun="All"))
    assert (tried["spec"]["track"], tried["metadata"]["generation"]) == ("latest", 2)
    assert apply(admin, model("wine"), path=f"{MODELS}/wine", dryRun="All").status_code == 201
    assert apply(admin, model(framework="sklearn"), dryRun="All").status_code == 409
    assert admin.get(IRIS).json() == iris
    assert admin.get(f"{MODELS}/wine").status_code == 404


def test_a_deletion_may_name_what_it_means(admin: httpx2.Client, iris: dict[str, Any]) -> None:
    for wanted in ({"uid": "other"}, {"resourceVersion": "1000"}):
        assert delete(admin, IRIS, preconditions=wanted).status_code == 409
    assert delete(admin, IRIS, dryRun=["All"]).status_code == 200
    assert list(causes(delete(admin, IRIS, propagationPolicy="Orphan"))) == ["propagationPolicy"]
    assert list(causes(delete(admin, IRIS, propagationPolicy=["x"]))) == ["propagationPolicy"]
    assert causes(delete(admin, IRIS, kind="Model", dryRun=["Some"], more=1)).keys() == {"kind", "dryRun", ""}
    assert admin.get(IRIS).json() == iris
    gone = delete(admin, IRIS, preconditions={"uid": iris["metadata"]["uid"]}, gracePeriodSeconds=0)
    assert (gone.status_code, gone.json()["details"]["uid"]) == (200, iris["metadata"]["uid"])


def test_what_is_used_goes_first_in_the_foreground(admin: httpx2.Client, one: dict[str, Any]) -> None:
    assert delete(admin, IRIS).status_code == 409
    assert admin.request("DELETE", IRIS, params={"dryRun": "All"}).status_code == 409
    assert delete(admin, IRIS, propagationPolicy="Foreground").status_code == 200
    assert admin.get(IRIS).json()["metadata"]["deletionTimestamp"], "it goes once the server has"


def test_all_that_is_selected_is_deleted(plane: Harness, admin: httpx2.Client) -> None:
    for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
        plane.run(plane.store.create(Resource("Model", Meta(name, plane.namespace, labels={"team": team})), "admin"))
    tried = admin.request("DELETE", MODELS, params={"labelSelector": "team=x", "dryRun": "All"})
    assert [item["metadata"]["name"] for item in made(tried)["items"]] == ["a", "b"]
    assert len(admin.get(MODELS).json()["items"]) == 3
    made(admin.request("DELETE", MODELS, params={"labelSelector": "team=x"}))
    assert [item["metadata"]["name"] for item in admin.get(MODELS).json()["items"]] == ["c"]


def test_deleting_all_deletes_what_one_may(plane: Harness) -> None:
    for name in ("iris", "wine"):
        plane.run(plane.store.create(Resource("Model", Meta(name, plane.namespace)), "admin"))
    plane.permit("ann-writes", "write", subjects=["ann"], model="iris")
    ann = plane.client(plane.user("ann"))
    made(ann.request("DELETE", MODELS))
    assert [item["metadata"]["name"] for item in plane.client().get(MODELS).json()["items"]] == ["wine"]


def model(name: str = "iris", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": spec}


def made(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


def patch(client: httpx2.Client, media: str, body: Any, *, path: str = IRIS, **query: str) -> httpx2.Response:
    return client.patch(path, json=body, headers={"content-type": media}, params=query)


def apply(client: httpx2.Client, body: Any, *, by: str = "me", path: str = IRIS, **query: str) -> httpx2.Response:
    return patch(client, APPLY, body, path=path, fieldManager=by, **query)


def delete(client: httpx2.Client, path: str, **options: Any) -> httpx2.Response:
    return client.request("DELETE", path, json=options)


def owners(answer: httpx2.Response) -> dict[tuple[str, str], Any]:
    entries = made(answer)["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}
