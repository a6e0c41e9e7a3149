"""Which URL asks for what."""

from __future__ import annotations

import pytest

from mizzen.gateway.request import url_paths


@pytest.mark.parametrize(
    ("raw", "what", "namespace", "model", "version"),
    [
        (b"/", "index", "default", "", None),
        (b"/v2", "server", "default", "", None),
        (b"/ns/a/v2", "server", "a", "", None),
        (b"/v2/models/m", "metadata", "default", "m", None),
        (b"/v2/models/m/ready", "model_ready", "default", "m", None),
        (b"/v2/models/ready", "metadata", "default", "ready", None),
        (b"/v2/models/ready/ready", "model_ready", "default", "ready", None),
        (b"/v2/models/m/versions/1", "metadata", "default", "m", "1"),
        (b"/ns/a/v2/models/m/versions/prod/infer", "infer", "a", "m", "prod"),
        (b"/%76%32/models/a%2Fb/infer", "infer", "default", "a/b", None),
        (b"/ns/a%2Fb/v2/models/m/infer", "infer", "a/b", "m", None),
        (b"/v2/models/stats", "stats", "default", "", None),
        (b"/v2/models/stats/stats", "model_stats", "default", "stats", None),
        (b"/v2/models/m/versions/1/config", "config", "default", "m", "1"),
        (b"/v2/repository/models/m/load", "load", "default", "m", None),
        (b"/v1/models/m", "v1_status", "default", "m", None),
        (b"/v1/models/m:predict", "predict", "default", "m", None),
        (b"/v1/models/m%3Apredict", "predict", "default", "m", None),
        (b"/v1/models/a:b:predict", "predict", "default", "a:b", None),
        (b"/ns/a/v1/models/m/versions/2:predict", "predict", "a", "m", "2"),
        (b"/v1/models/m/labels/prod:predict", "predict", "default", "m", "prod"),
        (b"/v1/models/m/labels/prod/metadata", "v1_metadata", "default", "m", "prod"),
    ],
)
def test_what_is_found(raw: bytes, what: str, namespace: str, model: str, version: str | None) -> None:
    found = url_paths.find(raw)
    assert found is not None
    assert (found.what, found.namespace, found.model, found.version) == (what, namespace, model, version)


@pytest.mark.parametrize(
    "raw",
    [b"//", b"/ns", b"/ns/a", b"/ns//v2", b"/ns/a/", b"/ns/a/healthz", b"/ns/a/metrics", b"/ns/a/openapi.json",
     b"/v2/", b"/v2/models/", b"/v2/models//ready", b"/v2/models/m/versions", b"/v2/models/m/versions//infer",
     b"/v2/models/m/other", b"/v2/models/%7Bmodel%7D/other", b"/V2", b"/v1/models/m/versions/1/predict",
     b"/v1/models/m/predict", b"/v1/models/m/labels", b"/v1/models/m:predict/", b"/v2/repository/models/m"],
)  # fmt: skip
def test_what_is_not(raw: bytes) -> None:
    assert url_paths.find(raw) is None


def test_a_label_is_told_from_a_version() -> None:
    for raw, label in ((b"/v1/models/m/labels/a", True), (b"/v1/models/m/versions/a", False), (b"/v1/models/m", False)):
        found = url_paths.find(raw)
        assert found is not None
        assert found.label is label


def test_a_name_may_look_like_a_place_for_one() -> None:
    found = url_paths.find(b"/v2/models/%7Bmodel%7D")
    assert found is not None
    assert found.model == "{model}"
