"""Monitor: a monitoring tool for the training runs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field

from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.schema.findings import Context, Finding, Warn, suggestion
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Ref, Resource, Spec, Status, format_time
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.text.names import Name
from mizzen.kinds.text.patterns import matching

TENSORBOARD, SCALARS = "tensorboard", "scalars"
TOOLS = (TENSORBOARD, SCALARS)
"""`scalars` is the built-in viewer."""


def path_of(model: Ref) -> str:
    """The path of a model's monitor in the control API; the paths of its tool and page are below it."""
    within = "" if model.namespace == DEFAULT_NAMESPACE else f"/ns/{model.namespace}"
    return f"{within}/model/{model.name}/monitor"


def tool_path(model: Ref) -> str:
    return f"{path_of(model)}/tool/"


def page_path(model: Ref) -> str:
    """The path of the built-in viewer."""
    return f"{path_of(model)}/page"


def first(monitors: Iterable[Resource]) -> Resource | None:
    """The monitor in effect if a model has several: the oldest."""
    staying = [monitor for monitor in monitors if not monitor.deleting]
    return min(staying, key=lambda each: (format_time(each.meta.created) if each.meta.created else "", each.meta.name),
               default=None)  # fmt: skip


ToolName = Annotated[
    str,
    matching(r"[a-z][-_.a-z0-9]{0,62}", f"a valid tool name; expected a lower-case word such as {TENSORBOARD}"),
]


class MonitorSpec(Spec):
    model_name: Name = Field(description="The model to monitor. A model has at most one monitor.")
    tool: ToolName | None = Field(
        None, description="`tensorboard`, or `scalars`, the built-in viewer. Default: by the model's framework."
    )
    env: Annotated[tuple[EnvVar, ...], MaxItems(256)] = Field(
        (), description="Environment variables: values, or references to secrets."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from uniqueness.name_faults(self.env, f"{at}.env", "variable")
        if self.tool is not None and self.tool not in TOOLS:
            hint = suggestion(self.tool, TOOLS, "known")
            yield Warn(f"{at}.tool", f"unknown tool '{self.tool}', so the built-in viewer is used; {hint}")


class MonitorStatus(Status):
    """Conditions: `Accepted`, `Ready` (the tool answers)."""

    url: str | None = Field(default=None, description="Where to open the tool. Readers of the model have access.")
    tool: str | None = Field(default=None, description="The tool in use: the requested one, or `scalars` in its place.")
