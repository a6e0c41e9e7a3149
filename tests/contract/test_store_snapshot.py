"""What every store promises about reads of one moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.stores.store import Store
from tests.contract.stores import model, on_every_store


@on_every_store
async def test_a_snapshot_is_of_one_moment(store: Store) -> None:
    await store.create(model("a", n=1), "ann")
    await store.create(model("b", n=1), "ann")
    async with store.snapshot() as moment:
        await store.update(model("a", n=2), "ann")
        await store.delete(Ref("Model", "b"), "ann")
        await store.create(replace(model("c"), kind="Workload"), "ann")
        models, workloads = await moment.list("Model"), await moment.list("Workload")
        assert [(item.meta.name, item.spec) for item in models.items] == [("a", {"n": 1}), ("b", {"n": 1})]
        assert workloads.items == ()
        assert models.resource_version == workloads.resource_version == "2"
        assert (await moment.get(Ref("Model", "a"))).spec == {"n": 1}
        with pytest.raises(NotFound):
            await moment.get(Ref("Workload", "c"))
    async with store.snapshot() as later:
        assert [item.meta.name for item in (await later.list("Model")).items] == ["a"]
