"""Plain English in what users read first: the README, and the reference pages, which hold the help of every command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tools.lint.files import File, Finding

WORDS = re.compile(r"\b(?:told|anew|nobody|somebody|whoever|of late)\b", re.IGNORECASE)
IS_NO = re.compile(r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b)\w+", re.IGNORECASE)
"""'X is no Y' in place of 'X is not a Y'. 'There is no Y' is plain."""


def plain_words(file: File) -> Iterator[Finding]:
    if file.path.suffix != ".md" or not (str(file.path) == "README.md" or file.path.is_relative_to("docs/reference")):
        return
    for number, line in enumerate(file.text.splitlines(), 1):
        for pattern in (WORDS, IS_NO):
            for match in pattern.finditer(line):
                yield Finding(file.path, f"'{match[0]}' is not plain English: say who does what", number)


RULES: tuple[Callable[[File], Iterator[Finding]], ...] = (plain_words,)
