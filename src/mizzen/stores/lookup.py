"""Lookup of the objects, users and secrets that a spec names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mizzen.errors import NotFound
from mizzen.kinds.rules.references import ReferencedObjects, References
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.reconcile.controller import find
from mizzen.stores.records.protocol import Identities, Secrets
from mizzen.stores.store import ObjectReader


@dataclass(frozen=True, slots=True)
class Lookup:
    identities: Identities
    secrets: Secrets

    async def around(
        self, reads: ObjectReader, named: References, namespace: str, assumed: Collection[Ref] = ()
    ) -> ReferencedObjects:
        """Returns the existing ones of the names used in this namespace. `assumed` objects count as existing."""
        objects: dict[Ref, Resource | None] = dict.fromkeys(ref for ref in named.objects if ref in assumed)
        for ref in await reads.among(named.objects):
            # Versions may be many and large; only their existence matters here.
            objects[ref] = None if ref.kind == "ModelVersion" else await find(reads, ref)
        people = {principal.name for principal in await self.identities.principals()} if named.users else set[str]()
        keys = [(name, await self._keys(namespace, name)) for name in sorted(named.secrets)]
        return ReferencedObjects(objects, frozenset(people), {name: held for name, held in keys if held is not None})

    async def _keys(self, namespace: str, secret: str) -> tuple[str, ...] | None:
        try:
            return (await self.secrets.get(namespace, secret)).keys
        except NotFound:
            return None
