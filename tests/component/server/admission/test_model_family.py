"""What is read to describe a model."""

from __future__ import annotations

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.admission import model_family
from mizzen.stores.sqlite import codec
from tests.support.server.harness import Harness


def test_a_description_reads_no_more_versions_than_it_holds(
    plane: Harness, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin.post("/model", json={"name": "iris"}).status_code == 201

    async def register() -> None:
        for number in range(1, 4 * model_family.MOST_VERSIONS):
            spec = {"modelName": "iris", "version": str(number), "framework": "sklearn"}
            await plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}", plane.namespace), spec), "ann")

    plane.run(register())
    read: list[str] = []
    decode = codec.decode

    def noted(body: bytes) -> Resource:
        resource = decode(body)
        read.append(resource.kind)
        return resource

    monkeypatch.setattr(codec, "decode", noted)
    found = admin.get("/model/iris").json()
    monkeypatch.undo()
    assert found["versionCount"] == 4 * model_family.MOST_VERSIONS - 1
    assert len(found["versions"]) == model_family.MOST_VERSIONS
    assert read.count("ModelVersion") == model_family.MOST_VERSIONS
