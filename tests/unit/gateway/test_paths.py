"""Which URL asks for what."""

from __future__ import annotations

import pytest

from mizzen.gateway import paths


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
    ],
)
def test_what_is_found(raw: bytes, what: str, namespace: str, model: str, version: str | None) -> None:
    found = paths.find(raw)
    assert found is not None
    assert (found.what, found.namespace, found.model, found.version) == (what, namespace, model, version)


@pytest.mark.parametrize(
    "raw",
    [b"//", b"/ns", b"/ns/a", b"/ns//v2", b"/ns/a/", b"/ns/a/healthz", b"/ns/a/metrics", b"/ns/a/openapi.json",
     b"/v2/", b"/v2/models/", b"/v2/models//ready", b"/v2/models/m/versions", b"/v2/models/m/versions//infer",
     b"/v2/models/m/other", b"/v2/models/%7Bmodel%7D/other", b"/V2"],
)  # fmt: skip
def test_what_is_not(raw: bytes) -> None:
    assert paths.find(raw) is None


def test_a_name_may_look_like_a_place_for_one() -> None:
    found = paths.find(b"/v2/models/%7Bmodel%7D")
    assert found is not None
    assert found.model == "{model}"
