"""A builder for the nodes of an MLGraph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from mizzen.errors import Fault
from mizzen.importers.dns_labels import free, join, label
from mizzen.importers.notes import CannotImport, ImportNotes

MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True)
class MessageSource:
    """The origin of messages: nodes, or the request if there are none."""

    nodes: tuple[str, ...] = ()
    shape: Literal["one", "several", "either"] = "one"
    """Whether one of the nodes sends a message, or several do; `either` if it depends on the route of a request."""

    @classmethod
    def any_of(cls, sources: Sequence[MessageSource]) -> MessageSource:
        """A source of which one member sends."""
        shapes = {source.shape for source in sources}
        nodes = dict.fromkeys(node for source in sources for node in source.nodes)
        return cls(tuple(nodes), shapes.pop() if len(shapes) == 1 else "either")

    @classmethod
    def all_of(cls, sources: Sequence[MessageSource]) -> MessageSource:
        """A source of which every member sends."""
        return cls(tuple(dict.fromkeys(node for source in sources for node in source.nodes)), "several")


REQUEST: Final = MessageSource()


class DagBuilder:
    """`containers` are those of `spec.custom`: a node with such a name and no implementation would run it."""

    def __init__(self, notes: ImportNotes, *, containers: Collection[str] = (), timeout_ms: int | None = None) -> None:
        self._notes = notes
        self._containers = containers
        self._timeout_ms = timeout_ms
        self._nodes: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: str) -> bool:
        return any(node["name"] == name for node in self._nodes)

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """In the form of `spec.dag`."""
        return self._nodes

    def add(
        self,
        wanted: str,
        source: MessageSource,
        path: str,
        *,
        calls: Mapping[str, Any] | None = None,
        merge: Mapping[str, Any] | None = None,
        route: Mapping[str, Any] | None = None,
        skip: bool = False,
    ) -> str:
        """Adds a node that receives the messages of `source`, and returns its name.

        Without a call, a merge and a route, it passes its input through. A call that needs several messages at once
        becomes a merge. Raises CannotImport if nothing joins them.
        """
        if merge is None and source.shape != "one" and len(source.nodes) > 1:
            calls, merge = None, self._merge_for(source, path, calls, route)
        if calls is None and merge is None and route is None:
            route = {}
        if len(self._nodes) >= MOST_NODES:
            raise CannotImport(Fault(path, f"it would produce more than {MOST_NODES:,} nodes"))
        name = self._node_name(wanted, path, calls, merge, route)
        node: dict[str, Any] = {"name": name}
        called = calls or (merge or {}).get("implementation") or (route or {}).get("implementation")
        optional = {
            "dependencies": list(source.nodes), "merge": merge, "implementation": calls, "route": route,
            "timeoutMs": self._timeout_ms if called else None, "onError": "skip" if skip else None,
        }  # fmt: skip
        node |= {key: value for key, value in optional.items() if value is not None and value != []}
        self._nodes.append(node)
        return name

    def set_route(self, name: str, route: Mapping[str, Any]) -> None:
        next(node for node in self._nodes if node["name"] == name)["route"] = route

    def branch(
        self, router: str, mark: int, result: MessageSource, wanted: str, path: str
    ) -> tuple[str, MessageSource]:
        """The single child of `router` for all nodes added since `mark`, a number of nodes, and the adjusted `result`.

        A route selects children: if several nodes follow the router, or none, a pass-through node is put before them.
        """
        children = [node for node in self._nodes[mark:] if router in node.get("dependencies", ())]
        if len(children) == 1 and router not in result.nodes:
            return children[0]["name"], result
        gate = self.add(wanted, MessageSource((router,)), path)
        self._nodes.insert(mark, self._nodes.pop())
        for child in children:
            child["dependencies"] = [gate if on == router else on for on in child["dependencies"]]
        return gate, MessageSource(tuple(gate if node == router else node for node in result.nodes), result.shape)

    def _merge_for(
        self, source: MessageSource, path: str, calls: Mapping[str, Any] | None, route: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        if source.shape == "either":
            raise CannotImport(
                Fault(
                    path,
                    "it receives one response or several, depending on the route of a request, and nothing joins them",
                )
            )
        if calls is None or route is not None:
            several = ", ".join(source.nodes)
            raise CannotImport(
                Fault(path, f"it receives the responses of {several} at once, and nothing joins them before")
            )
        self._notes.add(
            path,
            "it receives all responses in one call (merge.implementation), as '<node>.<tensor>': "
            f"{', '.join(source.nodes)}",
        )
        return {"implementation": calls}

    def _node_name(self, wanted: str, path: str, *parts: Mapping[str, Any] | None) -> str:
        plain = label(wanted)
        calls, merge, route = parts
        own = {(part or {}).get("implementation", {}).get("name") for part in (merge, route)}
        if calls is None and plain in self._containers and plain not in own:
            plain = join(plain, "pass")
        name = free(plain, [node["name"] for node in self._nodes])
        if name != wanted:
            self._notes.add(path, f"'{wanted}' becomes the node '{name}'")
        return name
