"""How far the archive of a manifest's entry is on its way to become a version. Told by whoever fetches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, ModelFile


@dataclass(frozen=True, slots=True)
class Progress:
    state: Literal["fetching", "failed"]
    message: str


class Fetching(Protocol):
    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> Progress:
        """Begins to fetch, unless that is under way or has just failed, and tells how far it is. Returns at once.

        The version is there when it is done. What the same InferenceModel wanted before is not fetched any further.
        """
        ...

    def forget(self, ref: Ref) -> None:
        """This InferenceModel wants nothing any more."""
        ...


class NoFetching:
    """Where nothing is fetched."""

    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> Progress:
        return Progress("failed", "nothing is fetched here; register the version instead")

    def forget(self, ref: Ref) -> None:
        pass


def entry_of(spec: InferenceModelSpec) -> ModelFile | None:
    """The one that is to be served; None when the spec has no manifest that counts."""
    if spec.image or not spec.manifest:
        return None
    wanted = spec.target_version or spec.manifest[0].version
    return next((entry for entry in spec.manifest if entry.version == wanted), None)
