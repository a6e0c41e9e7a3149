"""The routes built from a Table: from URLs and names to endpoints. Never changed, only replaced as a whole.

The Table has the version of each alias, from the status of its Model (`graph/compile/table.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from mizzen.access.policy import Target
from mizzen.errors import NotFound, Unavailable
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.protocols import V1
from mizzen.gateway.request.url_paths import DEFAULT_NAMESPACE
from mizzen.protocol.v2 import shorten


@dataclass(slots=True, eq=False)
class NamedRoute:
    """One callable name."""

    current: Endpoint
    versions: dict[str, Endpoint]
    aliases: dict[str, Endpoint] = field(default_factory=dict)

    def find(self, version: str | None, *, label: bool = False) -> Endpoint | None:
        """The endpoint of this version or alias in a URL, or None. With `label` it can only be an alias."""
        if version is None:
            return self.current
        return (None if label else self.versions.get(version)) or self.aliases.get(version)


@dataclass(slots=True, eq=False)
class Routes:
    hot: dict[bytes, Endpoint] = field(default_factory=dict)
    """Endpoints by infer URL, byte for byte as clients write it."""
    names: dict[tuple[str, str], NamedRoute] = field(default_factory=dict)
    """By namespace and name."""
    graph_headers: frozenset[bytes] = frozenset()
    """Headers that graphs read or pass on, in lower case."""
    from_table: bool = True
    """False before the first valid Table: a name that is missing here may still be served."""

    def add(self, route: NamedRoute) -> None:
        """Add a name with the URLs of its current version, its versions and its aliases, in V2 and V1."""
        current = route.current
        self.names[current.namespace, current.name] = route
        aliases = {quote(alias, safe=""): endpoint for alias, endpoint in route.aliases.items()}
        versions = aliases | {quote(version, safe=""): endpoint for version, endpoint in route.versions.items()}
        places = {"": current} | {f"/versions/{version}": endpoint for version, endpoint in versions.items()}
        labels = {f"/labels/{alias}": endpoint for alias, endpoint in aliases.items()}
        v1 = {place: endpoint.with_codec(V1) for place, endpoint in (places | labels).items()}
        name = quote(current.name, safe="")
        for prefix in _prefixes(current.namespace):
            for place, endpoint in places.items():
                self.hot[f"{prefix}/v2/models/{name}{place}/infer".encode()] = endpoint
            for place, endpoint in v1.items():
                self.hot[f"{prefix}/v1/models/{name}{place}:predict".encode()] = endpoint

    def name(self, namespace: str, name: str) -> NamedRoute:
        found = self.names.get((namespace, name))
        if found is not None:
            return found
        if not self.from_table:
            raise Unavailable("the table cannot be read yet")
        place = "" if namespace == DEFAULT_NAMESPACE else f" in namespace '{shorten(namespace)}'"
        known = [known for space, known in self.names if space == namespace]
        raise NotFound(f"no model '{shorten(name)}'{place}{_did_you_mean(shorten(name), known)}")

    def find(self, namespace: str, name: str, version: str | None, *, label: bool = False) -> Endpoint:
        """Raises NotFound with a suggestion, and Unavailable before the first Table."""
        found = self.name(namespace, name)
        endpoint = found.find(version, label=label)
        if endpoint is None:
            known = [*([] if label else found.versions), *found.aliases]
            given = shorten(version or "")
            what = f"label '{given}' of '{name}' is known" if label else f"version '{given}' of '{name}' is served"
            raise NotFound(f"no {what}{_did_you_mean(given, known)}")
        return endpoint

    def target(self, namespace: str, name: str, version: str | None = None, *, label: bool = False) -> Target:
        """The target of a URL for the access policy, even if nothing of that name is served."""
        found = self.names.get((namespace, name))
        endpoint = None if found is None else found.find(version, label=label)
        if endpoint is not None:
            return endpoint.target
        models = frozenset({name}) if found is None else found.current.target.models
        return Target(namespace, "Model", name, models=models, alias=version or "")


def _prefixes(namespace: str) -> tuple[str, ...]:
    spelled = f"/ns/{quote(namespace, safe='')}"
    return ("", spelled) if namespace == DEFAULT_NAMESPACE else (spelled,)


def _did_you_mean(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
