"""describe: one object for people to read, with what became of it and who changed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors
from mizzen.cli import object_arguments, output
from mizzen.cli.object_arguments import DescribedArgument, NameArgument
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.kinds.schema.kind_names import Called
    from mizzen.sdk.client import AsyncPlane

_LAST: Final = 5
_OWN: Final = frozenset({"conditions", "observedGeneration"})


def describe(
    kind: DescribedArgument,
    name: NameArgument = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show one object: what was asked for, what became of it and why, and its last changes.

    \b
    Example:
      mizzen describe iris
      mizzen describe inferencemodel iris-1
      mizzen describe mlgraph/experiment
    """
    found, named = object_arguments.some_object(kind, name)
    seen = call(data_dir, lambda plane: look(plane, found, named), namespace)
    if form is not Format.TABLE:
        output.data({**seen.resource, "changes": seen.changes}, form)
        return
    for line in lines(seen.resource, seen.changes, seen.model):
        output.say(line)


@dataclass(frozen=True, slots=True)
class Seen:
    resource: dict[str, Any]
    changes: list[dict[str, Any]]
    """The last few."""
    model: dict[str, Any] | None
    """As the /model API tells it; of other kinds, None."""


async def look(plane: AsyncPlane, kind: Called, name: str) -> Seen:
    """NotFound."""
    resource = await plane.get(kind.plural, name)
    try:
        changes = [] if kind.virtual else await plane.revisions(kind.name, name)
    except errors.NotFound:  # kinds that controllers write have no history
        changes = []
    model = await plane.describe_model(name) if kind.name == "Model" else None
    return Seen(resource, changes[-_LAST:], model)


def lines(
    resource: Mapping[str, Any], changes: list[dict[str, Any]], model: Mapping[str, Any] | None = None
) -> Iterator[str]:
    metadata, status = resource["metadata"], resource.get("status") or {}
    yield f"{resource['kind']}/{metadata['name']} in namespace {metadata.get('namespace', 'default')}"
    yield f"  created   {metadata.get('creationTimestamp', '')} ({output.age(metadata.get('creationTimestamp'))} ago)"
    if metadata.get("deletionTimestamp"):
        yield f"  deleting  since {metadata['deletionTimestamp']}"
    for title in ("labels", "annotations"):
        if metadata.get(title):
            yield f"  {title}"
            yield from (f"    {key}: {value}" for key, value in sorted(metadata[title].items()))
    yield from _block("Spec", resource.get("spec") or {})
    nodes = list(_nodes(status.get("nodes")))
    own = {*_OWN, "nodes"} if nodes else _OWN
    yield from _block("Status", {key: _short(value) for key, value in status.items() if key not in own})
    yield from nodes
    yield from _members(model or {})
    yield from _conditions(status.get("conditions") or ())
    if changes:
        yield "Last changes"
        for change in changes:
            yield f"  {change['number']:>4}  {change['time']}  {change['action']} by {change['actor']}"


def _block(title: str, data: Mapping[str, Any]) -> Iterator[str]:
    import yaml

    if data:
        yield title
        text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=100)
        yield from (f"  {line}" for line in text.splitlines())


def _short(value: Any) -> Any:
    """Without a whole spec within: that of a graph is shown above, and an earlier one in its history."""
    return {key: item for key, item in value.items() if key != "spec"} if isinstance(value, Mapping) else value


def _nodes(nodes: Any) -> Iterator[str]:
    """Of a graph: which can be called, and why others cannot."""
    known = [node for node in nodes or () if isinstance(node, Mapping) and "ready" in node]
    if known:
        yield f"Nodes: {sum(bool(node['ready']) for node in known)} of {len(known)} ready"
    for node in known:
        spoken = f" ({node['protocol']})" if node.get("protocol") else ""
        why = "" if node["ready"] else f": {node.get('reason') or 'not known yet'}"
        yield f"  {'✓' if node['ready'] else '✗'} {node.get('name', '')}{spoken}{why}"


def _members(model: Mapping[str, Any]) -> Iterator[str]:
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


def _conditions(conditions: Any) -> Iterator[str]:
    if conditions:
        yield "Conditions"
    for condition in conditions:
        since = output.age(condition.get("lastTransitionTime"))
        why = ", ".join(filter(None, (condition.get("reason"), since and f"for {since}")))
        yield f"  {condition['type']}: {condition['status']} ({why})"
        if condition.get("message"):
            yield f"    {condition['message']}"
