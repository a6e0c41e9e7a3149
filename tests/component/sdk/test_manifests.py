"""apply, diff, lint, wait, list, going back and permissions of the SDK, against the real control API."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mizzen
from mizzen import errors
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import warnings as connection_warnings
from mizzen.sdk.connection.locate import PlaneAddress
from mizzen.server.versions.routes import MOST_AT_ONCE
from tests.support.server.harness import TOKEN, Harness, serving

HEAD = "apiVersion: mizzen.dev/v1alpha1\n"
IRIS = f"{HEAD}kind: Model\nmetadata: {{name: iris, labels: {{team: a}}}}\nspec: {{track: latest}}\n"
MISPRINT = "apiVersion: serving.mlpsepc.org/v1alpha1\nkind: MLGraph\nmetadata: {name: g}\nspec:\n"
MISPRINT += "  dag: [{name: a, implementation: {kfservice: iris}}]\n"


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


@pytest.fixture
def plane(control: Harness) -> Iterator[mizzen.Plane]:
    with mizzen.connect(control.url, TOKEN) as connected:
        yield connected


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": spec}


def test_texts_paths_and_data_are_applied(plane: mizzen.Plane, tmp_path: Path) -> None:
    file = tmp_path / "iris.yaml"
    file.write_text(IRIS)
    assert [str(done) for done in plane.apply(IRIS)] == ["model/iris created"]
    assert [str(done) for done in plane.apply(file)] == ["model/iris unchanged"]
    assert [str(done) for done in plane.apply(str(file), dry_run=True)] == ["model/iris unchanged"]
    (done,) = plane.apply(manifest("iris", track="manual"))
    assert (done.outcome, done.object["spec"]) == ("configured", {"track": "manual"})
    assert [one.outcome for one in plane.apply([manifest("a"), manifest("b")], namespace="lab")] == ["created"] * 2
    assert [item["metadata"]["name"] for item in plane.list("models", namespace="lab")] == ["a", "b"]
    assert plane.apply('{"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": "a"}}')[0].object


def test_diff_tells_what_apply_would_change(plane: mizzen.Plane) -> None:
    assert "+  track: latest" in plane.diff(IRIS)
    plane.apply(IRIS)
    assert plane.diff(IRIS) == ""
    assert "-  track: latest" in plane.diff(manifest("iris"))


def test_faults_are_all_told_and_nothing_is_sent(plane: mizzen.Plane) -> None:
    with pytest.raises(errors.Invalid, match="nothing was sent") as caught:
        plane.apply([manifest("good"), manifest("Bad!", trakc=1)])
    assert len(caught.value.faults) == 2
    assert plane.list("models") == []
    (checked,) = plane.lint(manifest("Bad!"))
    assert len(checked.faults) == 1


def test_warnings_of_reading_and_of_the_plane_are_pythons(plane: mizzen.Plane) -> None:
    with pytest.warns(mizzen.MizzenWarning, match="is read as mizzen.dev/v1alpha1; did you mean"):
        plane.apply(MISPRINT)
    image = f"{HEAD}kind: MLGraph\nmetadata: {{name: h}}\nspec: {{dag: {{name: c}}, custom: [{{spec: "
    image += "{containers: [{name: c, image: 'a/b:1'}]}}]}\n"
    with pytest.warns(mizzen.MizzenWarning, match="this engine runs no container images"):
        plane.apply(image)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plane.apply(IRIS)


def test_headers_are_read_as_http_writes_them() -> None:
    headers = [r'299 - "spec: a \"b\" \\ c"', '299 mizzen "two", 299 - "three"', '199 - "other"', '299 - "two"']
    assert connection_warnings.texts(headers) == ['spec: a "b" \\ c', "two", "three"]


def test_a_change_by_somebody_else_meanwhile_is_written_over(control: Harness) -> None:
    """The file says what is wanted, whoever wrote in between."""

    class Disturbed(AsyncPlane):
        disturbances = 2

        async def replace(self, manifest: Any, **how: Any) -> dict[str, Any]:
            if self.disturbances:
                self.disturbances -= 1
                current = await self.get("models", "iris")
                labels = {**current["metadata"]["labels"], "other": str(self.disturbances)}
                await super().replace({**current, "metadata": {**current["metadata"], "labels": labels}})
            return await super().replace(manifest, **how)

    async def work() -> str:
        async with Disturbed(PlaneAddress(control.url, None, TOKEN)) as plane:
            await plane.apply(IRIS)
            (done,) = await plane.apply(IRIS.replace("latest", "manual"))
            return done.outcome

    assert asyncio.run(work()) == "configured"
    stored = control.run(control.store.get(Ref("Model", "iris")))
    assert (stored.spec, stored.meta.labels) == ({"track": "manual"}, {"team": "a"})


def test_finalizers_of_others_stay(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(IRIS)

    async def hold() -> None:
        found = await control.store.get(Ref("Model", "iris"))
        await control.store.update(replace(found, meta=replace(found.meta, finalizers=("example.com/a",))), "ann")

    control.run(hold())
    (done,) = plane.apply(IRIS.replace("latest", "manual"))
    assert done.outcome == "configured"
    stored = control.run(control.store.get(Ref("Model", "iris")))
    assert stored.meta.finalizers == ("example.com/a",), "no file says them"
    assert stored.meta.managed[0]["manager"] == "mizzen"


def test_what_is_refused_for_what_it_says_is_not_tried_again(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(IRIS)
    control.run(control.store.create(Resource("MLGraph", Meta("both"), {}), "ann"))
    server = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "both"}}
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    with pytest.raises(errors.MizzenError) as caught:
        plane.apply({**server, "spec": spec})  # a graph and a server never have one name
    assert not isinstance(caught.value, errors.NotFound)


def test_lists_are_paged_selected_and_limited(plane: mizzen.Plane) -> None:
    names = [f"m{number}" for number in range(7)]
    plane.apply([manifest(name) | {"metadata": {"name": name, "labels": {"odd": str(index % 2)}}}
                 for index, name in enumerate(names)])  # fmt: skip
    assert [item["metadata"]["name"] for item in plane.list("model", limit=3)] == names[:3]
    assert [item["metadata"]["name"] for item in plane.list("Model", labels={"odd": "1"})] == names[1::2]
    assert [item["metadata"]["name"] for item in plane.list("models", labels="odd!=1", limit=2)] == [names[0], names[2]]
    assert [item["metadata"]["name"] for item in plane.list("models", fields={"metadata.name": "m3"})] == ["m3"]
    paged = plane.run(_names(plane.calls))
    assert paged == names
    assert [item["metadata"]["name"] for item in plane.objects("models", labels={"odd": "0"})] == names[::2]


async def _names(calls: AsyncPlane) -> list[str]:
    return [item["metadata"]["name"] async for item in calls.objects("models", page=2)]


def test_wait_ends_when_the_condition_holds_for_the_present_spec(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(IRIS)
    ref = Ref("Model", "iris")

    def say(status: str, generation: int) -> None:
        condition = {
            "type": "Accepted", "status": status, "reason": "Said", "message": "because",
            "observedGeneration": generation,
        }  # fmt: skip
        stored = control.run(control.store.get(ref))
        control.run(control.store.update_status(replace(stored, status={"conditions": [condition]}), "system"))

    with pytest.raises(errors.DeadlineExceeded, match=r"model iris was not Accepted within 0\.01 s"):
        plane.wait("model", "iris", "Accepted", timeout=0.01)
    threading.Timer(0.05, say, ("True", 1)).start()
    assert plane.wait("Model", "iris", "Accepted")["metadata"]["name"] == "iris"
    plane.apply(IRIS.replace("latest", "manual"))
    with pytest.raises(errors.DeadlineExceeded) as late:
        plane.wait("model", "iris", "Accepted", timeout=0.01)  # said of the spec before
    assert "because" in late.value.hint
    say("False", 2)
    with pytest.raises(errors.Invalid, match="not accepted: because"):
        plane.wait("model", "iris", "Ready")


def test_namespaces_of_a_connection(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN, namespace="lab") as lab, mizzen.connect(control.url, TOKEN) as default:
        lab.model("iris").create(labels={"team": "a"})
        assert lab.model("iris").labels == {"team": "a"}
        assert default.models() == []
        assert default.get("model", "iris", namespace="lab")["metadata"]["namespace"] == "lab"
        lab.model("iris").delete()
        assert lab.models() == []


def test_a_models_versions_aliases_and_past(plane: mizzen.Plane, control: Harness) -> None:
    model = plane.model("iris").create(framework="sklearn")
    assert model.add_version(control.file("one.joblib", "one")) == "1"
    assert model.add_version(control.file("two.joblib", "two"), version="best") == "best"
    assert model.versions == ["1", "best"]
    model.alias("prod", 1)
    assert model.aliases == {"prod": "1"}
    model.alias("prod", None)
    assert model.aliases == {}
    for version in ("1", "best"):
        server = plane.run(plane.calls.serve("iris", version))
        control.make_ready(server, version)
        model.promote(version)
    assert model.rollback() == "1"
    assert model.rollback("best") == "best"
    assert model.current == "best"
    actions = [entry["action"] for entry in model.history()]
    assert [action for action in actions if action not in ("created", "updated")] == [
        "promoted", "promoted", "rolledback", "rolledback",
    ]  # fmt: skip
    first = model.history()[0]["time"]
    assert [entry["action"] for entry in model.history(at=first)] == ["created"]
    assert model.as_of(first)["versions"] == []
    assert model.describe()["name"] == "iris"
    with pytest.raises(errors.Conflict):
        model.delete_version("best")


def test_versions_of_all_pages_are_in_order(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(manifest("iris"))
    names = [*map(str, range(1, MOST_AT_ONCE + 20)), "best"]

    async def fill() -> None:
        for name in names:
            spec = {"modelName": "iris", "version": name, "framework": "python", "image": "a:1"}
            await control.store.create(Resource("ModelVersion", Meta(f"iris.{name}"), spec), "somebody")

    control.run(fill())
    assert [item["version"] for item in plane.run(plane.calls.list_versions("iris"))] == names


def test_any_spec_is_restored(plane: mizzen.Plane) -> None:
    for track in ("latest", "manual"):
        plane.apply(manifest("iris", track=track))
    undone = plane.run(plane.calls.restore("Model", "iris"))
    assert (undone.number, undone.changed) == (1, True)
    assert plane.get("model", "iris")["spec"] == {"track": "latest"}
    with pytest.raises(errors.NotFound, match="no revision 9"):
        plane.run(plane.calls.restore("Model", "iris", 9))


def test_of_a_job_set_only_what_may_change_is_restored(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(manifest("iris"))
    job = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "one"}}
    spec = {"modelName": "iris", "command": ["true"]}
    for priority in (1, 2):
        plane.apply({**job, "spec": {**spec, "priority": priority}})
    plane.run(plane.calls.restore("TrainingJob", "one"))
    assert plane.get("trainingjob", "one")["spec"]["priority"] == 1
    control.run(control.store.delete(Ref("TrainingJob", "one"), "admin"))
    control.release(Ref("TrainingJob", "one"))
    plane.apply({**job, "spec": {**spec, "command": ["false"]}})
    with pytest.raises(errors.Invalid, match=r"spec\.command: cannot be changed; start another job"):
        plane.run(plane.calls.restore("TrainingJob", "one"))


def test_users_tokens_permissions_secrets_and_the_audit(plane: mizzen.Plane, control: Harness) -> None:
    plane.apply(manifest("iris"))
    plane.add_user("ann")
    assert [user["name"] for user in plane.users()] == ["ann"]
    token = plane.create_token("ann", expires_in="1h", note="test")
    model = plane.model("iris")
    with mizzen.connect(control.url, token) as ann:
        assert ann.whoami()["name"] == "ann"
        with pytest.raises(errors.Forbidden, match="ann may not write"):
            ann.apply(manifest("iris", track="latest"))
        assert model.permit("ann", "write") == ["write"]
        assert model.permit("ann", "predict", "write") == ["predict", "write"]
        ann.apply(manifest("iris", track="latest"))
        with pytest.warns(mizzen.MizzenWarning, match="model 'iris' has no alias 'prod' yet"):
            assert model.permit("ann", "predict", alias="prod") == ["predict"]
        assert model.forbid("ann", "predict", "write") == []
        with pytest.raises(errors.Forbidden):
            ann.apply(manifest("iris"))
    (issued,) = plane.tokens("ann")
    plane.revoke_token("ann", issued["id"])
    with mizzen.connect(control.url, token) as ann, pytest.raises(errors.Unauthenticated, match="revoked"):
        ann.whoami()
    plane.set_secret("db", {"PASSWORD": "hush"})
    assert [(secret["name"], secret["keys"]) for secret in plane.secrets()] == [("db", ["PASSWORD"])]
    plane.delete_secret("db")
    refused = list(plane.audit(allowed=False, actor="ann", limit=1))
    assert [entry["allowed"] for entry in refused] == [False]
    assert "hush" not in str(list(plane.audit()))
    plane.delete_user("ann")
    assert plane.users() == []
