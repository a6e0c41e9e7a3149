"""What tests of versions share: faults of an answer, a model to add to, and somebody who may write it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2
from starlette.applications import Starlette

from mizzen.blobs.limits import IngestLimits
from tests.support.server.harness import Harness

SMALL = IngestLimits(upload_bytes=200_000, unpacked_bytes=300_000, files=50)


def causes(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "Invalid"
    return {cause["field"]: cause["message"] for cause in answer.json()["details"]["causes"]}


def limited(app: Starlette) -> None:
    app.state.context = replace(app.state.context, limits=SMALL)


def writer(plane: Harness, name: str = "ann", *verbs: str) -> httpx2.Client:
    """A client of somebody who may write the model iris, and is no admin."""
    token = plane.user(name)
    plane.permit(f"{name}-writes", *(verbs or ("write",)), subjects=[name], model="iris")
    return plane.client(token)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def listed(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return [{"path": path, "digest": digest_of(data), "size": len(data)} for path, data in files.items()]


def contents(plane: Harness, version: Mapping[str, Any]) -> dict[str, bytes]:
    found = {}
    for artifact in version["artifacts"]:
        digits = artifact["digest"].removeprefix("sha256:")
        found[artifact["path"]] = (plane.folder / "blobs" / "sha256" / digits[:2] / digits).read_bytes()
    return found
