"""Parsing of the output of uv and pip: the progress of a build, and the reason of its failure. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Resolved (\d+) packages?\b"), lambda found: f"downloading {_packages(found[1])}"),
    (re.compile(r"Downloading (\S+ \([\d.]+ ?\w+\))"), lambda found: f"downloading {found[1].rpartition('/')[2]}"),
    (re.compile(r"Prepared (\d+) packages?\b"), lambda found: f"installing {_packages(found[1])}"),
    (re.compile(r"\s*Building (?:wheel for )?(\S+)"), lambda found: f"building {found[1]} from source"),
    (re.compile(r"Collecting ([^\s<>=!~;\[(]+)"), lambda found: f"resolving {found[1]}"),
    (
        re.compile(r"Installing collected packages: (.+)"),
        lambda found: f"installing {_packages(str(found[1].count(',') + 1))}",
    ),
)
_NOISE = re.compile(r"^\W*(?:hint:|notice\]|warning:|Using \w+ )", re.IGNORECASE)
_ERROR = re.compile(r"^\W*error: *", re.IGNORECASE)
_FRAME = re.compile(r"^[\s\u00d7\u2500-\u257f\u25b6]+")
_UNREACHED = re.compile(
    r"dns error|client error|error sending request|Failed to fetch|Connection|timed? ?out|Temporary failure|offline|"
    r"network connectivity was disabled|NewConnectionError|proxy",
    re.IGNORECASE,
)
_ABSENT = re.compile(r"No matching distribution|not found in the package registry|no versions? of|No solution found")
_LINES = 8
_LONGEST = 600


def parse_step(line: str) -> str | None:
    """The progress that this line reports; None: it reports none."""
    for pattern, describe in _STEPS:
        found = pattern.match(line)
        if found:
            return describe(found)
    return None


def explain_failure(lines: Sequence[str]) -> str:
    """Why the build failed, in one line from its last output, and what to do about it."""
    printed = [stripped for line in lines if not _NOISE.match(line) and (stripped := _FRAME.sub("", line).strip())]
    first = next((index for index, line in enumerate(printed) if _ERROR.match(line)), 0)
    text = " ".join(" ".join(_ERROR.sub("", line) for line in printed[first:][-_LINES:]).split())
    text = text if len(text) <= _LONGEST else f"… {text[-_LONGEST:]}"
    return f"{text or 'it printed nothing'}{_advise(' '.join(lines))}"


def _advise(text: str) -> str:
    if _UNREACHED.search(text):
        return (
            " (the package index cannot be reached from the plane's machine: configure uv or pip there, or give the "
            "plane a folder of wheels with the setting environment_wheels)"
        )
    if _ABSENT.search(text):
        return " (check the name, and that this version exists for this Python and this machine)"
    return ""


def _packages(number: str) -> str:
    return "1 package" if number == "1" else f"{number} packages"
