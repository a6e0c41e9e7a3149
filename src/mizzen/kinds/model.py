"""Model, a named group of versions, and ModelVersion, one immutable version of its code and files."""

from __future__ import annotations

import re
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
from mizzen.kinds.schema.resource import Part, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text import requirements
from mizzen.kinds.text.frameworks import FRAMEWORKS, Framework, framework_warning
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.references import UnaliasedText, parse_unaliased
from mizzen.kinds.text.urls import FileUrl, Repository, Sha256sum
from mizzen.kinds.text.versions import RESERVED_VERSIONS, Version, checked_alias, normal_version

__all__ = [
    "FRAMEWORKS", "RESERVED_VERSIONS", "Artifact", "Code", "Current", "Framework", "Git",
    "ModelSpec", "ModelStatus", "ModelVersionSpec", "ModelVersionStatus", "Source", "Version",
    "normal_version", "version_object_name",
]  # fmt: skip

LONGEST_PART = 255
"""Bytes in a name of a file or folder."""


def version_object_name(model: str, version: str) -> str:
    """A model's name holds no dot, so this splits again at the first one."""
    return f"{model}.{version}"


class ModelSpec(Spec):
    framework: Framework | None = Field(None, description="Framework of versions that do not name their own.")
    track: Literal["manual", "latest"] = Field(
        "manual",
        description="`manual`: the current version moves by promotion; `latest`: to each new version that is ready.",
    )
    aliases: Annotated[dict[str, Version], Most(1000)] = Field(
        default_factory=dict, description="Names for versions, such as `prod: '3'`; they stand where a version may."
    )
    alias_of: UnaliasedText | None = Field(
        None, description="Makes this a second name of another model, `name` or `name:version`, without own versions."
    )
    checks: Checks | None = Field(None, description="What each version must pass before it becomes active.")
    hooks: Annotated[tuple[Hook, ...], Most(256)] = Field(
        (), description="Commands and webhooks told of what happens to versions."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework, f"{at}.framework")
        for alias in self.aliases:
            try:
                checked_alias(alias)
            except ValueError as error:
                yield Fault(f"{at}.aliases", str(error))
        if self.alias_of is None:
            return
        if parse_unaliased(self.alias_of).name == context.name:
            yield Fault(f"{at}.aliasOf", "names the model itself")
        for field in ("aliases", "track", "checks", "hooks"):
            if field in self.model_fields_set and getattr(self, field):
                yield Fault(f"{at}.{field}", "not possible beside aliasOf: a second name owns no versions")


class Current(Part):
    """Which version answers to the model's name, and who decided so when."""

    version: str = Field(description="The version.")
    actor: str = Field(description="Who made it current.")
    time: str = Field(description="When, in UTC.")


class ModelStatus(Status):
    """Condition `Accepted`."""

    highest_version: int = Field(
        default=0, description="The highest number ever given; a deleted version never frees its number."
    )
    current: Current | None = Field(default=None, description="The version that answers to the model's name.")
    previous: str | None = Field(default=None, description="The version that was current before.")
    aliases: dict[str, str] = Field(
        default_factory=dict, description="The version that answers for each alias now; it follows once one is ready."
    )
    alias_of: str | None = Field(
        default=None,
        description="Of a second name: what answers to it now; it follows `spec.aliasOf` once that is ready.",
    )


def _inside(path: str) -> str:
    """A path that stays inside the version's folder, on any file system we know."""
    parts = path.split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise ValueError(f"{path[:100]!r} is no relative path inside the version's folder")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise ValueError(f"{path[:100]!r} is no Unicode text") from None
    if longest > LONGEST_PART:
        raise ValueError(f"a part of it has {longest} bytes; {LONGEST_PART} are possible")
    return path


def _digest(text: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        raise ValueError(f"{text[:100]!r} is no digest: sha256: and 64 hexadecimal digits")
    return text


Digest = Annotated[str, AfterValidator(_digest)]


class Artifact(Part):
    """One file of a version, kept in Blobs under its digest."""

    path: Annotated[str, AfterValidator(_inside)] = Field(
        description="Where the file stands in the version's folder, with forward slashes."
    )
    digest: Digest = Field(description="sha256:<hex> of the content.")
    size: int = Field(ge=0, description="Bytes of the content.")
    trusted: bool = Field(False, description="May be unpickled. Set by the plane, from who brought the file.")


def _beside_each_other(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    paths = Counter(artifact.path for artifact in artifacts)
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for path, times in paths.items():
        if times > 1:
            raise ValueError(f"'{path}' is named twice")
        if path in folders:
            raise ValueError(f"'{path}' is both a file and a folder")
    return artifacts


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text):
        raise ValueError(f"{text[:100]!r} is no commit: 40 or 64 hexadecimal digits; a branch moves")
    return text


def _git_ref(text: str) -> str:
    if not re.fullmatch(r"[!-,.-~][!-~]*", text):  # a leading '-' would be an option to git
        raise ValueError(f"{text[:100]!r} is no branch, tag or commit")
    return text


class Git(Part):
    repo: Repository = Field(description="Where the repository is: a URL, host:path or a path.")
    commit: Annotated[str, AfterValidator(_commit)] = Field(description="The commit, resolved when it was registered.")
    ref: Annotated[str, AfterValidator(_git_ref)] | None = Field(
        None, description="The branch or tag that was asked for; it may have moved since."
    )
    digest: Digest | None = Field(None, description="sha256:<hex> of the content, as it was kept in Blobs.")


class Code(Part):
    """The code half of a version; its artifacts are the other. A data-only update keeps this one."""

    digest: Digest | None = Field(None, description="sha256:<hex> over the paths and digests of its code files.")
    git: Git | None = Field(None, description="In place of `digest`: a commit of a git repository.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("digest", "git"), at, context)


class Source(Part):
    """Where the files were taken from."""

    url: FileUrl = Field(description="The address they were fetched from.")
    sha256sum: Sha256sum | None = Field(None, alias="sha256sum", description="sha256 of what was fetched.")


Requirement = Annotated[str, AfterValidator(requirements.requirement)]
PythonVersion = Annotated[str, AfterValidator(requirements.python_version)]


class ModelVersionSpec(Spec):
    model_name: Name = Field(description="The Model it is a version of.")
    version: Version = Field(description="A number, or a lower-case name. `7`, `v7` and `007` are the same.")
    framework: Framework = Field(description="What loads it.")
    code: Code | None = Field(None, description="Its code: an archive or a commit.")
    artifacts: Annotated[tuple[Artifact, ...], AfterValidator(_beside_each_other), Most(5000)] = Field(
        (), description="Its files: parameters, and code that is not in `code`."
    )
    requirements: Annotated[tuple[Requirement, ...], Most(1000)] = Field(
        (),
        description="Python packages it needs, one line each as for pip. With any, it runs in an environment of its "
        "own that holds these and numpy, and nothing else; such a version has to be trusted.",
    )
    python: PythonVersion | None = Field(
        None, description="The Python it runs with, such as `3.12`, when it is not the plane's own."
    )
    image: str | None = Field(None, min_length=1, description="A container image that holds and serves it.")
    entrypoint: str | None = Field(
        None, description="For framework `python`: `module:object` within the artifacts. For others, the file to load."
    )
    source: Source | None = Field(None, description="Where its files were fetched from.")
    created_by: str = Field("", description="Who registered it. Set by the plane.")
    parent_job: str | None = Field(None, description="The TrainingJob that made it.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from framework_warning(self.framework, f"{at}.framework")
        nothing = not self.artifacts and self.code is None and self.image is None
        if nothing and context.read(at, "artifacts", "code", "image"):
            yield Fault(f"{at}.artifacts", "required, unless code or an image is given")
        if self.image is not None and "containers" not in context.capabilities:
            yield image_warning(f"{at}.image", "it cannot be served here")
        yield from _repeated_packages(self.requirements, f"{at}.requirements")


def _repeated_packages(lines: tuple[str, ...], at: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, line in enumerate(lines):
        package = requirements.package(line) if ";" not in line else ""
        if package and package in seen:
            yield Fault(f"{at}[{index}]", f"a second requirement for '{package}'")
        seen.add(package)


class ModelVersionStatus(Status):
    """Conditions: `Accepted`; `Servable`: True once a server answered; False with the reason it could not load."""

    signature: Signature | None = Field(
        default=None, description="What it takes and gives, as the first server of it that answered said."
    )
