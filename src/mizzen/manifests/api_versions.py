"""The apiVersions and kinds that manifests may use, and what they are read as. Pure.

Only readers of files accept them: no API of ours serves these groups, which on a cluster may belong to other products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.findings import Finding, Findings, Warn, close_to, suggestion
from mizzen.kinds.schema.resource import API_VERSION

OAM: Final = "core.oam.dev/v1beta1"
MLSPEC: Final = "serving.mlspec.org/v1alpha2"


@dataclass(frozen=True, slots=True)
class ApiVersionAlias:
    kinds: tuple[str, ...]
    meant: str = ""
    """The apiVersion that the author most likely meant; using this one causes a warning."""


ALIASES: Final[Mapping[str, ApiVersionAlias]] = {
    MLSPEC: ApiVersionAlias(("MLGraph",)),
    "sedna.io/v1alpha1": ApiVersionAlias(("InferenceModel", "TrainingModel")),
    OAM: ApiVersionAlias(("Application", "Initializer")),
    "serving.mlpsepc.org/v1alpha1": ApiVersionAlias(("MLGraph",), meant=MLSPEC),
    "mlgraph.org/v1alpha1": ApiVersionAlias(("MLGraph",), meant=MLSPEC),
}


def resolve(api_version: Any, kind: Any) -> tuple[Kind | None, Findings]:
    """The kind, or None if it cannot be determined, and all faults and warnings of the two fields."""
    found, kind_faults = _kind(kind)
    return found, Findings.of((*_api_version(api_version, kind), *kind_faults))


def _api_version(given: Any, kind: Any) -> Iterator[Finding]:
    if given in (None, ""):
        missing = kind in ALIASES[OAM].kinds
        yield (
            Warn("apiVersion", f"missing, read as {OAM}")
            if missing
            else Fault("apiVersion", f"required; write {API_VERSION}")
        )
    elif not isinstance(given, str):
        yield Fault("apiVersion", f"must be a text; quote it: '{given}'")
    elif given in ALIASES:
        yield from _alias(given, kind)
    elif given != API_VERSION:
        yield Fault("apiVersion", f"unknown '{given}'; {suggestion(given, _possible(kind))}")


def _alias(given: str, kind: Any) -> Iterator[Finding]:
    alias = ALIASES[given]
    if kind not in alias.kinds and kind in _FILE_KINDS:
        carried = " and ".join(alias.kinds)
        yield Fault("apiVersion", f"'{given}' has {carried}, but no {kind}; did you mean '{API_VERSION}'?")
    elif alias.meant:
        yield Warn("apiVersion", f"'{given}' is read as {API_VERSION}; did you mean '{alias.meant}'?")


def _kind(given: Any) -> tuple[Kind | None, tuple[Fault, ...]]:
    if given in (None, ""):
        return None, (Fault("kind", f"required; kinds are {', '.join(_WRITABLE_KINDS)}"),)
    if not isinstance(given, str):
        return None, (Fault("kind", f"must be a text; quote it: '{given}'"),)
    found = _FILE_KINDS.get(given)
    if found is None:
        # The closest kind is examined, too, so that one typo does not hide other faults.
        close = close_to(given, _FILE_KINDS)
        meant = _FILE_KINDS[close] if close else None
        return meant, (Fault("kind", f"unknown '{given}'; {suggestion(given, tuple(_WRITABLE_KINDS), 'kinds')}"),)
    return found, ()


def _possible(kind: Any) -> tuple[str, ...]:
    """The valid apiVersions for this kind; all of them if the kind is unknown."""
    carrying = [
        name for name, alias in ALIASES.items() if not alias.meant and (kind in alias.kinds or kind not in _FILE_KINDS)
    ]
    return (API_VERSION, *carrying)


_FILE_KINDS: Final[Mapping[str, Kind]] = {
    name: kind for kind in catalog.KINDS for name in (kind.name, *kind.other_names)
}
_WRITABLE_KINDS: Final = tuple(name for name, kind in _FILE_KINDS.items() if not kind.internal)
