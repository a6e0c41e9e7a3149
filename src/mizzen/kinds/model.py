"""Model, a named group of versions, and ModelVersion, one immutable version of its code and files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mizzen.kinds.meta import VERSION, Part, Spec, Status

LONGEST_PART = 255
"""Bytes in a name of a file or folder."""

RESERVED_VERSIONS = frozenset({"auto", "latest", "current"})

Framework = Literal["sklearn", "python"]
FRAMEWORKS: tuple[Framework, ...] = ("sklearn", "python")


def normal_version(version: str | int) -> str:
    """`7`, `v7` and `007` are version 7; anything else is a lower-case name. Raises ValueError."""
    text = str(version)
    number = re.fullmatch(r"v?(\d{1,18})", text)
    if number:
        if int(number[1]) == 0:
            raise ValueError("versions count from 1")
        return str(int(number[1]))
    if text in RESERVED_VERSIONS:
        raise ValueError(f"'{text}' is reserved and cannot name a version")
    if not VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is no version: a number, or lower-case letters, digits, '-' and '.'")
    return text


Version = Annotated[str, AfterValidator(normal_version)]


def version_object_name(model: str, version: str) -> str:
    """A model's name holds no dot, so this splits again at the first one."""
    return f"{model}.{version}"


class ModelSpec(Spec):
    framework: Framework | None = Field(None, description="Framework of versions that do not name their own.")
    track: Literal["manual", "latest"] = Field(
        "manual",
        description="`manual`: the current version moves by promotion; `latest`: to each new version that is ready.",
    )


class Current(Part):
    """Which version answers to the model's name, and who decided so when."""

    version: str
    actor: str
    time: str


class ModelStatus(Status):
    highest_version: int = Field(
        0, description="The highest number ever given; a deleted version never frees its number."
    )
    current: Current | None = None
    previous: str | None = Field(None, description="The version that was current before.")


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


class Artifact(Part):
    """One file of a version, kept in Blobs under its digest."""

    path: Annotated[str, AfterValidator(_inside)] = Field(
        description="Where the file stands in the version's folder, with forward slashes."
    )
    digest: str = Field(description="sha256:<hex> of the content.", pattern=r"^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0)
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


class ModelVersionSpec(Spec):
    model_name: str
    version: Version
    framework: Framework
    artifacts: Annotated[tuple[Artifact, ...], AfterValidator(_beside_each_other)] = Field(min_length=1)
    entrypoint: str | None = Field(
        None, description="For framework `python`: `module:object` within the artifacts. For others, the file to load."
    )
    created_by: str = ""


class ModelVersionStatus(Status):
    """Condition `Servable`: True once a server of this version answered; False with the reason it could not load."""
