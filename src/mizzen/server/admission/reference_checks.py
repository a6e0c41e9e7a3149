"""What an object says about other objects, held against what there is, before it is written."""

from __future__ import annotations

from mizzen.errors import Invalid
from mizzen.kinds.rules import references
from mizzen.kinds.schema.findings import Findings
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.http.context import Plane
from mizzen.stores.lookup import Lookup


async def examine(plane: Plane, resource: Resource, assumed: frozenset[tuple[str, str]] = frozenset()) -> Findings:
    """Of a spec that is valid in itself. `assumed`: (kind, name) of what counts as there, for who tries a batch."""
    named, namespace = references.named(resource), resource.meta.namespace
    async with plane.store.snapshot() as moment:
        there = await Lookup(plane.identities, plane.secrets).around(
            moment, named, namespace, {Ref(kind, name, namespace) for kind, name in assumed}
        )
    return Findings.of(references.findings(resource, there))


def refuse(resource: Resource, findings: Findings) -> None:
    if findings.faults:
        raise Invalid.of(str(resource.ref), findings.faults)
