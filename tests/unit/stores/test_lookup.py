"""What a spec names is looked up, each thing once and no more of it than is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from mizzen.errors import NotFound
from mizzen.kinds.rules import references
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.lookup import Lookup
from mizzen.stores.store import Reads


class Few:
    """Notes what is read."""

    def __init__(self, *there: Resource) -> None:
        self.there = {one.ref: one for one in there}
        self.read: list[Ref] = []
        self.asked: list[Ref] = []

    async def get(self, ref: Ref) -> Resource:
        self.read.append(ref)
        if ref not in self.there:
            raise NotFound(str(ref))
        return self.there[ref]

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        self.asked += refs
        return frozenset(self.asked) & self.there.keys()


def test_versions_that_aliases_name_are_asked_for_once_and_never_read() -> None:
    aliases = {f"a{number}": "1" for number in range(1000)} | {"b": "2"}
    model = Resource("Model", Meta("iris"), {"aliases": aliases, "aliasOf": "rose"})
    moment = Few(Resource("ModelVersion", Meta("iris.1")), Resource("Model", Meta("rose"), {"aliasOf": "lily"}))
    lookup = Lookup(cast(Any, None), cast(Any, None))
    there = asyncio.run(lookup.around(cast(Reads, moment), references.references_of(model), "default"))
    assert sorted(moment.asked) == [
        Ref("Model", "rose"), Ref("ModelVersion", "iris.1"), Ref("ModelVersion", "iris.2")
    ]  # fmt: skip
    assert moment.read == [Ref("Model", "rose")]
    found = [str(one) for one in references.findings(model, there)]
    assert any("there is no version 2 yet" in one for one in found)
    assert not any("there is no version 1 yet" in one for one in found)
    assert any("aliases cannot be chained" in one for one in found)
