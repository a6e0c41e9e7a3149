"""deploy/crds/<plural>.yaml, and the same for clients of a plane, from the catalog of kinds."""

from __future__ import annotations

import json
from typing import Any

import yaml

from mizzen.kinds.catalog import KINDS, Kind
from mizzen.kinds.schema import column_values
from mizzen.kinds.schema.column_values import ColumnSchema
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.resource import API_VERSION
from mizzen.server.kubernetes.discovery import SCALABLE_KINDS

GROUP, VERSION = API_VERSION.split("/")


def pages() -> dict[str, str]:
    """Path to content: for a cluster one for each kind, and for a plane, which shows them, one of all."""
    files = {f"deploy/crds/{kind.plural}.yaml": _text(crd(kind)) for kind in KINDS}
    shown = (json.dumps(without_nothing(established(kind)), ensure_ascii=False) for kind in KINDS)
    return {**files, SHOWN: "[\n" + ",\n".join(shown) + "\n]\n"}


def crd(kind: Kind) -> dict[str, Any]:
    schema = _whole(kind)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": kind.singular,
                "shortNames": [kind.short], "categories": list(kind.categories) or None,
            },
            "versions": [
                {
                    "name": VERSION, "served": True, "storage": True,
                    "subresources": {"status": {}, "scale": SCALE if kind.name in SCALABLE_KINDS else None},
                    "additionalPrinterColumns": _columns(kind),
                    "selectableFields": [{"jsonPath": f".{path}"} for path in kind.indexed] or None,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }  # fmt: skip


def established(kind: Kind) -> dict[str, Any]:
    """As a cluster tells of it once it knows the kind."""
    made = crd(kind)
    condition = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}
    status = {"acceptedNames": made["spec"]["names"], "storedVersions": [VERSION], "conditions": [condition]}
    return {**made, "status": status}


SHOWN = "src/mizzen/server/kubernetes/crds.json"
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _whole(kind: Kind) -> dict[str, Any]:
    return {
        "type": "object",
        "description": kind.about,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": schema_of(kind.spec),
            "status": schema_of(kind.status),
        },
    }


def _columns(kind: Kind) -> list[dict[str, Any]]:
    """In the order in which a plane shows them."""
    found = column_values.columns_of(kind)
    wide = [_column(column) for column in found if column.column.wide]
    return [*(_column(column) for column in found if not column.column.wide), AGE, *wide]


def _column(column: ColumnSchema) -> dict[str, Any]:
    path = column.column.path
    if path.startswith(column_values.CONDITION):
        wanted = path.removeprefix(column_values.CONDITION)
        path = f'status.conditions[?(@.type=="{wanted}")].status'
    return {
        "name": column.title, "type": column.type, "description": column.about, "jsonPath": f".{path}",
        "priority": 1 if column.column.wide else None,
    }  # fmt: skip


def _text(data: dict[str, Any]) -> str:
    head = "# Derived from src/mizzen/kinds by `make gen`; do not edit.\n"
    return head + yaml.dump(without_nothing(data), Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)


def without_nothing(value: Any) -> Any:
    match value:
        case dict():
            return {key: without_nothing(item) for key, item in value.items() if item is not None and item != ""}
        case list():
            return [without_nothing(item) for item in value]
    return value


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Anchors are legal YAML, and a nuisance to whoever reads or patches it."""
        return True
