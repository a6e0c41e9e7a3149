"""lightkube's other client does the same without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from lightkube import ApiError
from lightkube.generic_resource import async_load_in_cluster_generic_resources, get_generic_resource
from lightkube.resources.core_v1 import Namespace
from lightkube.types import CascadeType, PatchType

from tests.conformance.programs.with_lightkube.session import InferenceModel, Model, async_client, model, server


async def objects_are_written_and_read(namespace: str) -> None:
    async with async_client(namespace) as ours:
        await async_load_in_cluster_generic_resources(ours)
        assert get_generic_resource("mizzen.dev/v1alpha1", "MLGraph") is not None
        await asyncio.gather(*(ours.create(model(f"m-{number}", {"set": "1"})) for number in range(5)))
        listing = ours.list(Model, chunk_size=2, labels={"set": "1"})
        assert [one.metadata.name async for one in listing] == [f"m-{number}" for number in range(5)]
        assert int(listing.resourceVersion) > 0
        patched = await ours.patch(Model, "m-0", {"spec": {"framework": "onnx"}}, patch_type=PatchType.MERGE)
        assert patched["spec"] == {"framework": "onnx"}
        try:
            await ours.apply(model("m-0"), field_manager="another")
        except ApiError as error:
            assert (error.status.code, error.status.details.causes[0].field) == (409, ".spec.framework")
        else:
            raise AssertionError("no conflict")
        assert (await ours.apply(model("m-0"), field_manager="another", force=True))["spec"]["framework"] == "sklearn"
        await ours.deletecollection(Model)
        assert [one async for one in ours.list(Model)] == []
        assert namespace in [one.metadata.name async for one in ours.list(Namespace)]


async def changes_are_told_while_they_are_made(namespace: str) -> None:
    async with async_client(namespace) as ours:
        await ours.create(model("iris"))
        await ours.wait(Model, "iris", for_conditions=["Accepted"])
        seen = ours.watch(Model)
        kind, one = await anext(seen)
        assert (kind, one.metadata.name) == ("ADDED", "iris")
        _, kinds = await asyncio.gather(ours.delete(Model, "iris"), _until_deleted(seen))
        assert kinds[-1] == "DELETED"


async def a_server_is_scaled_and_ended(namespace: str) -> None:
    async with async_client(namespace) as ours:
        await ours.create(server("one"))
        scale = await ours.patch(InferenceModel.Scale, "one", {"spec": {"replicas": 2}}, patch_type=PatchType.MERGE)
        assert scale.spec.replicas == 2
        seen = ours.watch(InferenceModel, fields={"metadata.name": "one"})
        await anext(seen)
        await ours.delete(InferenceModel, "one", cascade=CascadeType.FOREGROUND)
        assert "MODIFIED" in await _until_deleted(seen), "it is ended first"


async def _until_deleted(seen: AsyncGenerator[tuple[str, Any], None]) -> list[str]:
    kinds: list[str] = []
    while not kinds or kinds[-1] != "DELETED":
        kinds.append((await anext(seen))[0])
    await seen.aclose()
    return kinds
