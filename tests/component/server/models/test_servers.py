"""The /model API: servers."""

from __future__ import annotations

import itertools
import threading

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.kinds.schema.resource import NAME, VERSION, Meta, Resource
from mizzen.server.models.servers import server_names
from tests.component.server.admission.test_decode import causes
from tests.component.server.cascades import deletions
from tests.support.examples import examples
from tests.support.golden import Golden
from tests.support.server.harness import HERE, INFERENCE, Harness, deploy


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model with version 1."""
    admin.post("/model", json={"name": "iris"})
    assert admin.post("/model/iris/version", json={"path": plane.file("m.pkl")}).status_code == 201
    return admin


@pytest.mark.own_plane
def test_serve_list_describe_end(plane: Harness, iris: httpx2.Client) -> None:
    answer = iris.post("/model/iris/serve/v1", json={"replicas": 2, "batching": {"batchSize": 8}})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/model/iris/serve/1/iris-1"
    server = answer.json()
    assert (server["id"], server["version"], server["replicas"], server["ready"]) == ("iris-1", "1", 2, False)
    assert server["url"] == f"{INFERENCE}/v2/models/iris-1"
    stored = iris.get(f"{HERE}/inferencemodels/iris-1").json()
    assert stored["spec"] == {
        "modelName": "iris", "targetVersion": "1", "replicas": 2, "batching": {"batchSize": 8},
        "deployToLayer": "cloud", "frameworkType": "sklearn",
    }  # fmt: skip
    assert stored["metadata"]["finalizers"] == ["mizzen.dev/children"]

    plane.make_ready("iris-1", "1")
    found = iris.get("/model/iris/serve/1/iris-1").json()
    assert (found["ready"], found["readyReplicas"]) == (True, 1)
    assert iris.get("/model/iris/serve/1").json()["items"] == [found]

    ended = iris.delete("/model/iris/serve/1/iris-1")
    assert ended.status_code == 202
    assert (ended.json()["deleting"], ended.json()["ready"]) == (True, False)
    assert iris.delete("/model/iris/serve/1/iris-1").status_code == 202
    plane.release(plane.ref("InferenceModel", "iris-1"))
    assert iris.get("/model/iris/serve/1/iris-1").status_code == 404


def test_null_is_as_good_as_absent_for_what_the_path_and_the_version_say(iris: httpx2.Client) -> None:
    absent = dict.fromkeys(("modelName", "targetVersion", "deployToLayer", "frameworkType"))
    answer = iris.post("/model/iris/serve/1", json=absent)
    assert answer.status_code == 201, answer.text
    spec = iris.get(f"{HERE}/inferencemodels/{answer.json()['id']}").json()["spec"]
    assert {name: spec[name] for name in absent} == {
        "modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn",
    }  # fmt: skip


def test_the_url_of_a_server_tells_its_namespace(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model?namespace=team", json={"name": "iris"})
    iris.post("/model/iris/version?namespace=team", json={"path": plane.file("m.pkl")})
    answer = iris.post("/model/iris/serve/1?namespace=team")
    assert answer.json()["url"] == f"{INFERENCE}/ns/team/v2/models/iris-1"
    assert iris.get(answer.headers["location"]).json() == answer.json()


def test_each_call_makes_one_more_server(iris: httpx2.Client) -> None:
    names = [iris.post("/model/iris/serve/1").json()["id"] for _ in range(3)]
    assert names == ["iris-1", "iris-1-2", "iris-1-3"]
    assert [item["id"] for item in iris.get("/model/iris/serve/1").json()["items"]] == names


def test_no_server_is_given_the_name_of_a_model(iris: httpx2.Client) -> None:
    iris.post("/model", json={"name": "iris-1"})
    assert iris.post("/model/iris/serve/1").json()["id"] == "iris-1-2"


def test_a_server_ended_can_be_waited_for(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1")
    answers: list[httpx2.Response] = []
    other = plane.client()
    waiting = threading.Thread(target=lambda: answers.append(other.delete("/model/iris/serve/1/iris-1?wait=true")))
    waiting.start()
    while not deletions(plane):
        pass
    assert iris.get("/model/iris/serve/1/iris-1").json()["deleting"]
    assert not answers
    plane.release(plane.ref("InferenceModel", "iris-1"))
    waiting.join(60)
    assert deletions(plane) == [("/model/iris/serve/1/iris-1", 202)], "on record when it was marked, and once"
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"id": "iris-1", "deleted": True})]


def test_faults_of_a_server_have_the_paths_of_the_body(iris: httpx2.Client, golden: Golden) -> None:
    found = causes(iris.post("/model/iris/serve/1", json={"timeoutMs": -1, "replcas": 2, "batching": {"batchSize": 0}}))
    assert set(found) == {"timeoutMs", "", "batching.batchSize"}
    golden.check(found[""])
    assert set(causes(iris.post("/model/iris/serve/1", json={"targetVersion": "2"}))) == {"targetVersion"}
    assert iris.get("/model/iris/serve/1").json()["items"] == []


def test_a_server_says_where_it_runs_and_what_loads_it(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1", json={"deployToLayer": "edge", "frameworkType": "python"})
    stored = iris.get(f"{HERE}/inferencemodels/iris-1").json()["spec"]
    assert (stored["deployToLayer"], stored["frameworkType"]) == ("edge", "python")
    found = causes(iris.post("/model/iris/serve/1", json={"deployToLayer": "egde"}))
    assert "did you mean 'edge'?" in found["deployToLayer"]


def test_what_is_odd_about_a_server_is_told(iris: httpx2.Client) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]
    answer = iris.post("/model/iris/serve/1", json={"deployToLayer": "edge", "replicas": 2, "env": env})
    assert answer.status_code == 201
    told = " ".join(answer.headers.get_list("warning"))
    assert "spec.replicas: the edge runs one process, not 2" in told
    assert "no secret 'hub'" in told


def test_no_server_is_given_the_name_of_a_graph(plane: Harness, iris: httpx2.Client) -> None:
    plane.run(plane.store.create(Resource("MLGraph", Meta("iris-1", plane.namespace), {}), "ann"))
    assert iris.post("/model/iris/serve/1").json()["id"] == "iris-1-2"


def test_servers_of_what_is_not_there(plane: Harness, iris: httpx2.Client) -> None:
    deploy(plane, iris, "lily")
    for answer in (
        iris.post("/model/none/serve/1"),
        iris.post("/model/iris/serve/2"),
        iris.post("/model/iris/serve/latest"),
        iris.get("/model/iris/serve/2"),
        iris.get("/model/none/serve/1"),
        iris.get("/model/iris/serve/1/none"),
        iris.get("/model/iris/serve/1/lily-1"),
        iris.delete("/model/iris/serve/1/lily-1"),
    ):
        assert answer.status_code == 404, answer.text
    assert iris.get("/model/lily/serve/1/lily-1").json()["deleting"] is False


@settings(max_examples=examples(50), deadline=None)
@given(model=st.from_regex(NAME, fullmatch=True), version=st.from_regex(VERSION, fullmatch=True))
def test_names_of_servers_are_names_and_differ(model: str, version: str) -> None:
    names = list(itertools.islice(server_names(model, version), 12))
    assert all(NAME.fullmatch(name) for name in names)
    assert len(set(names)) == 12


def test_long_names_of_different_versions_differ() -> None:
    one, two = (next(server_names("m" * 60, version)) for version in ("release-1", "release-2"))
    assert one != two
    assert next(server_names("iris", "1.0.2")) == "iris-1-0-2"


def test_a_server_may_have_the_name_of_a_model(plane: Harness, iris: httpx2.Client) -> None:
    """Of its own one, as the seed `facialexpression` has. Of another one only when that was there first: whoever calls
    a new model must not be answered by a server that waited for its name."""
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    manifest = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "spec": spec}
    assert iris.post("/model", json={"name": "rose"}).status_code == 201
    for name in ("iris", "rose"):
        answer = iris.post(f"{HERE}/inferencemodels", json=manifest | {"metadata": {"name": name}})
        assert answer.status_code == 201, answer.text
    plane.make_ready("iris", "1")
    assert iris.post("/model/iris/current", json={"version": 1}).status_code == 200
    assert [server["id"] for server in iris.get("/model/iris").json()["servers"]] == ["iris", "rose"]
    assert iris.post("/model/iris/serve/1").json()["id"] == "iris-1"
    assert iris.post("/model", json={"name": "iris-1"}).status_code == 409


def test_a_server_and_a_graph_never_have_one_name(plane: Harness, iris: httpx2.Client) -> None:
    plane.run(plane.store.create(Resource("MLGraph", Meta("both", plane.namespace), {}), "ann"))
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    manifest = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "spec": spec}
    answer = iris.post(f"{HERE}/inferencemodels", json=manifest | {"metadata": {"name": "both"}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert f"'both' is taken: {plane.ref('MLGraph', 'both')} answers to it" in answer.json()["message"]
    iris.post("/model/iris/serve/1")
    graph = {"dag": [{"name": "a", "implementation": {"kfservice": "iris"}}]}
    manifest = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": "iris-1"}, "spec": graph}
    answer = iris.post(f"{HERE}/mlgraphs", json=manifest)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict"), answer.text
