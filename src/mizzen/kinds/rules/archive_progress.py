"""The progress of an archive of `spec.manifest` toward a version, as its downloader reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, ModelFile


@dataclass(frozen=True, slots=True)
class FetchProgress:
    state: Literal["fetching", "failed"]
    message: str


class ArchiveFetcher(Protocol):
    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> FetchProgress:
        """Starts the download, unless it is running or has just failed, and returns its progress at once.

        The version exists when the download is done. An earlier download of the same InferenceModel is cancelled.
        """
        ...

    def forget(self, ref: Ref) -> None:
        """This InferenceModel no longer needs a download."""
        ...


class NoArchiveFetcher:
    """An implementation that downloads nothing."""

    def look(self, resource: Resource, spec: InferenceModelSpec, entry: ModelFile) -> FetchProgress:
        return FetchProgress("failed", "downloads are not available here; register the version instead")

    def forget(self, ref: Ref) -> None:
        pass


def entry_of(spec: InferenceModelSpec) -> ModelFile | None:
    """The entry to serve; None if the spec has no manifest, or an image takes precedence."""
    if spec.image or not spec.manifest:
        return None
    wanted = spec.target_version or spec.manifest[0].version
    return next((entry for entry in spec.manifest if entry.version == wanted), None)
