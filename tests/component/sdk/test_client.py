"""The client against the real control API, and a small server in the place of the inference API."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mizzen
from mizzen import errors
from mizzen.kinds.schema.resource import Condition, Ref
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection.locate import PlaneAddress
from mizzen.sdk.operations import deploy
from tests.support.answers import Answers, answering
from tests.support.server.harness import TOKEN, Harness, serving

METADATA = {
    "name": "iris", "versions": ["1"], "platform": "sklearn",
    "inputs": [{"name": "input", "datatype": "FP64", "shape": [-1, 4]}], "outputs": [],
}  # fmt: skip
OUTPUT = {"name": "predict", "datatype": "INT64", "shape": [1], "data": [0]}


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


@pytest.fixture
def inference() -> Iterator[Answers]:
    with answering() as answers:
        answers.give["GET", "/v2/models/iris"] = (200, METADATA)
        yield answers


def on(control: str, inference: str | None, work: Callable[[AsyncPlane], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        async with AsyncPlane(PlaneAddress(control, inference, TOKEN)) as plane:
            return await work(plane)

    return asyncio.run(session())


class Controllers(threading.Thread):
    """Does what controllers and gateway would, once a server is asked for."""

    def __init__(self, control: Harness, inference: Answers, *conditions: Condition) -> None:
        super().__init__()
        self._control = control
        self._inference = inference
        self._conditions = conditions
        self.start()

    def run(self) -> None:
        while True:
            listing = self._control.run(self._control.store.list("InferenceModel"))
            if listing.items:
                break
        server = listing.items[0]
        version = server.spec["targetVersion"]
        if self._conditions:
            status = InferenceModelStatus(conditions=self._conditions, url=None, serving_version=None)
            self._control.run(self._control.store.update_status(server.with_status(status), "system"))
            return
        self._control.make_ready(server.meta.name, version)
        names = (server.spec["modelName"], server.meta.name)
        models = [{"name": name, "version": version, "ready": True} for name in names]
        self._inference.give["GET", "/v2/models"] = (200, {"models": models})


def test_deploy_registers_serves_waits_and_promotes(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")
    steps: list[str] = []
    controllers = Controllers(control, inference)
    done = on(control.url, inference.url, lambda plane: plane.deploy("iris", path, progress=steps.append))
    controllers.join()
    assert (done.model, done.version, done.server) == ("iris", "1", "iris-1")
    assert done.url == f"{inference.url}/v2/models/iris"
    assert steps == ["registered version 1", "starting", "ready", "current"]

    async def look(plane: AsyncPlane) -> Any:
        model = await plane.get("models", "iris")
        return model["status"]["current"]["version"], await plane.versions("iris"), await plane.history("iris")

    current, versions, history = on(control.url, inference.url, look)
    assert current == "1"
    assert [item["spec"]["version"] for item in versions] == ["1"]
    assert "promoted" in [entry["action"] for entry in history]


def test_deploy_without_waiting_returns_at_once_and_promotes_nothing(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")
    done = on(control.url, inference.url, lambda plane: plane.deploy("iris", path, wait=False))
    assert done.server == "iris-1"
    model = on(control.url, inference.url, lambda plane: plane.get("models", "iris"))
    assert "current" not in model["status"]


@pytest.mark.parametrize(
    "conditions",
    [
        (Condition(type="Ready", status="False", reason="LoadFailed", message="no weights"),),
        (Condition(type="Ready", status="False", reason="CrashLoop", message="no weights"),),
        (Condition(type="Accepted", status="False", reason="VersionNotFound", message="no weights"),),
    ],
)
def test_a_model_that_cannot_be_served_leaves_only_its_version(
    control: Harness, inference: Answers, conditions: tuple[Condition, ...]
) -> None:
    path = control.file("model.joblib")
    controllers = Controllers(control, inference, *conditions)
    with pytest.raises(errors.ModelFailed, match="no weights") as caught:
        on(control.url, inference.url, lambda plane: plane.deploy("iris", path))
    controllers.join()
    assert conditions[0].reason in caught.value.message
    assert "iris version 1" in caught.value.hint
    assert "mizzen serve iris 1" in caught.value.hint
    assert control.run(control.store.get(Ref("InferenceModel", "iris-1"))).deleting
    control.run(control.store.get(Ref("ModelVersion", "iris.1")))


def test_what_nobody_vouched_for_is_said_once_with_what_to_do(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")
    said = f"'model.joblib' is a pickle, and {deploy.UNTRUSTED}: an admin of the model has to vouch for it"
    controllers = Controllers(
        control, inference, Condition(type="Ready", status="False", reason="LoadFailed", message=said)
    )
    with pytest.raises(errors.ModelFailed) as caught:
        on(control.url, inference.url, lambda plane: plane.deploy("iris", path))
    controllers.join()
    assert caught.value.message == f"iris-1 cannot be served (LoadFailed): {said}"
    assert caught.value.hint.startswith("an admin of the model can run 'mizzen version trust iris 1'; ")


def test_a_first_version_that_is_refused_leaves_no_model(control: Harness, inference: Answers) -> None:
    async def versions(plane: AsyncPlane) -> list[str]:
        for _ in range(2):
            with pytest.raises(errors.NotFound, match=r"none\.joblib"):
                await plane.deploy("iris", control.folder / "none.joblib")
        return [item["metadata"]["name"] for item in (await plane.list("models"))["items"]]

    assert on(control.url, inference.url, versions) == []
    # A model that was there before stays, whatever is refused.
    control.client().post("/model", json={"name": "iris"})
    assert on(control.url, inference.url, versions) == ["iris"]


def test_a_model_that_takes_too_long_is_left_starting(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")
    with pytest.raises(errors.DeadlineExceeded, match="iris-1 was not ready") as caught:
        on(control.url, inference.url, lambda plane: plane.deploy("iris", path, timeout=0.01))
    assert "mizzen logs iris-1" in caught.value.hint
    assert not control.run(control.store.get(Ref("InferenceModel", "iris-1"))).deleting


def test_undeploy_waits_until_the_server_is_gone(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")

    async def work(plane: AsyncPlane) -> list[str]:
        await plane.deploy("iris", path, wait=False)
        ending = asyncio.create_task(plane.undeploy("iris", "v1"))
        ref = Ref("InferenceModel", "iris-1")
        while not (await asyncio.to_thread(control.run, control.store.get(ref))).deleting:
            assert not ending.done()
        await asyncio.to_thread(control.release, ref)
        return await ending

    assert on(control.url, inference.url, work) == ["iris-1"]
    with pytest.raises(errors.NotFound, match="model 'iris' is not served"):
        on(control.url, inference.url, lambda plane: plane.undeploy("iris"))
    with pytest.raises(errors.NotFound, match="nobody"):
        on(control.url, inference.url, lambda plane: plane.undeploy("nobody"))


def test_the_current_version_ends_only_if_no_other_could_answer(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")

    async def work(plane: AsyncPlane) -> None:
        for version in ("1", "2"):
            await plane.deploy("iris", path, wait=False)
            await asyncio.to_thread(control.make_ready, f"iris-{version}", version)
        await plane.promote("iris", "1")
        with pytest.raises(errors.Conflict, match="version 1 of iris is current") as refused:
            await plane.undeploy("iris", "1")
        assert refused.value.hint.startswith("'mizzen promote iris 2' makes version 2 current first")
        assert len((await plane.list("inferencemodels"))["items"]) == 2
        for version, force in (("1", True), ("2", False)):
            ending = asyncio.create_task(plane.undeploy("iris", version, force=force))
            ref = Ref("InferenceModel", f"iris-{version}")
            while not (await asyncio.to_thread(control.run, control.store.get(ref))).deleting:
                assert not ending.done()
            await asyncio.to_thread(control.release, ref)
            assert await ending == [f"iris-{version}"]

    on(control.url, inference.url, work)


def test_scale_waits_until_it_is_so_and_says_why_it_is_not(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")

    def report(**status: Any) -> None:
        server = control.run(control.store.get(Ref("InferenceModel", "iris-1")))
        told = InferenceModelStatus.of(server).model_copy(update=status)
        control.run(control.store.update_status(server.with_status(told), "system"))

    async def work(plane: AsyncPlane) -> None:
        with pytest.raises(errors.NotFound):
            await plane.scale("iris", 2)
        await plane.deploy("iris", path, wait=False)
        assert await plane.scale("iris", 2, wait=False) == "iris-1"
        assert (await plane.get("inferencemodels", "iris-1"))["spec"]["replicas"] == 2
        with pytest.raises(errors.DeadlineExceeded, match="0 of 2 replicas are ready after"):
            await plane.scale("iris-1", 2, timeout=0.01)
        scaling = asyncio.create_task(plane.scale("iris", 2))
        await asyncio.to_thread(report, replicas=2, ready_replicas=2)
        assert await scaling == "iris-1"
        with pytest.raises(errors.Invalid):
            await plane.scale("iris", -1)
        failed = Condition(type="Ready", status="False", reason="LoadFailed", message="no weights")
        await asyncio.to_thread(report, conditions=(failed,))
        with pytest.raises(errors.ModelFailed, match="2 of 3 replicas are ready: no weights"):
            await plane.scale("iris", 3)

    on(control.url, inference.url, work)


def test_limits_within_which_the_load_says_how_many(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")

    def report(generation: int, desired: int | None, ready: int) -> None:
        server = control.run(control.store.get(Ref("InferenceModel", "iris-1")))
        status = {"observed_generation": generation, "desired_replicas": desired, "replicas": ready}
        told = InferenceModelStatus.of(server).model_copy(update=status | {"ready_replicas": ready})
        control.run(control.store.update_status(server.with_status(told), "system"))

    async def work(plane: AsyncPlane) -> None:
        await plane.deploy("iris", path, wait=False)
        await asyncio.to_thread(report, 1, None, 1)
        limits = {"minReplicas": 0, "maxReplicas": 3}
        with pytest.raises(errors.DeadlineExceeded):  # what is told is of the time before
            await plane.autoscale("iris", limits, timeout=0.01)
        await asyncio.to_thread(report, 2, 2, 2)
        assert await plane.autoscale("iris", limits) == "iris-1"
        assert await plane.autoscale("iris", {"target": 8}, wait=False) == "iris-1"
        assert (await plane.get("inferencemodels", "iris-1"))["spec"]["autoScale"] == {**limits, "target": 8}
        with pytest.raises(errors.Invalid, match="is set by autoscaling"):
            await plane.scale("iris", 2)
        await plane.autoscale("iris", None, replicas=2)
        spec = (await plane.get("inferencemodels", "iris-1"))["spec"]
        assert (spec["replicas"], "autoScale" in spec) == (2, False)

    on(control.url, inference.url, work)


def test_watch_tells_what_is_there_and_what_comes(control: Harness, inference: Answers) -> None:
    async def work(plane: AsyncPlane) -> list[tuple[str, str]]:
        await plane.request("POST", "/model", body={"name": "one"})
        seen = []
        async for event in plane.watch("models"):
            seen.append((event["type"], event["object"]["metadata"]["name"]))
            if len(seen) == 1:
                await plane.request("POST", "/model", body={"name": "two"})
            elif len(seen) == 2:
                await plane.delete("models", "one")
            elif event["type"] == "DELETED":
                return seen
        raise AssertionError("a watch does not end")

    seen = on(control.url, inference.url, work)
    assert (seen[:2], seen[-1]) == ([("ADDED", "one"), ("ADDED", "two")], ("DELETED", "one"))


def test_watch_from_too_long_ago_has_expired(tmp_path: Path) -> None:
    with serving(tmp_path, keep_events=1) as control:

        async def work(plane: AsyncPlane) -> None:
            for name in ("one", "two", "three", "four"):
                await plane.request("POST", "/model", body={"name": name})
            async for _ in plane.watch("models", since="1"):
                pass

        with pytest.raises(errors.Expired):
            on(control.url, None, work)


def test_logs_come_as_text(control: Harness, inference: Answers) -> None:
    path = control.file("model.joblib")

    async def work(plane: AsyncPlane) -> str:
        await plane.deploy("iris", path, wait=False)
        return "".join([piece async for piece in plane.logs("iris-1", tail=2)])

    assert isinstance(on(control.url, inference.url, work), str)
    with pytest.raises(errors.NotFound):
        on(control.url, inference.url, lambda plane: _all(plane.logs("nobody-1")))


def test_who_follows_a_log_is_told_every_line_once_through_a_restart(inference: Answers) -> None:
    path = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/iris-1/log"
    answers: list[tuple[int, Any]] = [
        (200, b"a\nb\n\0place x:0=4\nc\n"),  # what c was told for is not known: it comes again
        (0, b""),
        (503, {"reason": "Unavailable", "message": "the plane is stopping"}),
        (200, b"c\nd\n\0place x:0=8\n"),
        (404, {"reason": "NotFound", "message": "gone"}),
    ]
    inference.give["GET", path] = lambda _: answers.pop(0)
    pieces = on(inference.url, None, lambda plane: _all(plane.logs("iris-1", tail=5, follow=True)))
    assert "".join(pieces) == "a\nb\nc\nd\n"
    asked = [each.path.partition("?")[2] for each in inference.asked]
    assert asked[0] == "tail=5&follow=true&places=true"
    assert all("after=x%3A0%3D4" in query for query in asked[1:4])
    assert "after=x%3A0%3D8" in asked[4]


def test_a_plane_that_does_not_come_back_ends_the_log(inference: Answers) -> None:
    path = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/iris-1/log"
    answers: list[tuple[int, Any]] = [(200, b"")]
    inference.give["GET", path] = lambda _: answers.pop() if answers else (0, b"")
    with pytest.raises(errors.Unavailable):
        on(inference.url, None, lambda plane: _all(plane.logs("iris-1", follow=True, patience=0.1)))
    inference.give["GET", path] = (0, b"")
    with pytest.raises(errors.Unavailable):  # it never was there: no use to wait
        on(inference.url, None, lambda plane: _all(plane.logs("iris-1", follow=True)))


def test_a_model_is_served_by_the_server_of_its_current_version(control: Harness) -> None:
    path = control.file("model.joblib")

    async def work(plane: AsyncPlane) -> list[str]:
        await plane.deploy("iris", path, wait=False)
        found = [await plane.server_of("iris"), await plane.server_of("iris-1")]
        await plane.create_model("rose")
        for name in ("rose", "nobody"):
            with pytest.raises(errors.NotFound, match=name):
                await plane.server_of(name)
        return found

    assert on(control.url, None, work) == ["iris-1", "iris-1"]


def test_what_is_used_is_told(control: Harness) -> None:
    async def work(plane: AsyncPlane) -> Any:
        return await plane.usage(), await plane.usage_history("iris", minutes=60), await plane.plane_metrics()

    usage, history, metrics = on(control.url, None, work)
    assert usage["models"] == []
    assert (history["seconds"], history["series"]) == (30, [])
    assert "# TYPE mizzen_store_bytes gauge" in metrics


async def _all(pieces: Any) -> list[Any]:
    return [piece async for piece in pieces]


def test_the_control_api_tells_where_the_inference_api_is(control: Harness) -> None:
    assert on(control.url, None, lambda plane: plane.inference_url("iris")) == "http://127.0.0.1:1/v2/models/iris"


def test_predict_asks_for_the_signature_once(control: Harness, inference: Answers) -> None:
    inference.give["POST", "/v2/models/iris/infer"] = (
        200, {"model_name": "iris", "model_version": "1", "id": "mine", "outputs": [OUTPUT]},
    )  # fmt: skip

    async def work(plane: AsyncPlane) -> Any:
        await plane.predict("iris", [[5, 3, 1, 0]])
        return await plane.predict("iris", [[5, 3, 1, 0]], outputs=["predict"], id="mine", timeout_ms=20)

    prediction = on(control.url, inference.url, work)
    assert (prediction.array.tolist(), prediction.model_version, prediction.id) == ([0], "1", "mine")
    assert [asked.method for asked in inference.asked] == ["GET", "POST", "POST"]
    assert inference.asked[-1].body == {
        "inputs": [{"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [5.0, 3.0, 1.0, 0.0]}],
        "outputs": [{"name": "predict"}], "id": "mine", "parameters": {"timeout": 20_000},
    }  # fmt: skip


def test_predict_learns_the_signature_of_a_new_version(control: Harness, inference: Answers) -> None:
    def infer(asked: Any) -> tuple[int, Any]:
        known = inference.give["GET", "/v2/models/iris"][1]["inputs"][0]["name"]
        fits = asked.body["inputs"][0]["name"] == known
        return (200, {"outputs": [OUTPUT]}) if fits else (400, {"error": "no such input"})

    inference.give["POST", "/v2/models/iris/infer"] = infer

    async def work(plane: AsyncPlane) -> None:
        await plane.predict("iris", [[5, 3, 1, 0]])
        renamed = [{"name": "rows", "datatype": "FP64", "shape": [-1, 4]}]
        inference.give["GET", "/v2/models/iris"] = (200, METADATA | {"inputs": renamed})
        await plane.predict("iris", [[5, 3, 1, 0]])
        inference.give["POST", "/v2/models/iris/infer"] = (400, {"error": "no such input"})
        with pytest.raises(errors.BadRequest, match="no such input"):
            await plane.predict("iris", [[5, 3, 1, 0]])

    on(control.url, inference.url, work)


def test_a_whole_v2_request_goes_as_it_is(control: Harness, inference: Answers) -> None:
    inference.give["POST", "/v2/models/iris/infer"] = (200, {"outputs": [OUTPUT]})
    body = {"inputs": [{"name": "any", "datatype": "INT64", "shape": [1], "data": [1]}], "parameters": {"a": 1}}
    answer = on(control.url, inference.url, lambda plane: plane.infer("iris", body, timeout_ms=5))
    assert answer == {"outputs": [OUTPUT]}
    (asked,) = inference.asked
    assert asked.body == body | {"parameters": {"a": 1, "timeout": 5000}}


def test_an_unknown_model_is_not_found(control: Harness, inference: Answers) -> None:
    inference.give["GET", "/v2/models/nobody"] = (404, {"error": "no model 'nobody'"})
    with pytest.raises(errors.NotFound, match="nobody"):
        on(control.url, inference.url, lambda plane: plane.predict("nobody", [[1]]))


def test_versions_and_aliases_are_asked_by_their_own_paths(control: Harness, inference: Answers) -> None:
    asked = {"iris:2": "2", "iris:v02": "2", "iris:best": "best", "iris@prod": "prod"}
    paths = {"iris": "iris"} | {name: f"iris/versions/{version}" for name, version in asked.items()}
    for path in paths.values():
        inference.give["GET", f"/v2/models/{path}"] = (
            200,
            {"inputs": [{"name": "x", "datatype": "FP64", "shape": [-1]}]},
        )
        inference.give["POST", f"/v2/models/{path}/infer"] = (200, {"outputs": [OUTPUT], "model_version": path})
    with mizzen.Plane(PlaneAddress(control.url, inference.url, TOKEN)) as plane:
        for name, path in paths.items():
            plane.predict(name, [1.0])
            assert inference.asked[-1].path == f"/v2/models/{path}/infer"
        model = plane.model("iris")
        for more, path in (({}, "iris"), ({"version": 2}, paths["iris:2"]), ({"alias": "prod"}, paths["iris@prod"])):
            model.predict([1.0], **more)
            assert inference.asked[-1].path == f"/v2/models/{path}/infer"
        with pytest.raises(errors.Invalid, match="not both"):
            model.predict([1.0], version=1, alias="prod")
        with pytest.raises(errors.Invalid, match="is not a valid reference to a version"):
            plane.predict("iris:1:2", [1.0])
