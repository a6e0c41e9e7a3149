"""Requirements on Python packages: a single requirement, and the lines of a requirements file.

Pure, and without pydantic, since the CLI reads such files, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

OLDEST = (3, 10)
"""The oldest Python version that a runtime supports."""
FILE = "requirements.txt"

_NAME = r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(rf"({_NAME})\s*(?:$|[\[@;<>=!~(\s].*)")
_HASH = re.compile(r"\s--hash=[a-z0-9]+:[0-9a-f]+(?=\s|$)")
_OPTION = re.compile(r"\s-")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
_PYTHON = re.compile(r"3\.(\d{1,3})(?:\.\d{1,3})?")


def requirement(line: str) -> str:
    """The requirement, if it is valid. Raises ValueError. Of pip's options, only --hash is allowed."""
    if not line.isprintable() or not _REQUIREMENT.fullmatch(line):
        raise ValueError(f"{line[:100]!r} is not a valid requirement; expected one as for pip, such as 'numpy>=1.26'")
    if _PASSWORD.search(line):  # the message must not repeat it: every reader of the version would see it
        raise ValueError("contains a password; configure credentials in uv or pip on the machine of the plane")
    if _OPTION.search(_HASH.sub("", line)):
        raise ValueError(f"{line[:100]!r} contains an option; only --hash may follow a requirement")
    return line


def python_version(text: str) -> str:
    """The Python version, if it is valid. Raises ValueError."""
    found = _PYTHON.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is not a valid Python version; expected 3.12, or 3.12.4 for exactly that one")
    if (3, int(found[1])) < OLDEST:
        raise ValueError(f"models need Python {'.'.join(map(str, OLDEST))} or newer, not {text}")
    return text


def package(line: str) -> str:
    """The normalized name of the package; empty if `line` is not a requirement."""
    found = _REQUIREMENT.fullmatch(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def normal(lines: Iterable[str]) -> tuple[str, ...]:
    """The requirements in a normal form, so that equal sets share one environment."""
    return tuple(sorted({_normal(line) for line in lines}))


def read(text: str) -> tuple[str, ...]:
    """The requirements of a pip requirements file, with comments, continued lines and hashes.

    Raises ValueError, which names the line. References to other files, indexes or folders are rejected: a version must
    be self-contained.
    """
    return tuple(_check_line(line, number) for number, line in _lines(text))


def _normal(line: str) -> str:
    name = _REQUIREMENT.fullmatch(line)
    rest = line[len(name[1]) :] if name else line
    if "@" in rest:  # spaces are significant in a URL
        return f"{package(line)} {' '.join(rest.split())}"
    rest, *hashes = rest.split(" --")
    specifier, semicolon, marker = rest.partition(";")
    plain = package(line) + "".join(specifier.split()) + semicolon + " ".join(marker.split())
    return " --".join([plain, *sorted(each.strip() for each in hashes)])


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


def _check_line(line: str, number: int) -> str:
    try:
        return requirement(line)
    except ValueError as error:
        why = f"{line[:100]!r} is a pip option" if line.startswith("-") else str(error)
        hint = (
            "; list the packages themselves. Configure indexes on the machine of the plane"
            if line.startswith("-")
            else ""
        )
        raise ValueError(f"line {number}: {why}{hint}") from None
