"""The documented commands: blocks of README and pages that are marked as tested.

A block under `<!-- tested -->` is run, `sh` by bash and `python` by the environment's interpreter; it must succeed. The
lines of a block under `<!-- output -->` must appear in what the run before it printed, in that order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WALKS = (
    ("README.md", 8), ("docs/tutorial.md", 11), ("docs/serving-models.md", 8), ("docs/autoscaling.md", 2),
    ("docs/environments.md", 3), ("docs/importing.md", 2), ("docs/graphs.md", 9), ("docs/training.md", 10),
)  # fmt: skip
"""Pages with such blocks, and how many at least."""

_BLOCK = re.compile(r"^<!-- (?P<mark>tested|output) -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Step:
    language: str
    code: str
    output: tuple[str, ...]
    line: int


def steps(text: str) -> list[Step]:
    found: list[Step] = []
    for block in _BLOCK.finditer(text):
        if block["mark"] == "tested":
            found.append(Step(block["language"], block["text"], (), text.count("\n", 0, block.start()) + 1))
        else:
            last = found.pop()
            found.append(Step(last.language, last.code, tuple(block["text"].splitlines()), last.line))
    return found


def walk(page: str) -> list[Step]:
    return steps((ROOT / page).read_text())
