"""Python packages as people name them: one requirement, and the lines of a requirements file.

Pure, and without pydantic: the CLI reads such files, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

OLDEST = (3, 10)
"""The oldest Python that a runtime works with."""
FILE = "requirements.txt"

_NAME = r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(rf"({_NAME})\s*(?:$|[\[@;<>=!~(\s].*)")
_HASH = re.compile(r"\s--hash=[a-z0-9]+:[0-9a-f]+(?=\s|$)")
_OPTION = re.compile(r"\s-")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_PYTHON = re.compile(r"3\.(\d{1,3})(?:\.\d{1,3})?")


def requirement(line: str) -> str:
    """One requirement. ValueError. Of options, such as pip has many, only hashes are part of one."""
    if not line.isprintable() or not _REQUIREMENT.fullmatch(line):
        raise ValueError(f"{line[:100]!r} is no requirement: write one as pip takes it, such as 'numpy>=1.26'")
    if _PASSWORD.search(line):  # not shown: everybody who may read the version would see it
        raise ValueError("holds a password; whoever runs the plane keeps it in their own settings of uv or pip")
    if _OPTION.search(_HASH.sub("", line)):
        raise ValueError(f"{line[:100]!r} holds an option; only --hash may stand behind a requirement")
    return line


def python_version(text: str) -> str:
    """A Python to run with. ValueError."""
    found = _PYTHON.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is no Python version: write 3.12, or 3.12.4 for that one only")
    if (3, int(found[1])) < OLDEST:
        raise ValueError(f"models are served with Python {'.'.join(map(str, OLDEST))} and newer, not with {text}")
    return text


def package(line: str) -> str:
    """The name of the package, spelled as indexes do; empty when it is no requirement."""
    found = _REQUIREMENT.fullmatch(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def normal(lines: Iterable[str]) -> tuple[str, ...]:
    """The same set in the same words, however it was written: what makes two environments one."""
    return tuple(sorted({_normal(line) for line in lines}))


def read(text: str) -> tuple[str, ...]:
    """The requirements of a file as pip takes it: comments, continued lines and hashes. ValueError names the line.

    What leads elsewhere (other files, other indexes, folders to install) is refused: a version holds all it needs.
    """
    return tuple(_checked(line, number) for number, line in _lines(text))


def _normal(line: str) -> str:
    name = _REQUIREMENT.fullmatch(line)
    rest = line[len(name[1]) :] if name else line
    if "@" in rest:  # blanks mean something in an address
        return f"{package(line)} {' '.join(rest.split())}"
    rest, *hashes = rest.split(" --")
    specifier, semicolon, marker = rest.partition(";")
    told = package(line) + "".join(specifier.split()) + semicolon + " ".join(marker.split())
    return " --".join([told, *sorted(each.strip() for each in hashes)])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    gathered, first = "", 0
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = _COMMENT.sub("", raw)
        first = first or number
        if line.rstrip().endswith("\\"):
            gathered += line.rstrip()[:-1] + " "
            continue
        whole = " ".join((gathered + line).split())
        if whole:
            yield first, whole
        gathered, first = "", 0
    if gathered.strip():
        yield first, " ".join(gathered.split())


def _checked(line: str, number: int) -> str:
    try:
        return requirement(line)
    except ValueError as error:
        why = f"{line[:100]!r} leads elsewhere" if line.startswith("-") else str(error)
        hint = "; name the packages themselves. Indexes are set where the plane runs" if line.startswith("-") else ""
        raise ValueError(f"line {number}: {why}{hint}") from None
