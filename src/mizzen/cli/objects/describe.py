"""`mizzen describe`: one object for people to read, with its status and its latest changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.cli import object_arguments, output
from mizzen.cli.object_arguments import ModelOrKindArgument, NameArgument
from mizzen.cli.session import Session

if TYPE_CHECKING:
    from mizzen.kinds.schema.names_and_columns import KindNames
    from mizzen.sdk.client import AsyncPlane

_MAX_CHANGES: Final = 5
_SHOWN_SEPARATELY: Final = frozenset({"conditions", "observedGeneration"})


def describe(kind: ModelOrKindArgument, name: NameArgument = None, *, session: Session) -> None:
    """Show one object: spec, status, conditions, latest changes.

    \b
    Example:
      mizzen describe iris
      mizzen describe inferencemodel iris-1
      mizzen describe mlgraph/experiment
    """
    found, named = object_arguments.parse_object_or_model(kind, name)
    details = session.call(lambda plane: fetch_details(plane, found, named))
    lines = describe_lines(details.resource, details.changes, details.model)
    session.write_lines({**details.resource, "changes": details.changes}, lines)


@dataclass(frozen=True, slots=True)
class ObjectDetails:
    resource: dict[str, Any]
    changes: list[dict[str, Any]]
    """The latest few."""
    model: dict[str, Any] | None
    """The model as the /model API returns it; None for other kinds."""


async def fetch_details(plane: AsyncPlane, kind: KindNames, name: str) -> ObjectDetails:
    """Fetch an object and what is known about it. Raises NotFound."""
    resource = await plane.get(kind.plural, name)
    try:
        changes = [] if kind.virtual else await plane.revisions(kind.name, name)
    except errors.NotFound:  # kinds that controllers write have no history
        changes = []
    model = await plane.describe_model(name) if kind.name == "Model" else None
    return ObjectDetails(resource, changes[-_MAX_CHANGES:], model)


def describe_lines(
    resource: Mapping[str, Any], changes: list[dict[str, Any]], model: Mapping[str, Any] | None = None
) -> Iterator[str]:
    metadata, status = resource["metadata"], resource.get("status") or {}
    yield f"{resource['kind']}/{metadata['name']} in namespace {metadata.get('namespace', 'default')}"
    created = metadata.get("creationTimestamp", "")
    yield f"  created   {created} ({output.format_age(created)} ago)"
    if metadata.get("deletionTimestamp"):
        yield f"  deleting  since {metadata['deletionTimestamp']}"
    for title in ("labels", "annotations"):
        if metadata.get(title):
            yield f"  {title}"
            yield from (f"    {key}: {value}" for key, value in sorted(metadata[title].items()))
    yield from _yaml_block("Spec", resource.get("spec") or {})
    nodes = list(_node_lines(status.get("nodes")))
    own = {*_SHOWN_SEPARATELY, "nodes"} if nodes else _SHOWN_SEPARATELY
    yield from _yaml_block("Status", {key: _without_spec(value) for key, value in status.items() if key not in own})
    yield from nodes
    yield from _member_lines(model or {})
    yield from _condition_lines(status.get("conditions") or ())
    if changes:
        yield "Last changes"
        for change in changes:
            yield f"  {change['number']:>4}  {change['time']}  {change['action']} by {change['actor']}"


def _yaml_block(title: str, data: Mapping[str, Any]) -> Iterator[str]:
    import yaml

    if data:
        yield title
        text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=100)
        yield from (f"  {line}" for line in text.splitlines())


def _without_spec(value: Any) -> Any:
    """A status value without a nested spec: a graph's spec is shown above, and earlier specs in its history."""
    return {key: item for key, item in value.items() if key != "spec"} if isinstance(value, Mapping) else value


def _node_lines(nodes: Any) -> Iterator[str]:
    """The nodes of a graph: which can be called, and why others cannot."""
    known = [node for node in nodes or () if isinstance(node, Mapping) and "ready" in node]
    if known:
        yield f"Nodes: {sum(bool(node['ready']) for node in known)} of {len(known)} ready"
    for node in known:
        protocol = f" ({node['protocol']})" if node.get("protocol") else ""
        why = "" if node["ready"] else f": {node.get('reason') or 'not known yet'}"
        yield f"  {'✓' if node['ready'] else '✗'} {node.get('name', '')}{protocol}{why}"


def _member_lines(model: Mapping[str, Any]) -> Iterator[str]:
    """The versions and servers of a model."""
    versions, servers = model.get("versions") or (), model.get("servers") or ()
    if versions:
        count = model.get("versionCount", len(versions))
        yield "Versions" if count == len(versions) else f"Versions: the last of {count}"
    for item in versions:
        current = ", current" if item.get("current") else ""
        yield f"  {item['version']}: {item.get('framework')}, by {item.get('createdBy') or '-'}{current}"
    if servers:
        yield "Servers"
    for item in servers:
        state = "ready" if item["ready"] else "not ready"
        yield f"  {item['id']}: version {item['version']}, {state}, {item['url']}"


def _condition_lines(conditions: Any) -> Iterator[str]:
    if conditions:
        yield "Conditions"
    for condition in conditions:
        since = output.format_age(condition.get("lastTransitionTime"))
        why = ", ".join(filter(None, (condition.get("reason"), since and f"for {since}")))
        yield f"  {condition['type']}: {condition['status']} ({why})"
        if condition.get("message"):
            yield f"    {condition['message']}"
