"""Names by which graphs call models: those that others gave them, unless here they would mean something else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mizzen.importers.dns_labels import free, joined, label
from mizzen.importers.notes import Notes
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE


class Served:
    """Of one import. `graphs` are the (namespace, name) of all MLGraphs that come of it: a graph and a model of one
    name would be one callable name here, and a graph that calls itself never ends."""

    def __init__(self, graphs: Collection[tuple[str, str]] = ()) -> None:
        self._graphs = frozenset(graphs)
        self._meant: dict[tuple[str, str], str] = {}

    def name(self, namespace: str, candidates: tuple[str, ...], meant: str) -> str:
        """The first of `candidates` that is free or means the same; the last with a number where none is."""
        name = next((each for each in candidates if self._is_free(namespace, each, meant)), None)
        if name is None:
            taken = {known for space, known in (*self._meant, *self._graphs) if space == namespace}
            name = free(candidates[-1], taken)
        self._meant[namespace, name] = meant
        return name

    def _is_free(self, namespace: str, name: str, meant: str) -> bool:
        return (namespace, name) not in self._graphs and self._meant.get((namespace, name), meant) == meant


@dataclass(frozen=True, slots=True)
class Caller:
    """A graph that is made, and what it has in common with the others of its import."""

    graph: str
    namespace: str
    served: Served
    notes: Notes

    def name_of(self, wanted: str, meant: str, path: str) -> str:
        """The name to call `meant` by, which was called `wanted`."""
        plain = label(wanted, "model")
        own = joined(plain, "model") if plain == self.graph else joined(self.graph, plain)
        name = self.served.name(self.namespace, (plain, own), meant)
        if name != wanted:
            why = "" if name == plain else ", since a graph or another model has that name"
            self.notes.add(path, f"'{wanted}' is called as '{name}'{why}")
        return name

    def deploying(self, name: str) -> str:
        """The command that serves it."""
        where = "" if self.namespace == DEFAULT_NAMESPACE else f" -n {self.namespace}"
        return f"mizzen deploy PATH --name {name}{where}"
