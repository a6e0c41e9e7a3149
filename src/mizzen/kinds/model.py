"""Model, a named group of versions, and ModelVersion, one immutable version of its code and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of
from mizzen.kinds.parts.checks import Checks, Hook
from mizzen.kinds.parts.pods import image_warning
from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Planned, Spec, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text import requirements
from mizzen.kinds.text.frameworks import FRAMEWORKS, Framework, framework_warning
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.patterns import matching
from mizzen.kinds.text.references import UnaliasedText, parse_unaliased
from mizzen.kinds.text.urls import FileUrl, Repository, Sha256sum
from mizzen.kinds.text.versions import RESERVED_VERSIONS, Version, check_alias, normal_version

__all__ = [
    "FRAMEWORKS", "RESERVED_VERSIONS", "Artifact", "Code", "Current", "Framework", "Git",
    "ModelSpec", "ModelStatus", "ModelVersionSpec", "ModelVersionStatus", "VersionSource", "Version",
    "normal_version", "version_object_name",
]  # fmt: skip

LONGEST_PART = 255
"""The most bytes in the name of a file or folder."""


def version_object_name(model: str, version: str) -> str:
    """A model's name has no dot, so the first dot separates the two again."""
    return f"{model}.{version}"


class ModelSpec(Spec):
    framework: Framework | None = Field(None, description="The framework of versions that do not declare one.")
    track: Literal["manual", "latest"] = Field(
        "manual",
        description="`manual`: only promotions change the current version; "
        "`latest`: each new version becomes current when ready.",
    )
    aliases: Annotated[dict[str, Version], MaxItems(1000)] = Field(
        default_factory=dict,
        description="Names for versions, such as `prod: '3'`. They can be used in place of a version.",
    )
    alias_of: UnaliasedText | None = Field(
        None, description="Makes this model a second name of `name` or `name:version`, without versions of its own."
    )
    checks: Annotated[Checks | None, Planned()] = Field(
        None, description="Checks that each version must pass before it becomes active."
    )
    hooks: Annotated[tuple[Hook, ...], MaxItems(256), Planned()] = Field(
        (), description="Commands and webhooks to call when something happens to a version."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework, f"{at}.framework")
        for alias in self.aliases:
            try:
                check_alias(alias)
            except ValueError as error:
                yield Fault(f"{at}.aliases", str(error))
        if self.alias_of is None:
            return
        if parse_unaliased(self.alias_of).name == context.name:
            yield Fault(f"{at}.aliasOf", "names the model itself")
        for field in ("aliases", "track", "checks", "hooks"):
            if field in self.model_fields_set and getattr(self, field):
                yield Fault(
                    f"{at}.{field}", "not possible together with aliasOf: a second name has no versions of its own"
                )


class Current(Part):
    """The current version of a model, and who made it current and when."""

    version: str = Field(description="The version.")
    actor: str = Field(description="The actor who made it current.")
    time: str = Field(description="When, in UTC.")


class ModelStatus(Status):
    """Condition `Accepted`."""

    highest_version: int = Field(
        default=0,
        description="The highest version number ever assigned. The number of a deleted version is not reused.",
    )
    current: Current | None = Field(default=None, description="The version that serves the model's name.")
    previous: str | None = Field(default=None, description="The version that was current before this one.")
    aliases: dict[str, str] = Field(
        default_factory=dict,
        description="The version that serves each alias now. It changes once the new version is ready.",
    )
    alias_of: str | None = Field(
        default=None,
        description="For a second name: the target that serves it now. A new target replaces it once ready.",
    )


def _inside(path: str) -> str:
    """A path that stays inside the version's folder on all common file systems. Raises ValueError."""
    parts = path.split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise ValueError(f"{path[:100]!r} is not a relative path inside the version's folder")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise ValueError(f"{path[:100]!r} is not valid Unicode") from None
    if longest > LONGEST_PART:
        raise ValueError(f"one of its parts has {longest} bytes; at most {LONGEST_PART} are allowed")
    return path


Digest = Annotated[str, matching(r"sha256:[0-9a-f]{64}", "a digest; expected sha256: and 64 hexadecimal digits")]


class Artifact(Part):
    """One file of a version, stored in the blob store under its digest."""

    path: Annotated[str, AfterValidator(_inside)] = Field(
        description="The path in the version's folder, with forward slashes."
    )
    digest: Digest = Field(description="sha256:<hex> of the content.")
    size: int = Field(ge=0, description="The size of the content in bytes.")
    trusted: bool = Field(
        False, description="Whether the file may be unpickled. Set by the plane, by the rights of the uploader."
    )


def _check_paths(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    paths = Counter(artifact.path for artifact in artifacts)
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for path, times in paths.items():
        if times > 1:
            raise ValueError(f"'{path}' is listed twice")
        if path in folders:
            raise ValueError(f"'{path}' is both a file and a folder")
    return artifacts


Commit = Annotated[
    str,
    matching(r"[0-9a-f]{40}|[0-9a-f]{64}", "a commit; expected 40 or 64 hexadecimal digits, since branches move"),
]
GitRef = Annotated[str, matching(r"[!-,.-~][!-~]*", "a branch, tag or commit")]
"""Without a leading '-', which would be an option to git."""


class Git(Part):
    repo: Repository = Field(description="The repository: a URL, host:path or a path.")
    commit: Commit = Field(description="The commit, resolved at registration.")
    ref: GitRef | None = Field(None, description="The branch or tag that was requested; it may have moved since.")
    digest: Digest | None = Field(None, description="sha256:<hex> of the content, as stored in the blob store.")


class Code(Part):
    """The code of a version; its artifacts are the data. A data-only update keeps the code."""

    digest: Digest | None = Field(None, description="sha256:<hex> over the paths and digests of its code files.")
    git: Git | None = Field(None, description="In place of `digest`: a commit of a git repository.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("digest", "git"), at, context)


class VersionSource(Part):
    """Where the files were downloaded from."""

    url: FileUrl = Field(description="The URL they were downloaded from.")
    sha256sum: Sha256sum | None = Field(None, alias="sha256sum", description="The sha256 of the download.")


Requirement = Annotated[str, AfterValidator(requirements.requirement)]
PythonVersion = Annotated[str, AfterValidator(requirements.python_version)]


class ModelVersionSpec(Spec):
    model_name: Name = Field(description="The Model that this is a version of.")
    version: Version = Field(description="A number, or a lower-case name. `7`, `v7` and `007` are the same version.")
    framework: Framework = Field(description="The framework that loads it.")
    code: Code | None = Field(None, description="The code: an archive or a commit.")
    artifacts: Annotated[tuple[Artifact, ...], AfterValidator(_check_paths), MaxItems(5000)] = Field(
        (), description="The files: parameters, and code that is not in `code`."
    )
    requirements: Annotated[tuple[Requirement, ...], MaxItems(1000)] = Field(
        (),
        description="Python packages it needs, one requirement per entry as for pip. If set, the version runs in its "
        "own environment, with these packages and numpy only, and an admin must trust it.",
    )
    python: PythonVersion | None = Field(
        None, description="The Python version to run with, such as `3.12`. Default: that of the plane."
    )
    image: str | None = Field(None, min_length=1, description="A container image that contains and serves it.")
    entrypoint: str | None = Field(
        None,
        description="For the framework `python`: `module:object` within the artifacts. For others, the file to load.",
    )
    source: VersionSource | None = Field(None, description="Where its files were downloaded from.")
    created_by: str = Field("", description="The actor who registered it. Set by the plane.")
    parent_job: str | None = Field(None, description="The TrainingJob that created it.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework, f"{at}.framework")
        nothing = not self.artifacts and self.code is None and self.image is None
        if nothing and context.was_read(at, "artifacts", "code", "image"):
            yield Fault(f"{at}.artifacts", "required, unless code or an image is given")
        if self.image is not None and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", "it cannot be served here")
        yield from _repeat_faults(self.requirements, f"{at}.requirements")


def _repeat_faults(lines: tuple[str, ...], at: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, line in enumerate(lines):
        package = requirements.package(line) if ";" not in line else ""
        if package and package in seen:
            yield Fault(f"{at}[{index}]", f"there is already a requirement for '{package}'")
        seen.add(package)


class ModelVersionStatus(Status):
    """Conditions: `Accepted`; `Servable`: True once a server of it answered, False if it could not be loaded."""

    signature: Signature | None = Field(
        default=None, description="Its inputs and outputs, as reported by its first server."
    )
