"""What people send: read strictly, with every fault at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.access.policy import Actor
from mizzen.errors import BadRequest, Invalid
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.admission import decode
from mizzen.server.http.request_bodies import RESOURCE_LIMIT, parse
from tests.component.server.resources.test_routes import inference_model, model, model_version
from tests.support.examples import examples
from tests.support.golden import Golden
from tests.support.server.harness import HERE


def causes(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "Invalid"
    found = answer.json()["details"]["causes"]
    assert all(cause["message"] in answer.json()["message"] for cause in found)
    return {cause["field"]: cause["message"] for cause in found}


def test_all_faults_come_at_once(shared_admin: httpx2.Client, golden: Golden) -> None:
    sent = {
        "apiVersion": "mizzen.dev/v1",
        "kind": "Modle",
        "metdata": {},
        "metadata": {
            "name": "Iris!", "namespace": "other", "label": {}, "labels": {"a": 1, "b": "c"}, "annotations": ["x"],
        },
        "spec": {"replicas": "many", "targetVersion": "auto", "timeoutms": 1, "batching": {"batchsize": 2}},
    }  # fmt: skip
    found = causes(shared_admin.post(f"{HERE}/inferencemodels", json=sent))
    assert found[""].endswith("did you mean 'metadata'?")
    golden.check(found["apiVersion"])
    golden.check(found["kind"])
    golden.check(found["metadata"])
    assert "as the path says" in found["metadata.namespace"]
    assert "is not a valid name" in found["metadata.name"]
    golden.check(found["metadata.labels.a"])
    golden.check(found["metadata.annotations"])
    assert found["spec.modelName"] == "required"
    assert "reserved" in found["spec.targetVersion"]
    golden.check(found["spec.replicas"])
    golden.check(found["spec"])
    golden.check(found["spec.batching"])


def test_without_a_close_one_the_valid_ones_are_listed(shared_admin: httpx2.Client, golden: Golden) -> None:
    found = causes(shared_admin.post(f"{HERE}/models", json=model(spec={"colour": "red"})))
    golden.check(found["spec"])


def test_only_the_spelling_of_the_wire_is_taken(shared_admin: httpx2.Client) -> None:
    sent = inference_model(timeout_ms=5)
    found = causes(shared_admin.post(f"{HERE}/inferencemodels", json=sent))
    assert found == {"spec": "unknown field 'timeout_ms'; did you mean 'timeoutMs'?"}


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({}, {"apiVersion", "kind", "metadata"}),
        (model(name=""), {"metadata.name"}),
        (model(metadata={"name": None}), {"metadata.name"}),
        (model(metadata={"name": True}), {"metadata.name"}),
        (model() | {"metadata": []}, {"metadata"}),
        (model(spec=[1]), {"spec"}),
        (model(spec={"framework": "Tensor Flow"}), {"spec.framework"}),
        (model(metadata={"labels": {"a b": "c"}}), {"metadata.labels.a b"}),
        (model(metadata={"labels": {"a": "b,c"}}), {"metadata.labels.a"}),
        (model(metadata={"resourceVersion": 5}), {"metadata.resourceVersion"}),
    ],
)
def test_single_faults(shared_admin: httpx2.Client, sent: dict[str, Any], fields: set[str]) -> None:
    assert set(causes(shared_admin.post(f"{HERE}/models", json=sent))) == fields


def test_a_version_must_be_named_after_its_model(shared_admin: httpx2.Client) -> None:
    sent = model_version()
    sent["metadata"]["name"] = "iris-1"
    assert "iris.1" in causes(shared_admin.post(f"{HERE}/modelversions", json=sent))["metadata.name"]


def test_the_path_and_the_object_must_agree(admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model())
    assert set(causes(admin.put(f"{HERE}/models/iris", json=model("lily")))) == {"metadata.name"}
    bad = admin.post("/apis/mizzen.dev/v1alpha1/namespaces/No_Good/models", json=model())
    assert "metadata.namespace" in causes(bad)
    for path in ("models", "models/iris", "models?watch=true"):
        assert set(causes(admin.get(f"/apis/mizzen.dev/v1alpha1/namespaces/No_Good/{path}"))) == {"metadata.namespace"}


def test_what_the_server_keeps_may_be_sent_back_and_is_not_read(admin: httpx2.Client) -> None:
    kept = {
        "uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z", "managedFields": [],
        "ownerReferences": [{"kind": "Model", "name": "x", "uid": "y"}],
        "finalizers": ["mizzen.dev/mine", "example.com/mine"],
    }  # fmt: skip
    stored = admin.post(f"{HERE}/models", json=model(metadata=kept)).json()["metadata"]
    assert stored["uid"] != "mine"
    assert stored["generation"] == 1
    assert "ownerReferences" not in stored
    assert stored["finalizers"] == ["example.com/mine"], "ours come and go by themselves"


def test_yaml_is_read_like_json(admin: httpx2.Client) -> None:
    text = "apiVersion: mizzen.dev/v1alpha1\nkind: Model\nmetadata:\n  name: iris\n  annotations: {day: 2026-01-01}\n"
    answer = admin.post(f"{HERE}/models", content=text, headers={"content-type": "application/yaml; charset=utf-8"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["metadata"]["annotations"]["day"] == "2026-01-01"


def test_a_body_without_type_is_json(admin: httpx2.Client) -> None:
    assert admin.post("/model", content=b'{"name": "iris"}').status_code == 201


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
def test_other_types_are_415(shared_admin: httpx2.Client, media_type: str) -> None:
    answer = shared_admin.post(f"{HERE}/models", content=b"{}", headers={"content-type": media_type})
    assert (answer.status_code, answer.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content", [b"{", b"[]", b"null", b"7", b"\xff", b'{"a": NaN}', b"{} {}"])
def test_unreadable_json_is_400(shared_admin: httpx2.Client, content: bytes) -> None:
    answer = shared_admin.post(f"{HERE}/models", content=content)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


def test_a_body_too_large_is_413_with_and_without_a_declared_length(shared_admin: httpx2.Client) -> None:
    declared = shared_admin.post(f"{HERE}/models", content=b" " * (RESOURCE_LIMIT + 1))
    assert (declared.status_code, declared.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert declared.json()["details"]["hint"].startswith("send less at once")

    def endless() -> Iterator[bytes]:
        yield from itertools.repeat(b" " * 65536, RESOURCE_LIMIT // 65536 + 1)

    assert shared_admin.post(f"{HERE}/models", content=endless()).status_code == 413


@pytest.mark.parametrize(
    "text",
    ["a: &x [1]\nb: *x", "a: 1\na: 2", "1: a", "true: a", "a: .nan", "a: .inf", "a: !!binary aGk=", "a: !!set {b}",
     "a: [", "---\na: 1\n---\nb: 2", "a: !!python/object:os.system x", "? [a]\n: b", "a: \x01",
     "a: !!timestamp 2001-01-01", "a: !!bool maybe", "a: !!int x", "a: !!omap [b: 1]", "a: !mine b", "\t- a"],
)  # fmt: skip
def test_yaml_that_is_not_plain_data_is_unreadable(text: str) -> None:
    with pytest.raises(BadRequest):
        parse(text.encode(), as_yaml=True)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(100), deadline=None)
@given(value=json_data)
def test_yaml_says_what_was_dumped(value: Any) -> None:
    assert parse(yaml.safe_dump(value).encode(), as_yaml=True) == yaml.safe_load(yaml.safe_dump(value))


def test_yaml_scalars() -> None:
    text = "a: 1\nb: 1.5\nc: yes\nd: ~\ne: '1'\nf: 2026-01-01\ng: =\nh: |\n  x\n  y\ni: !!str 5\nj: [a, {b: c}]\nk:\n"
    assert parse(text.encode(), as_yaml=True) == {
        "a": 1, "b": 1.5, "c": True, "d": None, "e": "1", "f": "2026-01-01", "g": "=", "h": "x\ny\n", "i": "5",
        "j": ["a", {"b": "c"}], "k": None,
    }  # fmt: skip


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": Infinity}', '{"a": 1e999}', '"\\ud800"', "", "'"])
def test_json_that_is_not_plain_data_is_unreadable(text: str) -> None:
    with pytest.raises(BadRequest):
        parse(text.encode(), as_yaml=False)


@pytest.mark.parametrize("as_yaml", [True, False])
def test_depth_is_no_way_to_break_the_plane(as_yaml: bool) -> None:
    with pytest.raises(BadRequest):
        parse(b"[" * 100_000 + b"]" * 100_000, as_yaml=as_yaml)
    with pytest.raises(BadRequest):
        parse(b'{"a": ' * 101 + b"[]" + b"}" * 101, as_yaml=as_yaml)
    assert parse(b'{"a": ' * 99 + b"[]" + b"}" * 99, as_yaml=as_yaml)


scalars = st.none() | st.booleans() | st.integers(-9, 99) | st.floats(-1, 1) | st.text("aB-.1\n", max_size=3)
fields = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "status", "name", "labels", "modelName", "version", "artifacts", "path",
     "replicas", "batching"]
)  # fmt: skip
inner = scalars | st.lists(scalars, max_size=2) | st.dictionaries(fields, scalars, max_size=3)
objects = inner | st.lists(inner, max_size=2) | st.dictionaries(fields, inner, max_size=4)


@settings(max_examples=examples(50), deadline=None)
@given(kind=st.sampled_from(catalog.KINDS), body=st.dictionaries(fields, objects, max_size=5))
def test_whatever_is_sent_is_taken_or_refused_but_never_breaks_us(kind: catalog.Kind, body: dict[str, Any]) -> None:
    draft = None
    try:
        draft = decode.decode(kind, body, namespace="default")
    except Invalid as error:
        faults = error.faults
    else:
        faults = ()
        decode.build_new(kind, draft, "default", Actor("admin", admin=True))
    assert bool(faults) == (draft is None)


def test_suggestions_heed_the_ratio(golden: Golden) -> None:
    golden.check(suggestion("repliacs", ("replicas", "version")))
    golden.check(suggestion("REPLICAS", ("replicas",)))
    golden.check(suggestion("zzz", ("replicas", "version")))


def test_labels_and_annotations_have_a_measure() -> None:
    kind = catalog.BY_NAME["Model"]
    body = {"apiVersion": API_VERSION, "kind": "Model", "spec": {}}
    fits = {"name": "m", "labels": {f"l{n}": "" for n in range(64)}, "annotations": {"a": "x" * (256 * 1024 - 1)}}
    decode.decode(kind, body | {"metadata": fits}, namespace="default")
    over = {"name": "m", "labels": {f"l{n}": "" for n in range(65)}, "annotations": {"a": "x" * 256 * 1024}}
    with pytest.raises(Invalid) as caught:
        decode.decode(kind, body | {"metadata": over}, namespace="default")
    assert [fault.path for fault in caught.value.faults] == ["metadata.labels", "metadata.annotations"]
