"""Monitor: one monitoring tool over a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from mizzen.kinds.caps import Most
from mizzen.kinds.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.meta import Spec, Status
from mizzen.kinds.parts import env
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.text.names import Name

TOOLS = ("tensorboard", "scalars")
"""`scalars` is our own viewer."""


def _word(tool: str) -> str:
    if not re.fullmatch(r"[a-z][-_.a-z0-9]{0,62}", tool):
        raise ValueError(f"{tool[:100]!r} is no tool: a lower-case word such as {TOOLS[0]}")
    return tool


class MonitorSpec(Spec):
    model_name: Name = Field(description="The model that is watched; it has one monitor.")
    tool: Annotated[str, AfterValidator(_word)] | None = Field(
        None, description="`tensorboard` or `scalars`, our own viewer. Absent: by the model's framework."
    )
    env: Annotated[tuple[EnvVar, ...], Most(256)] = Field(
        (), description="Variables of its environment: values and references to secrets."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from env.repeated(self.env, f"{at}.env")
        if self.tool is not None and self.tool not in TOOLS:
            hint = suggestion(self.tool, TOOLS, "known")
            yield Warn(f"{at}.tool", f"unknown tool '{self.tool}', so scalars are shown; {hint}")


class MonitorStatus(Status):
    """Conditions: `Accepted`, `Ready` (the tool answers)."""

    url: str | None = Field(default=None, description="Where the tool answers.")
    tool: str | None = Field(default=None, description="The tool that runs.")
