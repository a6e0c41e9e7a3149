"""The nodes of an MLGraph, as they are added one behind the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from mizzen.errors import Fault
from mizzen.importers.dns_labels import free, joined, label
from mizzen.importers.notes import CannotImport, Notes

MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True)
class Source:
    """Where messages come from: nodes, or, without any, the request."""

    nodes: tuple[str, ...] = ()
    shape: Literal["one", "several", "either"] = "one"
    """Of the nodes one sends a message, or several do; or that depends on the way a request took."""

    @classmethod
    def any_of(cls, sources: Sequence[Source]) -> Source:
        """One of them sends."""
        shapes = {source.shape for source in sources}
        nodes = dict.fromkeys(node for source in sources for node in source.nodes)
        return cls(tuple(nodes), shapes.pop() if len(shapes) == 1 else "either")

    @classmethod
    def all_of(cls, sources: Sequence[Source]) -> Source:
        """Each of them sends."""
        return cls(tuple(dict.fromkeys(node for source in sources for node in source.nodes)), "several")


REQUEST: Final = Source()


class Dag:
    """`containers` are those of `spec.custom`: a node of such a name that says nothing else would run it."""

    def __init__(self, notes: Notes, *, containers: Collection[str] = (), timeout_ms: int | None = None) -> None:
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
        """As `spec.dag` has them."""
        return self._nodes

    def add(
        self,
        wanted: str,
        source: Source,
        path: str,
        *,
        calls: Mapping[str, Any] | None = None,
        merge: Mapping[str, Any] | None = None,
        route: Mapping[str, Any] | None = None,
        skip: bool = False,
    ) -> str:
        """A node that gets what `source` sends; its name. One without all three passes on what it gets.

        A call that is to get several messages at once gets them as a merge does. CannotImport where nothing joins them.
        """
        if merge is None and source.shape != "one" and len(source.nodes) > 1:
            calls, merge = None, self._joining(source, path, calls, route)
        if calls is None and merge is None and route is None:
            route = {}
        if len(self._nodes) >= MOST_NODES:
            raise CannotImport(Fault(path, f"it makes more than {MOST_NODES:,} nodes"))
        name = self._named(wanted, path, calls, merge, route)
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

    def branch(self, router: str, mark: int, result: Source, wanted: str, path: str) -> tuple[str, Source]:
        """The one child of `router` that stands for all that was added since `mark`, when there were that many nodes;
        and `result` as it is then. A route takes children: where several, or none, follow, one is put before them."""
        children = [node for node in self._nodes[mark:] if router in node.get("dependencies", ())]
        if len(children) == 1 and router not in result.nodes:
            return children[0]["name"], result
        gate = self.add(wanted, Source((router,)), path)
        self._nodes.insert(mark, self._nodes.pop())
        for child in children:
            child["dependencies"] = [gate if on == router else on for on in child["dependencies"]]
        return gate, Source(tuple(gate if node == router else node for node in result.nodes), result.shape)

    def _joining(
        self, source: Source, path: str, calls: Mapping[str, Any] | None, route: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        if source.shape == "either":
            raise CannotImport(
                Fault(path, "it gets one answer or several, by the way a request took; nothing joins them")
            )
        if calls is None or route is not None:
            several = ", ".join(source.nodes)
            raise CannotImport(Fault(path, f"it gets the answers of {several} at once, and nothing joins them before"))
        self._notes.add(
            path,
            f"it gets all answers in one call (merge.implementation), as '<node>.<tensor>': {', '.join(source.nodes)}",
        )
        return {"implementation": calls}

    def _named(self, wanted: str, path: str, *said: Mapping[str, Any] | None) -> str:
        plain = label(wanted)
        calls, merge, route = said
        own = {(part or {}).get("implementation", {}).get("name") for part in (merge, route)}
        if calls is None and plain in self._containers and plain not in own:
            plain = joined(plain, "pass")
        name = free(plain, [node["name"] for node in self._nodes])
        if name != wanted:
            self._notes.add(path, f"'{wanted}' is the node '{name}'")
        return name
