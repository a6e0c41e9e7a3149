"""Checks of an object's references to other objects, before it is written."""

from __future__ import annotations

from mizzen.errors import Invalid
from mizzen.kinds.rules import references
from mizzen.kinds.schema.findings import Findings
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.http.context import ServerContext
from mizzen.stores.lookup import Lookup


async def examine(
    context: ServerContext, resource: Resource, assumed: frozenset[tuple[str, str]] = frozenset()
) -> Findings:
    """For a spec that is valid in itself. `assumed`: (kind, name) of objects that count as existing, for a dry run."""
    named, namespace = references.references_of(resource), resource.meta.namespace
    async with context.store.snapshot() as moment:
        there = await Lookup(context.identities, context.secrets).around(
            moment, named, namespace, {Ref(kind, name, namespace) for kind, name in assumed}
        )
    return Findings.of(references.findings(resource, there))


def refuse(resource: Resource, findings: Findings) -> None:
    if findings.faults:
        raise Invalid.of(str(resource.ref), findings.faults)
