"""The names by which graphs call models: the original ones, unless they are ambiguous here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mizzen.importers.dns_labels import free, join, label
from mizzen.importers.notes import ImportNotes
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE


class NameRegistry:
    """The names in use in one import. `graphs`: the (namespace, name) of all its MLGraphs. A model must not have the
    name of a graph: both would be the same callable name, and the graph would call itself."""

    def __init__(self, graphs: Collection[tuple[str, str]] = ()) -> None:
        self._graphs = frozenset(graphs)
        self._meant: dict[tuple[str, str], str] = {}

    def name(self, namespace: str, candidates: tuple[str, ...], meant: str) -> str:
        """The first of `candidates` that is free or has the same meaning; else the last one with a number."""
        name = next((each for each in candidates if self._is_free(namespace, each, meant)), None)
        if name is None:
            taken = {known for space, known in (*self._meant, *self._graphs) if space == namespace}
            name = free(candidates[-1], taken)
        self._meant[namespace, name] = meant
        return name

    def _is_free(self, namespace: str, name: str, meant: str) -> bool:
        return (namespace, name) not in self._graphs and self._meant.get((namespace, name), meant) == meant


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The graph being built, and what it shares with the other graphs of the import."""

    graph: str
    namespace: str
    served: NameRegistry
    notes: ImportNotes

    def name_of(self, wanted: str, meant: str, path: str) -> str:
        """The name by which to call `meant`, whose original name is `wanted`."""
        plain = label(wanted, "model")
        own = join(plain, "model") if plain == self.graph else join(self.graph, plain)
        name = self.served.name(self.namespace, (plain, own), meant)
        if name != wanted:
            why = "" if name == plain else ", since a graph or another model has that name"
            self.notes.add(path, f"'{wanted}' is called '{name}' here{why}")
        return name

    def deploy_command(self, name: str) -> str:
        """The command that serves it."""
        where = "" if self.namespace == DEFAULT_NAMESPACE else f" -n {self.namespace}"
        return f"mizzen deploy PATH --name {name}{where}"
