"""Errors about names. All stores raise these, each with a hint."""

from __future__ import annotations

from mizzen.errors import AlreadyExists, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref, Resource


class Missing(NotFound):
    """The object does not exist. Callers may suggest similar names."""

    def __init__(self, ref: Ref, hint: str) -> None:
        super().__init__(f"{ref} does not exist", hint=hint)
        self.ref = ref


def missing(ref: Ref) -> Missing:
    kind = catalog.BY_NAME.get(ref.kind)
    where = "" if ref.namespace in (DEFAULT_NAMESPACE, "") else f" -n {ref.namespace}"
    tool = "kubectl" if kind in catalog.CORE else "mizzen"
    return Missing(ref, f"'{tool} get {kind.plural}{where}' lists those that exist" if kind else "")


def name_taken(there: Resource) -> AlreadyExists:
    if there.deleting:
        return AlreadyExists(f"{there.ref} still exists: it is being deleted", hint="wait until it is gone")
    return AlreadyExists(f"{there.ref} already exists")
