"""Monitor: one monitoring tool over a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from mizzen.kinds.parts import env
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref, Resource, Spec, Status, format_time
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.text.names import Name

TENSORBOARD, SCALARS = "tensorboard", "scalars"
TOOLS = (TENSORBOARD, SCALARS)
"""`scalars` is our own viewer."""


def path_of(model: Ref) -> str:
    """Where the control API answers for the monitor of a model: what tools and pages have of it they have below."""
    within = "" if model.namespace == DEFAULT_NAMESPACE else f"/ns/{model.namespace}"
    return f"{within}/model/{model.name}/monitor"


def tool_path(model: Ref) -> str:
    return f"{path_of(model)}/tool/"


def page_path(model: Ref) -> str:
    """Of our own viewer."""
    return f"{path_of(model)}/page"


def _word(tool: str) -> str:
    if not re.fullmatch(r"[a-z][-_.a-z0-9]{0,62}", tool):
        raise ValueError(f"{tool[:100]!r} is no tool: a lower-case word such as {TOOLS[0]}")
    return tool


def first(monitors: Iterable[Resource]) -> Resource | None:
    """Of several over one model, the one that counts: the oldest."""
    staying = [monitor for monitor in monitors if not monitor.deleting]
    return min(staying, key=lambda each: (format_time(each.meta.created) if each.meta.created else "", each.meta.name),
               default=None)  # fmt: skip


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

    url: str | None = Field(default=None, description="Where the tool is seen, by whoever may read the model.")
    tool: str | None = Field(
        default=None, description="What is shown: the tool that was asked for, or `scalars` in its place."
    )
