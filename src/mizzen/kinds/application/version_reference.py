"""`modelVersion` of components and steps: the version to create, or the version to serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, name_faults
from mizzen.kinds.text import references
from mizzen.kinds.text.versions import Version


class VersionRef(Part):
    """One version of a model. Its short form is a text: `mymodel-v2`, `mymodel:2`, `mymodel@stable` or `mymodel`."""

    model_name: str = Field(description="The model. Without a `version`, `mymodel-v2` means version 2 of `mymodel`.")
    version: Version | None = Field(
        None, description="The version. Default: the next version when creating one, the current version when serving."
    )
    alias: str | None = Field(None, description="Serve the version of this alias of the model.")
    image_repo: str | None = Field(None, description="The image repository to push a new version to.")
    image_tag: str | None = Field(
        None, description="The tag of its image. Default: `v<version>`, or the version's name."
    )

    @property
    def model(self) -> str:
        return self._read[0]

    @property
    def number(self) -> str | None:
        """The version, in whichever form it was written; None if it was not."""
        return self._read[1]

    @property
    def suffixed(self) -> bool:
        """The version is taken from the end of `modelName`."""
        return self.version is None and self.number is not None

    @property
    def _read(self) -> tuple[str, str | None]:
        if self.version is None and self.alias is None:
            return references.split_version_suffix(self.model_name) or (self.model_name, None)
        return self.model_name, self.version

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from name_faults(self.model_name, f"{at}.modelName")
        if self.version is not None and self.alias is not None:
            yield Fault(at, "may have a version or an alias, not both")


def _long_form(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    reference = references.parse(value)
    if reference.alias:
        return {"modelName": reference.name, "alias": reference.alias}
    model, version = reference.name, reference.version
    if not version:
        model, version = references.split_version_suffix(model) or (model, "")
    return {"modelName": model, "version": version} if version else {"modelName": model}


WrittenVersionRef = Annotated[VersionRef, BeforeValidator(_long_form)]
"""A field that accepts the text or the object."""
